"""Every event of a real server decodes to its struct, with all its fields."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay.binlog import events
from relay.binlog.decoder import Decoder
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
