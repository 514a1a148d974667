"""Records the seeds of the fuzz targets from the three servers: python -m tests.fuzz.record

There is one pack of inputs for each target and server; `cdc` uses those of `rows`. Record them again when the input
format of a target changes, or for better seeds. A run rewrites every pack.
"""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from examples.dbserver import KINDS, DatabaseServer
from relay._native import inflate_zlib
from relay.binlog.events import table_maps
from relay.binlog.events.compression import inflate_zstd
from relay.binlog.events.table_maps import TableMap
from relay.journal.frames import Definition
from tests.support import FIXTURES, binlogs
from tests.support.source_rows import from_event, from_schema, packed
from tests.types.cases import cases

SEEDS = Path(__file__).parent / "seeds"
# The most bytes of an input: longer ones are slow and reach no more code.
LONGEST = {"ingest": 2000, "rows": 700, "definitions": 700, "json": 2000}

FORMAT_DESCRIPTION, ROTATE, TABLE_MAP, PAYLOAD, COMPRESSED_ROWS = 15, 4, 19, 40, range(166, 172)
COMPRESSED_QUERY, COMMIT, PARTIAL_UPDATE_ROWS = 165, 16, 39
ARTIFICIAL = 0x20
ROWS = {23: 0, 24: 1, 25: 2, 30: 0, 31: 1, 32: 2, PARTIAL_UPDATE_ROWS: 3}  # their kinds in the rows target
SECOND_VERSION = (30, 31, 32, PARTIAL_UPDATE_ROWS)
OWN_TABLE = b"\xff"
RECORDS = b"\0\0"  # tells the ingest target that its input is events, not the bytes of a connection

WORK = {
    "rows": (
        "INSERT INTO t VALUES (1, 'one', 'x'), (2, NULL, NULL)",
        "UPDATE t SET b = 'two' WHERE a = 2",
        "DELETE FROM t WHERE a = 1",
        "ALTER TABLE t COMMENT = 'x'",
    ),
    "transactions": (
        "BEGIN",
        "INSERT INTO t VALUES (3, 'three', REPEAT('x', 100))",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (4, 'four', '')",
        "COMMIT",
    ),
    "xa": (
        "XA START 'x', 'y', 3",
        "INSERT INTO t VALUES (5, 'five', '')",
        "XA END 'x', 'y', 3",
        "XA PREPARE 'x', 'y', 3",
        "XA COMMIT 'x', 'y', 3",
        "XA START 'z'",
        "INSERT INTO t VALUES (6, 'six', '')",
        "XA END 'z'",
        "XA PREPARE 'z'",
        "XA ROLLBACK 'z'",
    ),
    "variables": (
        "SET binlog_format = STATEMENT, insert_id = 77, rand_seed1 = 5, rand_seed2 = 6, @v = 'é'",
        "INSERT INTO t (b, c) VALUES (@v, RAND())",
    ),
    "minimal": (
        "SET binlog_row_image = MINIMAL",
        "INSERT INTO t (a) VALUES (8)",
        "UPDATE t SET c = 'long' WHERE a = 8",
        "DELETE FROM t WHERE a = 8",
    ),
}
MYSQL_WORK = {
    "compressed": ("SET binlog_transaction_compression = ON", "INSERT INTO t VALUES (9, 'nine', REPEAT('y', 200))"),
    "tagged": ("SET gtid_next = 'AUTOMATIC:tag'", "INSERT INTO t VALUES (10, 'ten', 'z')"),
    "partial": (
        "SET binlog_row_value_options = PARTIAL_JSON",
        """INSERT INTO j VALUES (1, '{"a": 1, "b": [1, 2.5, {"c": null}], "k": "x"}', 0, '[]')""",
        "UPDATE j SET n = 1, a = JSON_SET(a, '$.a', 'two', '$.b[last].c', 70000, '$.b[9]', 1), b = NULL",
        "UPDATE j SET a = JSON_REMOVE(a, '$.b[last-1]', '$.k'), b = JSON_OBJECT('new \\\\ \"key\"', 1.5)",
        "UPDATE j SET a = JSON_SET(a, '$.x', REPEAT('ab', 99)), b = JSON_ARRAY(JSON_ARRAY(1), JSON_OBJECT('k', 'v'))",
        "UPDATE j SET a = JSON_SET(a, '$.x', 1), b = JSON_SET(b, '$[0][0]', 2, '$[1].k', 'w', '$[last].l', 3)",
        "UPDATE j SET a = JSON_SET(a, '$.\"q \\\\\"k\"', true), b = JSON_SET(b, '$.x', CAST('2024-02-29' AS DATE))",
    ),
}
MARIADB_WORK = {
    "compressed": (
        "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10",
        "INSERT INTO t VALUES (9, 'nine', REPEAT('y', 200))",
        "UPDATE t SET b = 'ten'",
        "DELETE FROM t",
        "CREATE TABLE u (i INT) COMMENT 'a comment that is long enough to be compressed, as it seems, seems, seems'",
        "SET GLOBAL log_bin_compress = OFF",
    ),
    "old temporals": (
        "SET GLOBAL mysql56_temporal_format = OFF",
        "CREATE TABLE old (t TIME, u TIME(3), d DATETIME, e DATETIME(6), s TIMESTAMP NULL, r TIMESTAMP(4) NULL)",
        "INSERT INTO old VALUES ('-01:02:03', '838:59:59.999', '2024-02-29 13:14:15', '1000-01-01 00:00:00.000001',"
        " '2038-01-19 03:14:07', '1970-01-01 00:00:01.5'), (NULL, NULL, NULL, NULL, NULL, NULL)",
        "DELETE FROM old",
        "SET GLOBAL mysql56_temporal_format = ON",
    ),
}
TABLES = "CREATE TABLE t (a INT PRIMARY KEY AUTO_INCREMENT, b VARCHAR(20) CHARACTER SET utf8mb4, c BLOB)"
JSON_TABLE = "CREATE TABLE j (id INT PRIMARY KEY, a JSON, n INT, b JSON)"


def events(stream: bytes, checksum: int = 4) -> Iterator[bytes]:
    """The events of a recorded stream with their headers, without format descriptions and artificial events."""
    for packet in binlogs.split(stream):
        event = packet[5 : len(packet) - checksum]
        artificial = len(event) >= 19 and int.from_bytes(event[17:19], "little") & ARTIFICIAL
        if packet[4] == 0 and event[4] != FORMAT_DESCRIPTION and not artificial:
            yield event


def file_events(path: Path, checksum: int) -> Iterator[bytes]:
    """The events of a recorded binlog file, without its format description."""
    data, at = path.read_bytes(), 4
    while at < len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        if data[at + 4] != FORMAT_DESCRIPTION:
            yield data[at : at + length - checksum]
        at += length


def as_records(found: Iterable[bytes]) -> bytes:
    """The events in the input format of the ingest target. Packed parts are plain for its stand-in of zlib and zstd."""
    records = b""
    for event in found:
        kind, body = event[4], event[19:]
        if kind == PAYLOAD:
            body = inflated_payload(body)
        elif kind in COMPRESSED_ROWS or kind == COMPRESSED_QUERY:
            body = inflated_part(body)
        if len(body) > LONGEST["ingest"]:
            continue
        records += struct.pack("<BBHH", kind, 0, 0, len(body)) + body
    return RECORDS + records


def inflated_part(body: bytes) -> bytes:
    """The body of a compressed MariaDB event, with its packed part inflated after the unchanged head."""
    for at in range(len(body)):
        head = body[at]
        width = head & 7
        if head & 0xF8 == 0x80 and 1 <= width <= 4 and body[at + 1 + width : at + 2 + width] == b"\x78":
            size = int.from_bytes(body[at + 1 : at + 1 + width], "big")
            return body[: at + 1 + width] + inflate_zlib(body[at + 1 + width :], size)
    raise ValueError("a compressed event without a packed part")


def inflated_payload(body: bytes) -> bytes:
    """The body of a TRANSACTION_PAYLOAD, inflated and marked as not compressed."""
    at, size = 0, 0
    while (field := body[at]) != 0:
        length, start = body[at + 1], at + 2
        if field == 3:
            value = body[start : start + length]
            size = value[0] if length == 1 else int.from_bytes(value[1:], "little")
        at = start + length
    data: bytes = inflate_zstd(body[at + 1 :], size)
    return b"\2\3\xfc\xff\0" + b"\1\3\xfc" + struct.pack("<H", len(data)) + b"\0" + data


def as_rows(found: Iterable[bytes], define: Callable[[TableMap], Definition]) -> Iterator[tuple[bytes, bytes]]:
    """For each rows event, the definition of its table, and the event in the input format of the rows target."""
    maps: dict[bytes, bytes] = {}
    for event in found:
        kind, body = event[4], event[19:]
        if kind == TABLE_MAP:
            maps[body[:6]] = packed(define(table_maps.parse(body)))
        elif kind in ROWS:
            definition = maps[body[:6]]
            start = 8 + (int.from_bytes(body[8:10], "little") if kind in SECOND_VERSION else 0)
            head = OWN_TABLE + struct.pack("<H", len(definition)) + definition
            yield definition, head + bytes([ROWS[kind] | 0xA8]) + body[start:]


def defined(server: DatabaseServer, table: TableMap) -> Definition:
    """The definition from the table map, or from the server where the map lacks the lengths of values."""
    return from_schema(server, table) if table.table == "old" else from_event(server, table)


def as_documents(found: Iterable[bytes]) -> Iterator[bytes]:
    """JSON values of the second column of updated rows, with their changes, in the input format of the json target."""
    for event in found:
        if event[4] != PARTIAL_UPDATE_ROWS:
            continue
        body = event[19 + 10 + 3 :]  # bitmaps of up to eight columns
        at = 1 + 4  # NULLs, and an INT
        size = int.from_bytes(body[at : at + 4], "little")
        document = body[at + 4 : at + 4 + size]
        at += 4 + size + 4
        has_second = not body[0] & 8
        at += 4 + int.from_bytes(body[at : at + 4], "little") if has_second else 0
        if not body[at] or not body[at + 1] & 1:
            continue
        at += 2 + 1 + 4
        changes = int.from_bytes(body[at : at + 4], "little")
        yield struct.pack("<H", size) + document + body[at + 4 : at + 4 + changes]


def case_statements(server: DatabaseServer) -> Iterator[list[str]]:
    """For each case of the type test, statements that create a table, insert, update and delete rows."""
    for number, case in enumerate(cases(server)):
        table = f"c{number}"
        if any("global" in name.lower() for name, _ in case.settings):
            continue
        statements = ["SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION'"]
        statements += [f"SET {name} = {value}" for name, value in case.settings]
        statements.append(f"CREATE TABLE {table} ({case.columns}) {case.options}")
        statements += [f"INSERT INTO {table} {insert}" for insert in case.inserts]
        statements += [f"UPDATE {table} SET {case.update}"] if case.update else []
        yield [*statements, f"DELETE FROM {table} LIMIT 3"]


def write(target: str, name: str, inputs: list[bytes]) -> None:
    """Write a pack: each input after its size."""
    folder = SEEDS / target
    folder.mkdir(parents=True, exist_ok=True)
    kept = sorted({each for each in inputs if len(each) <= LONGEST[target]}, key=lambda each: (len(each), each))
    (folder / f"{name}.pack").write_bytes(b"".join(struct.pack("<I", len(each)) + each for each in kept))
    print(f"{target}/{name}.pack: {len(kept)} inputs, {sum(map(len, kept))} bytes", file=sys.stderr)


def record(server: DatabaseServer, *statements: str) -> bytes:
    """Run the statements in the database `fuzz`, and return their part of the binlog."""
    start = binlogs.place(server)
    server.execute("USE fuzz", *statements)
    return binlogs.record(server, start)


def write_fixtures() -> None:
    """Write the packs from the binlogs of MySQL 5.6."""
    files = {FIXTURES / "mysql56-v1-none.binlog": 0, FIXTURES / "mysql56-v2-crc32.binlog": 4}
    streams = [list(file_events(file, checksum)) for file, checksum in files.items()]
    groups = [
        stream[first : last + 1]
        for stream in streams
        for first, last in itertools.pairwise([0, *(at for at, event in enumerate(stream) if event[4] == COMMIT)])
    ]
    rows = [pair for stream in streams for pair in as_rows(stream, lambda table: table_maps.provisional(table, {}))]
    write("ingest", "mysql56", [as_records(group) for group in groups])
    write("rows", "mysql56", [each for _, each in rows])


def write_server(server: DatabaseServer) -> None:
    """Write the packs of a server."""
    server.execute("CREATE DATABASE fuzz CHARACTER SET utf8mb4", "USE fuzz", TABLES, JSON_TABLE)
    work = WORK | (MYSQL_WORK if server.kind.mysql else MARIADB_WORK)
    streams = [list(events(record(server, *statements))) for statements in work.values()]
    values = [list(events(record(server, *statements))) for statements in case_statements(server)]
    rows = [pair for stream in (*streams, *values) for pair in as_rows(stream, partial(defined, server))]
    write("ingest", server.name, [as_records(stream) for stream in (*streams, *values)])
    write("rows", server.name, [each for _, each in rows])
    write("definitions", server.name, [definition for definition, _ in rows])
    if server.kind.mysql:
        write("json", server.name, list(as_documents(streams[-1])))


def main() -> None:
    """Write every pack."""
    write_fixtures()
    for kind in KINDS:
        with DatabaseServer(kind, options=("--binlog-row-metadata=FULL",)) as server:
            write_server(server)


if __name__ == "__main__":
    main()
