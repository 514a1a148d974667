"""Recorded binlogs of servers that cannot be started here are read as those servers wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relay._native import Attention, RowImages
from relay.binlog.decoder import Decoder
from relay.binlog.events import FormatDescriptionEvent, RowsEvent, RowsV0Event, table_maps
from relay.binlog.files import BinlogFile
from relay.ddl import Dialect, parse_statement
from relay.ddl.dialect import version_of
from relay.ddl.syntax import CreateTable
from relay.errors import RelayError, StopCode
from relay.journal.frames import Definition
from relay.schema.create import created_table
from relay.schema.matching import definition, mismatch
from relay.schema.table import Table
from tests.fixtures.rows_v0 import VERSION, written
from tests.support import FIXTURES, source_rows
from tests.support.binlogs import ARTIFICIAL, Fed, StreamPosition, made, packed
from tests.support.journal_rows import journaled

RECORDED = sorted(path.stem for path in FIXTURES.glob("mysql56-*.binlog"))
DIALECT = Dialect(*version_of("5.6.24-log"))
State = dict[str, dict[bytes, dict[str, bytes | None]]]
"""Rows by id, by table."""


def stream(events: bytes, file: str) -> bytes:
    """Events of a file, its four first bytes left out, as a server sends them."""
    sent, at = made(4, (4).to_bytes(8, "little") + file.encode(), 0, ARTIFICIAL, 0), 0
    while at < len(events):
        size = int.from_bytes(events[at + 9 : at + 13], "little")
        sent += packed(events[at : at + size])
        at += size
    return sent


def encoded(value: Any) -> bytes | None:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def recorded(name: str) -> tuple[dict[str, Table], State]:
    """Each table as the server told of its columns, and its rows as it printed them."""
    document = json.loads((FIXTURES / f"{name}.json").read_text())
    tables, state = dict[str, Table](), State()
    for table, found in document["tables"].items():
        tables[table] = listed(table, found["columns"])
        names = [column.name for column in tables[table].columns]
        rows = [dict(zip(names, map(encoded, row), strict=True)) for row in found["rows"]]
        state[table] = {row["id"] or b"": row for row in rows}
    return tables, state


def listed(table: str, columns: list[list[str]]) -> Table:
    """A table by its rows in information_schema.COLUMNS."""
    specs = [
        f"`{name}` {kind} {f'CHARACTER SET {charset}' if charset else ''} {'NULL' if null == 'YES' else 'NOT NULL'}"
        for name, _, kind, charset, null, _ in columns
    ]
    statement = parse_statement(f"CREATE TABLE `{table}` ({', '.join(specs)}, PRIMARY KEY (id))", "fixture", DIALECT)
    [change] = statement.changes
    assert isinstance(change, CreateTable)
    return created_table(change, "latin1", DIALECT)


def described(table_map: table_maps.TableMap, tables: dict[str, Table]) -> Definition:
    table = tables[table_map.table]
    assert not mismatch(table_map, table, {}, DIALECT)
    return definition(table, DIALECT, table_map)


def replayed(changes: Iterable[tuple[str, dict[str, Any] | None, dict[str, Any] | None]]) -> State:
    """What is left when changes (table, before, after) are applied one after the other."""
    state = State()
    for table, before, after in changes:
        rows = state.setdefault(table, {})
        old = rows.pop(encoded(before["id"]) or b"") if before else {}
        if before:
            assert old == old | {name: encoded(value) for name, value in before.items()}, table
        if after:
            new = old | {name: encoded(value) for name, value in after.items()}
            rows[new["id"] or b""] = new
    return state


def check(got: State, expected: State) -> None:
    assert got.keys() == expected.keys()
    wrong = [
        f"{table}: {got[table]!r:.300}, not {rows!r:.300}" for table, rows in expected.items() if got[table] != rows
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", RECORDED)
def test_the_ingest_reads_what_mysql_56_wrote(name: str, tmp_path: Path) -> None:
    tables, expected = recorded(name)

    def answer(asked: Attention) -> bool:
        if asked.asks != "table":
            return False
        table = source_rows.packed(described(table_maps.parse(asked.body), tables))
        fed.ingest.define(asked.table_id, table, table)
        return True

    fed = Fed(tmp_path, answer=answer)
    fed.begin(StreamPosition("binlog.000002", 4))
    fed.feed(stream((FIXTURES / f"{name}.binlog").read_bytes()[4:], "binlog.000002"))
    assert "unknown" not in {asked.asks for asked in fed.asked}
    sides = (
        (event.table.table, *row)
        for event in journaled(fed)
        for row in msgspec.msgpack.decode(RowImages(event.packed, event.kind, event.body).pack("text"))
    )
    check(replayed(sides), expected)
    for event in journaled(fed):
        assert event.columns().num_rows == len(event.texts()) * (2 if event.kind == 2 else 1)


@pytest.mark.parametrize("name", RECORDED)
def test_the_decoder_of_events_reads_what_mysql_56_wrote(name: str) -> None:
    tables, expected = recorded(name)
    decoder, changes = Decoder(), list[Any]()
    with BinlogFile(FIXTURES / f"{name}.binlog") as log:
        while log.fetch() == 0 and log.replication.size:
            event = decoder.decode(log.replication.buffer[1:])
            assert (event.header.checksum is None) == (
                name.endswith("none") and type(event) is not FormatDescriptionEvent
            )
            if isinstance(event, RowsEvent) and event.table_map:
                columns = event.table_map.columns
                table_map = table_maps.TableMap(event.table_id, "fixture", event.table_map.table, columns)
                rows = decoder.rows(event, described(table_map, tables))
                changes += [(table_map.table, row.before, row.after) for row in rows]
    check(replayed(changes), expected)


def test_every_type_that_mysql_56_has_was_recorded() -> None:
    for name in ("mysql56-v1-none", "mysql56-v2-crc32"):
        tables, rows = recorded(name)
        said = {column.type.name for table in tables.values() for column in table.columns}
        assert {"time", "datetime", "timestamp", "geometry", "set", "enum", "bit", "decimal", "longblob"} <= said
        assert sum(map(len, rows.values())) > 400


def test_a_source_that_writes_version_0_of_rows_events_is_refused_by_name(tmp_path: Path) -> None:
    fed = Fed(tmp_path)
    fed.begin(StreamPosition("binlog.000001", 4))
    with pytest.raises(RelayError, match=r"the source is 5\.1\.16") as refused:
        fed.feed(stream(written()[4:], "binlog.000001"))
    assert refused.value.code is StopCode.UNKNOWN_EVENT


def test_rows_events_of_version_0_are_never_passed_over_unasked(tmp_path: Path) -> None:
    assert (FIXTURES / "rows-v0.binlog").read_bytes() == written()
    newer = written()[4:].replace(VERSION, b"5.6.24-log".ljust(len(VERSION), b"\0"))
    fed = Fed(tmp_path)
    fed.begin(StreamPosition("binlog.000001", 4))
    fed.feed(stream(newer, "binlog.000001"))
    assert [asked.type for asked in fed.asked if asked.asks == "unknown"] == [20, 21, 22]
    assert fed.rows() == []


def test_rows_events_of_version_0_are_told_for_what_they_are() -> None:
    with BinlogFile(FIXTURES / "rows-v0.binlog") as log:
        found = [event for event in log if isinstance(event, RowsV0Event)]
    assert [(event.type, event.table_id) for event in found] == [(20, 7), (21, 7), (22, 7)]
