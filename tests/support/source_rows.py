"""Rows events of a real server as raw bytes, and definitions of their tables: the input of the native decoder."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from examples.dbserver import DatabaseServer
from relay.binlog.events.table_maps import TableMap, definition, parse, provisional
from relay.ddl.syntax import TableName
from relay.journal.frames import Definition
from relay.schema import matching, source_tables
from relay.schema.table import Table
from relay.source.facts import ServerFacts, collations, query_facts

COM_BINLOG_DUMP, NON_BLOCK = 0x12, 1
HEADER = 19
TABLE_MAP = 19
KINDS = {23: 1, 24: 2, 25: 4, 30: 1, 31: 2, 32: 4}
FIRST_V2 = 30


class RowsEvent(NamedTuple):
    """A rows event: its table, kind (1 insert, 2 update, 4 delete), and body from the column count on."""

    table: TableMap
    kind: int
    body: bytes


def binlog_end(server: DatabaseServer) -> tuple[str, int]:
    """File and position of the next event."""
    statement = "SHOW BINARY LOG STATUS" if server.kind.mysql else "SHOW MASTER STATUS"
    file, position, *_ = server.execute(statement)[0]
    return str(file), int(position)


def rows_events(server: DatabaseServer, start: tuple[str, int]) -> Iterator[RowsEvent]:
    """Every rows event between `start` and the end of the binlog."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum")
        cursor.execute("SELECT @@global.binlog_checksum")
        checksum = 4 if cursor.fetchall() == (("CRC32",),) else 0
        private = cast(Any, connection)
        payload = struct.pack("<IHI", start[1], NON_BLOCK, 4_000_000_000) + start[0].encode()
        private._execute_command(COM_BINLOG_DUMP, payload)
        maps: dict[int, TableMap] = {}
        while True:
            packet = private._read_packet()
            if packet.is_eof_packet():
                return
            event = packet.get_all_data()[1:]
            kind, body = event[4], event[HEADER : len(event) - checksum]
            if kind == TABLE_MAP:
                table = parse(body, mariadb=not server.kind.mysql)
                maps[table.table_id] = table
            elif kind in KINDS:
                table_id = int.from_bytes(body[:6], "little")
                extra = int.from_bytes(body[8:10], "little") if kind >= FIRST_V2 else 0
                yield RowsEvent(maps[table_id], KINDS[kind], body[8 + extra :])


def packed(table: Definition) -> bytes:
    """The definition in the native form, with its numbers filled in."""
    columns = [msgspec.structs.replace(column, name_id=number) for number, column in enumerate(table.columns, 1)]
    return msgspec.msgpack.encode(msgspec.structs.replace(table, version=7, schema_id=1, table_id=2, columns=columns))


@functools.cache
def _asked_once(server: DatabaseServer) -> tuple[dict[int, str], ServerFacts]:
    with server.connect() as connection:
        return collations(connection), query_facts(connection)


def from_event(server: DatabaseServer, table: TableMap) -> Definition:
    """The definition from the table map itself (binlog_row_metadata = FULL)."""
    return definition(table, _asked_once(server)[0])


def from_schema(server: DatabaseServer, table: TableMap) -> Definition:
    """The definition from the server's current table."""
    charset_of, about = _asked_once(server)
    with server.connect() as connection:
        found = source_tables.query_state(connection, about, TableName(table.schema, table.table))
    assert isinstance(found, Table), found
    assert not matching.mismatch(table, found, charset_of, source_tables.dialect_of(about))
    return matching.definition(found, source_tables.dialect_of(about), table)


def from_nothing(server: DatabaseServer, table: TableMap) -> Definition:
    """The definition without names: positional ones."""
    return provisional(table, _asked_once(server)[0])


def selected(server: DatabaseServer, db: str, table: str) -> list[dict[str, bytes | None]]:
    """The table as the server prints it in UTC, ordered by its id."""
    with server.connect(database=db, use_unicode=False, conv={}) as connection, connection.cursor() as cursor:
        cursor.execute("SET NAMES utf8mb4")
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT * FROM `{table}` ORDER BY id")
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
