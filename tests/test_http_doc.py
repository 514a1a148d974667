"""docs/http.md tells of every endpoint, every struct and every field, and of nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from relay import web
from tests.httpdoc import fields, structs

PAGE = (Path(__file__).parent.parent / "docs" / "http.md").read_text()


@pytest.mark.parametrize("struct", structs(), ids=lambda struct: struct.__name__)
def test_every_field_is_told_with_its_type(struct: type[msgspec.Struct]) -> None:
    section = re.search(rf"^### {struct.__name__}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, f"docs/http.md has no section {struct.__name__}"
    told = re.findall(r"^\| `(\w+)` \| (.*?) \| \S", section[1], re.MULTILINE)
    assert told == fields(struct)


def test_no_struct_is_told_that_is_not_there() -> None:
    assert re.findall(r"^### (\w+)$", PAGE, re.MULTILINE) == [struct.__name__ for struct in structs()]


def test_every_endpoint_is_told() -> None:
    told = re.findall(r"^\| `(/[^`?]*)(?:\?[^`]*)?` \|", PAGE, re.MULTILINE)
    assert told == [path.replace("(.+)", "...") for path, _ in web.ENDPOINTS]


def test_limits_are_those_of_the_code() -> None:
    for limit in (web.MAX_CONNECTIONS, int(web.IDLE_SECONDS), web.STALL_MILLISECONDS // 1000, web.MAX_HEAD // 1024):
        assert re.search(rf"\b{limit}\b", PAGE)
