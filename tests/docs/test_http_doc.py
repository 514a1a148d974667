"""docs/http.md describes every endpoint, every document and every field, and nothing else."""

from __future__ import annotations

import re

import msgspec
import pytest

from relay.monitoring import http
from tests.support import ROOT
from tests.support.http_documents import fields, sections

PAGE = (ROOT / "docs" / "http.md").read_text()


@pytest.mark.parametrize("struct", sections(), ids=lambda struct: struct.__name__)
def test_every_field_is_told_with_its_type(struct: type[msgspec.Struct]) -> None:
    section = re.search(rf"^### {struct.__name__}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, f"docs/http.md has no section {struct.__name__}"
    rows = re.findall(r"^\| (`[\w.\[\]`, ]+`) \| (.*?) \| \S", section[1], re.MULTILINE)
    told = [(name, kind) for names, kind in rows for name in re.findall(r"`(.+?)`", names)]
    assert told == fields(struct)


def test_no_section_is_of_a_struct_that_is_not_there() -> None:
    assert re.findall(r"^### (\w+)$", PAGE, re.MULTILINE) == [struct.__name__ for struct in sections()]


def test_every_endpoint_is_told() -> None:
    told = re.findall(r"^\| `(/[^`?]*)(?:\?[^`]*)?` \|", PAGE, re.MULTILINE)
    assert told == [path.replace("(.+)", "...") for path, _ in http.ENDPOINTS]


def test_limits_are_those_of_the_code() -> None:
    for limit in (http.MAX_CONNECTIONS, int(http.IDLE_SECONDS), http.STALL_MILLISECONDS // 1000, http.MAX_HEAD // 1024):
        assert re.search(rf"\b{limit}\b", PAGE)
