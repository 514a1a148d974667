"""Every event of a real server decodes to its struct, with all its fields."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay.binlog import events
from relay.binlog.decoder import Decoder
from relay.binlog.rowvalues import Row, Value
from tests.binlogs import place, record, split


def raw_events(stream: bytes) -> Iterator[bytes]:
    """The events of a recorded stream."""
    return (packet[5:] for packet in split(stream) if packet[4] == 0)


@pytest.mark.usefixtures("full_metadata")
def test_rows_and_statements_of_a_transaction(server: DatabaseServer, db: str) -> None:
    start = place(server)
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, a VARCHAR(9))", f"INSERT INTO {db}.t VALUES (1, 'x')")
    server.execute(f"UPDATE {db}.t SET a = 'y'", f"DELETE FROM {db}.t")
    decoder = Decoder()
    found = [decoder.decode(raw) for raw in raw_events(record(server, start))]
    rows = [event for event in found if isinstance(event, events.RowsEvent)]
    assert [type(event) for event in rows] == [events.WriteRowsEvent, events.UpdateRowsEvent, events.DeleteRowsEvent]
    assert all(event.table_map and event.table_map.database == db for event in rows)
    ddl = [event for event in found if isinstance(event, events.QueryEvent) and event.statement != "BEGIN"]
    assert [event.statement for event in ddl] == [f"CREATE TABLE {db}.t (id INT PRIMARY KEY, a VARCHAR(9))"]
    for event in found:
        assert msgspec.json.decode(msgspec.json.encode(event), type=events.Event) == event


@pytest.mark.usefixtures("full_metadata")
def test_rows_are_what_select_prints(server: DatabaseServer, db: str) -> None:
    start = place(server)
    columns = (
        "id INT UNSIGNED PRIMARY KEY, a VARCHAR(9), e ENUM('x','y'), d DECIMAL(5,2), f FLOAT, b BINARY(3), l TINYBLOB"
    )
    server.execute(
        f"CREATE TABLE {db}.t ({columns})",
        f"INSERT INTO {db}.t VALUES (4000000000, 'é', 'y', 1.5, 1.1, 'q', 0xff00)",
        f"INSERT INTO {db}.t (id) VALUES (1)",
        f"UPDATE {db}.t SET a = '', l = '' WHERE id = 1",
    )
    decoder = Decoder()
    found = [decoder.decode(raw) for raw in raw_events(record(server, start))]
    rows = [row for event in found if isinstance(event, events.RowsEvent) for row in decoder.rows(event)]
    nothing: dict[str, Value] = {"a": None, "e": None, "d": None, "f": None, "b": None, "l": None}
    second: dict[str, Value] = {"id": "1"} | nothing
    first: dict[str, Value] = {
        "id": "4000000000",
        "a": "é",
        "e": "y",
        "d": "1.50",
        "f": "1.1",
        "b": b"q\0\0",
        "l": b"\xff\0",
    }
    assert rows == [
        Row(None, first),
        Row(None, second),
        Row(second, second | {"a": "", "l": b""}),
    ]
