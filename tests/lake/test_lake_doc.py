"""docs/lake.md agrees with the code: every field is described, and its example is a valid commit."""

from __future__ import annotations

import re

import msgspec
import pytest

from relay.lake import documents, log, paths
from relay.lake.documents import Commit, LakeState
from relay.lake.types import META_FIELDS
from tests.support import ROOT
from tests.support.lake_commits import place

PAGE = (ROOT / "docs" / "lake.md").read_text()
DOCUMENTS = (
    Commit,
    documents.Checkpoint,
    documents.DataFile,
    documents.Field,
    documents.Gap,
    documents.Known,
    documents.LatestCheckpoints,
    documents.Marker,
    documents.ExportPosition,
    documents.Part,
    documents.Snapshot,
    documents.TableVersion,
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.__name__))
def test_the_page_names_every_field(document: type[msgspec.Struct]) -> None:
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`", PAGE))))
    assert not set(document.__struct_fields__) - words


def test_the_page_names_every_column_of_the_lakes_own() -> None:
    for field in META_FIELDS:
        assert re.search(rf"`{field.name}`[^|]*\b{field.type}\b", PAGE), field.name


def test_the_example_is_a_commit_with_nothing_unknown_in_it() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    commit = msgspec.json.decode(example, type=Commit)
    known = msgspec.json.decode(msgspec.json.encode(commit))
    given = msgspec.json.decode(example)
    assert given.pop("id") == known.pop("id")
    assert given == known
    state = LakeState(number=1, place=place(0))
    log.fold(state, commit)
    (table,) = state.tables.values()
    assert (table.complete_from, table.sides, state.files) == (2, ["due__text"], 1)


def test_the_page_says_what_is_encoded() -> None:
    listed = re.search(r"U\+007F and ``(.*?)`` are", PAGE)
    assert listed is not None
    for character in listed[1].split():
        assert paths.encode(character) == f"%{ord(character):02X}"
    assert [c for c in map(chr, range(32, 127)) if paths.encode(c) != c] == sorted(listed[1].split())
