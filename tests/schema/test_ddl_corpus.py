"""The schema history and the server agree on the result of every statement of the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.dbserver import KINDS, DatabaseServer
from tests.ddl_corpus import CASES, FAILING, UNKNOWN
from tests.support.statement_replay import record, replay

pytestmark = pytest.mark.every_server

SCHEMAS = ("d", "d_2")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_statements_make_what_the_server_makes_of_them(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    wrong: list[str] = []
    unknown: dict[str, list[str]] = {}
    failed: dict[str, list[str]] = {}
    for number, (name, statements) in enumerate(CASES[kind].items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        recording = record(server, statements, SCHEMAS)
        findings = replay(server, recording, folder)
        wrong += [f"{name}: {each}" for each in findings.wrong]
        if findings.unknown:
            unknown[name] = findings.unknown
        if recording.errors and name not in FAILING:
            failed[name] = recording.errors
    assert not wrong
    assert not failed, "the server did not take statements of the corpus"
    assert unknown.keys() == UNKNOWN[kind], unknown


def test_the_corpus_is_large() -> None:
    assert len(set().union(*CASES.values())) >= 150
