"""Random workloads of tables in schemas from before the binlog and in new ones, read from the oldest binlog on."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from examples.dbserver import KINDS, DatabaseServer
from relay._native import JournalReader
from relay.binlog.events.position import BinlogPosition
from relay.journal import frames
from relay.runtime.process_status import AssumedRows
from tests.support.charset_workload import CharsetWorkload, Written
from tests.support.lagging_reader import delivered
from tests.support.reader_process import Reader

STATEMENTS = int(os.environ.get("RELAY_STATEMENTS", "1500"))  # of each workload
pytestmark = [pytest.mark.slow, pytest.mark.every_server, pytest.mark.timeout(300 + STATEMENTS)]

Read = Callable[..., Reader]


class Got(NamedTuple):
    """A row of the journal, with its position in the binlog."""

    row: Written
    proven: bool
    position: BinlogPosition


def got(journal_dir: Path, committed: int) -> list[Got]:
    """Every row of a journal."""
    journal, file = JournalReader(journal_dir), ""
    where: list[BinlogPosition] = []
    for _, payload in journal.frames(journal.first(), committed):
        frame = frames.decode(payload)
        if isinstance(frame, frames.File | frames.Source):
            file = frame.file
        elif isinstance(frame, frames.Rows):
            where += [BinlogPosition(file, frame.end_position)] * frame.rows
    return [
        Got(Written(row.schema, row.table, values(row.cells)), row.proven, position)
        for row, position in zip(delivered(journal_dir, committed), where, strict=True)
    ]


def values(cells: tuple[tuple[str, str | None], ...]) -> dict[str, str]:
    """The values of a row without hashes of unique keys, which SELECT does not show."""
    return {name: str(value) for name, value in cells if not name.startswith("DB_ROW_HASH")}


def read(server: DatabaseServer, workload: CharsetWorkload, make_reader: Read) -> tuple[Reader, list[Got]]:
    """A new reader that has read a workload from the oldest binlog on, with what it makes of it."""
    workload.run(STATEMENTS)
    settings = {"Source.StartPosition": "oldest", "Source.Tables": f"{workload.prefix}*.*"}
    settings |= {"Relay.OnPartialImage": "send"}  # MariaDB 11.8.9 omits hashes of unique keys
    reader = make_reader(server, settings).streaming()
    server.execute(
        f"CREATE TABLE {workload.prefix}_old0.end (id INT)", f"INSERT INTO {workload.prefix}_old0.end VALUES (1)"
    )
    reader.until(lambda: reader.count("end"), 60 + STATEMENTS / 10)
    reader.until(lambda: not kept(reader, "assumed version "))
    found = got(reader.journal_dir, reader.arena.committed)[:-1]
    assert len(found) == len(workload.written)
    return reader, found


def kept(reader: Reader, prefix: str) -> list[str]:
    """What the reader has in state.db under the keys that begin with `prefix`."""
    path = reader.journal_dir.parent / "state.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return [text for (text,) in database.execute("SELECT value FROM source WHERE key LIKE ?", (prefix + "%",))]


@pytest.fixture
def prefix() -> str:
    return f"charset_{secrets.token_hex(4)}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_row_of_a_workload_without_alter_database_is_right_and_proven(
    kind: str, seed: int, request: pytest.FixtureRequest, make_reader: Read, prefix: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    # MySQL's table maps have the character sets, so that none is assumed, and none is known before the first row.
    workload = CharsetWorkload(server, prefix, seed, sized=not server.kind.mysql)
    try:
        reader, found = read(server, workload, make_reader)
    finally:
        workload.drop()
    assert [each for each in found if not each.proven] == [], "rows that stop a client"
    differences = [(one.row, other) for one, other in zip(found, workload.written, strict=True) if one.row != other]
    assert differences == []
    assert kept(reader, "assumed ") == kept(reader, "assumed counted")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [3, 4])
def test_every_wrong_value_of_a_workload_with_alter_database_is_in_the_counts(
    kind: str, seed: int, request: pytest.FixtureRequest, make_reader: Read, prefix: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    workload = CharsetWorkload(server, prefix, seed, alters=True)
    try:
        reader, found = read(server, workload, make_reader)
    finally:
        workload.drop()
    wrong: dict[tuple[str, str], list[BinlogPosition]] = {}
    for one, other in zip(found, workload.written, strict=True):
        if one.proven and one.row != other:
            assert one.row.values.keys() == other.values.keys(), "a name is wrong"
            wrong.setdefault((other.schema, other.table), []).append(one.position)
    reader.until(lambda: not uncounted(wrong, reader.context.assumed_page.decode(AssumedRows)))
    if not server.kind.mysql:
        assert wrong, "this workload proves nothing"


def uncounted(wrong: dict[tuple[str, str], list[BinlogPosition]], counted: AssumedRows) -> list[tuple[str, str]]:
    """The tables with wrong rows that are not all in the counts, in their range."""
    counts = {(each.schema, each.table): each for each in counted.tables}
    return [
        table
        for table, where in wrong.items()
        if (count := counts.get(table)) is None
        or len(where) > count.rows
        or not position(count.first) <= min(where) <= max(where) <= position(count.last)
    ]


def position(text: str) -> BinlogPosition:
    file, _, offset = text.rpartition(":")
    return BinlogPosition(file, int(offset))
