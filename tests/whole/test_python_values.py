"""Values as Python objects: the clients and `relay.binlog` give the same ones, on real servers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from examples.dbserver import DatabaseServer
from relay.binlog import Flag, Replication, Stream, events
from relay.client import RelayClient
from relay.errors import RelayError
from relay.protocol.extensions import value_of
from tests.support.binlogs import place
from tests.support.blocked import Blocked
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience

Start = Callable[..., RelayProcess]

COLUMNS = (
    "id INT PRIMARY KEY, n BIGINT UNSIGNED, f FLOAT, d DOUBLE(8,3), m DECIMAL(9,2), y YEAR, a DATE, t TIME(3),"
    " w DATETIME(2), p TIMESTAMP NULL, s SET('x','y'), j JSON, b VARBINARY(9), v VARCHAR(9), e ENUM('k','l')"
)
VALUES = (
    "1, 18446744073709551615, 0.1, 1.5, -12.50, 2026, '2026-11-26', '-838:59:58.5', '2026-11-26 10:11:12.12',"
    """ '2026-11-26 10:11:12', 'x,y', '{"a": [1, null]}', 'bytes', 'größe', 'l'"""
)
OBJECTS = {
    "id": 1,
    "n": 2**64 - 1,
    "f": 0.1,
    "d": 1.5,
    "m": Decimal("-12.50"),
    "y": 2026,
    "a": date(2026, 11, 26),
    "t": -timedelta(hours=838, minutes=59, seconds=58, milliseconds=500),
    "w": datetime(2026, 11, 26, 10, 11, 12, 120000),
    "p": datetime(2026, 11, 26, 10, 11, 12, tzinfo=UTC),
    "s": frozenset({"x", "y"}),
    "j": {"a": [1, None]},
    "b": b"bytes",
    "v": "größe",
    "e": "l",
}


def test_clients_and_the_binlog_give_the_same_objects(
    server: DatabaseServer, start_relay: Start, db: str, full_metadata: None
) -> None:
    begin = place(server)
    relay = start_relay(server, {"Relay.TimeZone": "Asia/Tokyo"})  # not of extension types
    clients = [
        client_type("127.0.0.1", relay.port, name, SECRET, values="python")
        for name, client_type in (("blocking", RelayClient), ("asyncio", Blocked.client))
    ]
    server.execute(f"CREATE TABLE {db}.t ({COLUMNS})")
    for client in clients:
        client.add_filter(db)
    with closing(server.connect(init_command="SET time_zone = '+00:00', sql_mode = ''")) as connection:
        connection.cursor().execute(f"INSERT INTO {db}.t VALUES ({VALUES})")
        connection.cursor().execute(f"INSERT INTO {db}.t (id, s, a) VALUES (2, '', '2024-02-00')")
        connection.commit()
    nulls = dict.fromkeys(OBJECTS) | {"id": 2, "s": frozenset(), "a": "2024-02-00"}
    rows = [OBJECTS | ({} if server.kind.mysql else {"j": '{"a": [1, null]}'}), nulls]
    for client in clients:
        with client:
            assert [row.after for row in (client.poll(patience(20)), client.poll(patience(20))) if row] == rows
    replication = Replication(begin.file, begin.position, flags=Flag.NON_BLOCK)
    with closing(server.connect()) as connection, Stream(connection, replication, values="python") as stream:
        found: list[dict[str, Any] | None] = []
        for event in stream:
            if isinstance(event, events.RowsEvent) and event.table_map and event.table_map.database == db:
                found += [row.after for row in stream.rows(event)]
    assert found == rows


@pytest.mark.parametrize("text", ["0000-00-00", "2024-02-30", "0000-01-01"])
def test_a_date_that_no_calendar_has_is_text(text: str) -> None:
    assert value_of(2, memoryview(text.encode())) == text
    at = memoryview(f"{text} 10:11:12".encode())
    assert value_of(4, at) == value_of(5, at) == f"{text} 10:11:12"


@pytest.mark.parametrize(("code", "data"), [(99, b"1"), (1, b"x"), (1, 66 * b"1"), (3, b"10"), (7, b"{"), (6, b"\xff")])
def test_an_unknown_or_damaged_extension_is_an_error(code: int, data: bytes) -> None:
    with pytest.raises(ValueError):
        value_of(code, memoryview(data))


def test_values_that_do_not_exist_are_an_error() -> None:
    with pytest.raises(RelayError, match="neither 'msgpack' nor 'python'"):
        RelayClient("127.0.0.1", 1, "name", SECRET, values="texts")  # type: ignore[arg-type]
