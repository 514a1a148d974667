"""MariaDB's COMPRESSED columns equal a SELECT, however the server stored each value."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import Attention, Columns, RowImages, inflate_zlib
from relay.binlog.events import table_maps
from tests.support import source_rows
from tests.support.binlogs import Fed, place, record
from tests.support.journal_rows import Journaled, journaled
from tests.support.source_rows import selected

pytestmark = pytest.mark.brands

BINARY = {
    "b1": "VARBINARY(200)", "b2": "VARBINARY(254)", "b3": "VARBINARY(255)", "b4": "VARBINARY(5000)", "t1": "TINYBLOB",
    "t2": "BLOB", "t3": "MEDIUMBLOB", "t4": "LONGBLOB",
}  # fmt: skip
TEXT = {
    "c1": "VARCHAR(60)",
    "c2": "VARCHAR(1200)",
    "x1": "TINYTEXT",
    "x2": "TEXT",
    "x3": "MEDIUMTEXT",
    "x4": "LONGTEXT",
}
INCOMPRESSIBLE = random.Random(4).randbytes(5000).hex()
BYTES = [
    "NULL", "''", "X'00'", "X'80'", "REPEAT(X'00', 99)", "REPEAT(X'00', 100)", "REPEAT(X'8A00FF', 66)",
    f"X'{INCOMPRESSIBLE[:400]}'", f"X'{INCOMPRESSIBLE}'", "REPEAT('ab', 127)", "REPEAT('ab', 40000)",
]  # fmt: skip
TEXTS = [
    "NULL", "''", "'a'", "'Ünï, Привет, Čeština, 日本語ｶﾅ, 中文, 한국어'", "REPEAT('x', 60)", "REPEAT('ab', 100)",
    "REPEAT('日本Ж', 400)", "REPEAT('ä', 40000)",
]  # fmt: skip
SETTINGS = [
    "column_compression_zlib_wrap = OFF", "column_compression_zlib_wrap = ON", "column_compression_threshold = 0",
    "column_compression_zlib_level = 0", "column_compression_zlib_level = 9",
    "column_compression_zlib_strategy = HUFFMAN_ONLY", "column_compression_zlib_strategy = RLE",
]  # fmt: skip


@pytest.fixture(params=["mariadb1011", "mariadb118"])
def mariadb(request: pytest.FixtureRequest) -> DatabaseServer:
    """Each MariaDB in turn."""
    running: DatabaseServer = request.getfixturevalue(request.param)
    return running


@pytest.fixture
def settings(mariadb: DatabaseServer) -> Iterator[Callable[..., None]]:
    """Sets global variables: settings(log_bin_compress="ON"); they are as they were afterwards."""
    before = dict[str, object]()

    def change(**wanted: str) -> None:
        for name, value in wanted.items():
            before.setdefault(name, mariadb.execute(f"SELECT @@GLOBAL.{name}")[0][0])
            mariadb.execute(f"SET GLOBAL {name} = {value}")

    yield change
    mariadb.execute(*(f"SET GLOBAL {name} = {value}" for name, value in before.items()))


def write(server: DatabaseServer, db: str) -> None:
    """Fill a table of binary strings, and one of text for each character set."""
    charsets = sorted(str(name) for name, *_ in server.execute("SHOW CHARACTER SET") if name != "binary")
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        columns = ", ".join(f"{name} {kind} COMPRESSED" for name, kind in BINARY.items())
        cursor.execute(f"CREATE TABLE bytes (id INT PRIMARY KEY AUTO_INCREMENT, {columns}, last INT DEFAULT -7)")
        for setting in SETTINGS:
            cursor.execute(f"SET {setting}")
            rows = ", ".join(f"({', '.join([value] * len(BINARY))})" for value in BYTES)
            cursor.execute(f"INSERT INTO bytes ({', '.join(BINARY)}) VALUES {rows}")
        cursor.execute("INSERT INTO bytes (t4) VALUES (REPEAT(X'00', 0x1000001))")
        cursor.execute("SET column_compression_threshold = DEFAULT, column_compression_zlib_level = DEFAULT")
        for charset in charsets:
            columns = ", ".join(f"{name} {kind} COMPRESSED CHARACTER SET {charset}" for name, kind in TEXT.items())
            cursor.execute(
                f"CREATE TABLE {charset} (id INT PRIMARY KEY AUTO_INCREMENT, {columns}, last INT DEFAULT -7)"
            )
            rows = ", ".join(f"({', '.join([value] * len(TEXT))})" for value in TEXTS)
            cursor.execute(f"INSERT INTO {charset} ({', '.join(TEXT)}) VALUES {rows}")
        connection.commit()


def check(server: DatabaseServer, db: str, rows: list[Journaled]) -> None:
    """Rows in every form against what the server prints."""
    tables = dict[str, list[Journaled]]()
    for event in rows:
        tables.setdefault(event.table.table, []).append(event)
    assert len(tables) > 30
    for name, events in tables.items():
        expected = selected(server, db, name)
        got = [after for event in events for _, after in event.texts()]
        assert len(got) == len(expected), name
        for right, ours in zip(expected, got, strict=True):
            wrong = [column for column in right if right[column] != ours[column]]
            assert not wrong, f"{name} row {right['id']!r}: {wrong}"
        typed = [after or {} for event in events for _, after in event.typed()]
        columns = [row for event in events for row in event.columns().to_pylist()]
        for right, packed, row in zip(expected, typed, columns, strict=True):
            for column in BINARY if name == "bytes" else TEXT:
                text = right[column]
                value = text.decode() if text is not None and name != "bytes" else text
                assert packed[column] == value and row[column] == value, f"{name}.{column} row {right['id']!r}"


@pytest.mark.parametrize(("metadata", "compressed"), [("FULL", "OFF"), ("NO_LOG", "ON")])
def test_compressed_columns_are_what_a_select_gives(
    mariadb: DatabaseServer, settings: Callable[..., None], make_db: Callable[[DatabaseServer], str], tmp_path: Path,
    metadata: str, compressed: str,
) -> None:  # fmt: skip
    db = make_db(mariadb)
    start = place(mariadb)
    settings(binlog_row_metadata=metadata, log_bin_compress=compressed)
    write(mariadb, db)

    def answer(asked: Attention) -> bool:
        if asked.asks != "table" or table_maps.table_name(asked.body)[0] != db:
            return False
        table_map = table_maps.parse(asked.body)
        assert table_map.full == (metadata == "FULL")
        table = (
            source_rows.from_event(mariadb, table_map)
            if table_map.full
            else source_rows.from_schema(mariadb, table_map)
        )
        fed.ingest.define(asked.table_id, source_rows.packed(table), source_rows.packed(table))
        return True

    fed = Fed(tmp_path, answer=answer, segment=1 << 24)
    fed.begin(start)
    fed.feed(record(mariadb, start))
    check(mariadb, db, [event for event in journaled(fed) if event.table.schema == db])


def test_a_table_map_and_the_schema_tell_the_same_type(
    mariadb: DatabaseServer, settings: Callable[..., None], make_db: Callable[[DatabaseServer], str]
) -> None:
    db = make_db(mariadb)
    settings(binlog_row_metadata="FULL", log_bin_compress="OFF")
    start = source_rows.binlog_end(mariadb)
    columns = [f"{name} {kind} COMPRESSED" for name, kind in {**BINARY, **TEXT}.items()]
    columns += ["latin VARCHAR(255) COMPRESSED CHARACTER SET latin1", "wide TEXT COMPRESSED CHARACTER SET utf16"]
    mariadb.execute(f"CREATE TABLE {db}.t ({', '.join(columns)})", f"INSERT INTO {db}.t () VALUES ()")
    [event] = [event for event in source_rows.rows_events(mariadb, start) if event.table.schema == db]
    assert source_rows.from_event(mariadb, event.table) == source_rows.from_schema(mariadb, event.table)


def definition(kind: int, meta: int, charset: str = "binary") -> bytes:
    column = ["v", 1, kind, meta, False, True, False, charset, [], ""]
    return msgspec.msgpack.encode(["shop", "t", 1, 1, 1, True, [column]])


@pytest.mark.parametrize(
    "value",
    [
        b"\x10abc", b"\x81\x03abc", b"\x90\x03abc", b"\x88", b"\x80", b"\x85\0\0\0\0\3" + zlib.compress(b"abc"),
        b"\x81\x02" + zlib.compress(b"abc"), b"\x81\x04" + zlib.compress(b"abc"),
        b"\x81\x03" + zlib.compress(b"abc")[:-1],
        b"\x89\x03" + zlib.compress(b"abc"), b"\x81\x03" + zlib.compress(b"abc")[2:-4], b"\x84\xff\xff\xff\xff\0",
        b"\x84\x3f\xff\xff\xff" + zlib.compress(bytes(1000)), b"\x82\x10\x01" + zlib.compress(bytes(0x1001)),
    ],
)  # fmt: skip
def test_what_is_no_compressed_value_is_refused_by_name(value: bytes) -> None:
    body = b"\1\1\xfe" + len(value).to_bytes(2, "little") + value
    packed = definition(141, 0x1000)
    with pytest.raises(ValueError, match=r"column v of shop\.t holds bytes that are no value"):
        RowImages(packed, 1, body).render("msgpack")
    with pytest.raises(ValueError, match=r"column v of shop\.t holds bytes that are no value"):
        Columns(packed).add(1, body)


@pytest.mark.parametrize("content", [b"", b"abc", bytes(1_000_000)])
def test_zlib_data_holds_what_was_announced_or_is_refused(content: bytes) -> None:
    packed = zlib.compress(content)
    assert inflate_zlib(packed, len(content)) == content
    for data, size in ((packed, len(content) + 1), (packed[:-1], len(content)), (packed[2:], len(content)), (b"", 0)):
        with pytest.raises(ValueError, match="zlib"):
            inflate_zlib(data, size)
    if content:
        with pytest.raises(ValueError, match="zlib"):
            inflate_zlib(packed, len(content) - 1)
    with pytest.raises(ValueError, match="zlib"):
        inflate_zlib(packed, 1 << 62)
