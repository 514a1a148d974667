"""Every value of every type becomes the text that the server itself prints in a SELECT."""

from __future__ import annotations

import itertools
import random
import struct
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import RowImages
from relay.journal.frames import Definition
from tests.rowsource import RowsEvent, binlog_end, from_event, from_nothing, from_schema, packed, rows_events

MYSQL, MARIADB = ("mysql97",), ("mariadb1011", "mariadb118")


class Case(NamedTuple):
    """A column type and values for it, as SQL. `on`: server kinds; `told`: table maps tell all that it needs."""

    sql: str
    values: list[str]
    on: tuple[str, ...] = MYSQL + MARIADB
    told: bool = True


DOUBLES = [
    "1e14", "1e15", "1e16", "123456789012345", "1234567890123456e0", "12345678901234567e0", "1.5e15", "0.1", "1e-4",
    "1e-5", "1e-14", "1e-15", "1e-16", "1.5e-5", "1.2345678901234567e-15", "1.2345678901234567e-16", "123456.789",
    "1e300", "-1e-300", "2.2250738585072014e-308", "1.7976931348623157e308", "-1e15", "0e0", "-0e0", "1", "100.5",
    "123456789.12345679e0", "5e-324", "0.3333333333333333e0", "1234567.8901234567e0", "9007199254740993e0",
    "999999999999999.9e0", "0.000001", "0.0000001", "999999999.999999e0", "1000000000.000001e0", "-12.5",
    "1707628031982785.2e0", "-2738910612482594.5e0", "1.2345678901234567e16", "0.1e0+0.2e0", "1e9", "999999999",
    "1e22", "1e23",
]  # fmt: skip
FLOATS = [
    "1e9", "1e14", "1e15", "1234567", "123456.789", "1234567890", "16777216", "1e-4", "1e-14", "1e-15", "1e-16",
    "1.17549e-38", "3.40282e38", "0.1", "1.1", "1.23457e-10", "1e30", "1.5e15", "123456.5", "999999.5", "9999995",
    "-1.23457e-10", "0e0", "-0e0", "1.234567e20", "0.3333333", "1e-40", "1e-45", "5.5", "0.5", "-2", "99999.95",
    "8388608", "33554432",
]  # fmt: skip
DATES = ["'2024-02-29'", "'0000-00-00'", "'9999-12-31'", "'2024-00-00'", "'1000-01-01'", "'0001-01-01'"]
DATETIMES = [
    "'2024-02-29 13:14:15.123456'", "'0000-00-00 00:00:00'", "'9999-12-31 23:59:59'", "'1970-01-01 00:00:01.5'",
    "'2024-12-01 00:00:00.000001'", "'2024-01-00 01:02:03.9'",
]  # fmt: skip
TIMES = [
    "'838:59:59'", "'-838:59:59'", "'00:00:00'", "'-00:00:00.5'", "'-01:02:03.5'", "'01:02:03.123456'", "'-00:00:01'",
    "'100:00:00.000001'", "'-12:59:59.999999'", "'23:59:59.9'",
]  # fmt: skip
TIMESTAMPS = [
    "'2024-02-29 13:14:15.123456'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'",
    "'2000-03-01 00:00:00'", "'2000-02-29 23:59:59.9'", "'1999-12-31 23:59:59'", "'2023-03-01 00:00:00.5'",
]  # fmt: skip
TEXTS = ["'abc'", "''", "'it''s'", "'NULL'", "'äöü€'", "'  x  '", "REPEAT('x', 60)"]
BYTES = ["X'00FF00'", "X''", "X'610000'", "X'00'", "X'6120'", "X'FF'"]
WIDE_TEXTS = [*TEXTS, "'😀'", "REPEAT('€', 255)", "REPEAT('x', 64)"]
LATIN = ["X'41E4F6FC80'", "X'818D8F909D'", "''", "REPEAT(X'FF', 200)"]
DOCUMENT = """'{"a": 1, "b": [1, 2.5, null, true, false, -1, 65535, -32769, 4294967295, 1e100, 1.0, 10000000000]}'"""
JSONS = [
    DOCUMENT, "'[]'", "'{}'", "'null'", "'\"\"'", "'1'", "'-1.5'", "'true'",
    r"""'{"\\"q\\"": "\\\\ \\b\\f\\n\\r\\t\\u0001\\u001f/ äöü😀 \\u007f"}'""",
    "'[9223372036854775807, -9223372036854775808, 18446744073709551615, 1e-7, 1e15, 1e14, 123456789.123]'",
    "'[0.1, -0.0, 1707628031982785.2, -1e16]'",
    "CONCAT('[', REPEAT('[', 98), REPEAT(']', 98), ']')",
    "JSON_OBJECT('d', CAST('12.50' AS DECIMAL(10,2)), 'z', CAST('-0.001' AS DECIMAL(30,10)))",
    "JSON_ARRAY(CAST('2024-02-29' AS DATE), CAST('2024-02-29 01:02:03.5' AS DATETIME(6)))",
    "JSON_ARRAY(CAST('-12:30:00.25' AS TIME(6)), CAST('00:00:00' AS TIME))",
    "JSON_ARRAY(TIMESTAMP'2024-02-29 01:02:03', CAST('838:59:59' AS TIME), CAST('0000-00-00' AS DATE))",
    "JSON_ARRAY(X'00FF10', CAST('abc' AS BINARY(5)), b'101', ST_GeomFromText('POINT(1 2)'))",
    "JSON_OBJECT('long', REPEAT('x', 70000), 'k', JSON_ARRAY(1, REPEAT('y', 20000)), 'n', 70000, 'm', -70000)",
    "CAST(CONCAT('[', REPEAT('{\"key\": [1, \"two\", 3.5]}, ', 5000), 'null]') AS JSON)",
    "CAST(CAST('abc' AS BINARY) AS JSON)", "JSON_SET('{\"a\": 1}', '$.b', CAST('1.10' AS DECIMAL(5,3)))",
]  # fmt: skip
DECIMALS = [
    "12.5", "-12.5", "0", "-0.01", "0.5", "99999999.99", "-99999999.99", "1234567.89", "0.05", "1",
]  # fmt: skip
LONG_DECIMALS = [
    "0",
    "1",
    "-1",
    "9" * 35 + "." + "9" * 30,
    "-" + "1234567890" * 3 + "." + "0123456789" * 3,
    "0." + "0" * 29 + "1",
]

CASES = [
    Case("TINYINT", ["-128", "127", "0", "-1"]),
    Case("TINYINT UNSIGNED", ["0", "200", "255"]),
    Case("BOOL", ["TRUE", "FALSE"]),
    Case("SMALLINT", ["-32768", "32767", "-1"]),
    Case("SMALLINT UNSIGNED", ["65535", "0"]),
    Case("MEDIUMINT", ["-8388608", "8388607", "-1"]),
    Case("MEDIUMINT UNSIGNED", ["16777215", "0"]),
    Case("INT", ["-2147483648", "2147483647", "-1", "0"]),
    Case("INT UNSIGNED", ["4294967295", "0"]),
    Case("BIGINT", ["-9223372036854775808", "9223372036854775807", "-1", "4294967296"]),
    Case("BIGINT UNSIGNED", ["18446744073709551615", "0", "4294967295"]),
    Case("INT(5) ZEROFILL", ["42", "123456", "0"], told=False),
    Case("INT ZEROFILL", ["42"], told=False),
    Case("BIGINT ZEROFILL", ["42"], told=False),
    Case("DECIMAL(8,2) ZEROFILL", ["42.5", "0"], told=False),
    Case("FLOAT ZEROFILL", ["42.5"], told=False),
    Case("DOUBLE ZEROFILL", ["42.5", "1e100"], told=False),
    Case("DOUBLE(9,3) ZEROFILL", ["42.5"], told=False),
    Case("FLOAT", FLOATS),
    Case("DOUBLE", DOUBLES),
    Case("FLOAT(7,4)", ["1.5", "999.00009", "-0.00004", "0"], told=False),
    Case("DOUBLE(12,3)", ["1.5", "123456789.1235", "-0.0005", "0.1255"], told=False),
    Case("DECIMAL(10,2)", DECIMALS),
    Case("DECIMAL(5,0)", ["7", "-7", "0", "99999"]),
    Case("DECIMAL(5,5)", ["0.12345", "-0.00001", "0"]),
    Case("DECIMAL(11,2)", ["123456789.12", "-5", "0"]),
    Case("DECIMAL(18,9)", ["123456789.123456789", "-0.000000001", "1"]),
    Case("DECIMAL(9,9)", ["0.123456789"]),
    Case("DECIMAL(30,12)", ["-123456789012345678.123456789012", "10"]),
    Case("DECIMAL(65,30)", LONG_DECIMALS),
    Case("DECIMAL(65,0)", ["9" * 65, "-1"]),
    Case("DECIMAL(1,0) UNSIGNED", ["9", "0"]),
    *(Case(f"BIT({n})", ["0", "1", str((1 << n) - 1)]) for n in (1, 7, 8, 9, 33, 64)),
    Case("YEAR", ["1901", "2155", "0", "2024"]),
    Case("DATE", DATES),
    *(Case(f"DATETIME({n})", DATETIMES) for n in range(7)),
    *(Case(f"TIME({n})", TIMES) for n in range(7)),
    *(Case(f"TIMESTAMP({n}) NULL", TIMESTAMPS) for n in range(7)),
    Case("TIMESTAMP NULL", ["'2106-02-07 06:28:15'"], on=("mariadb118",)),
    Case("VARCHAR(63) CHARACTER SET utf8mb4", TEXTS),
    Case("VARCHAR(255) CHARACTER SET utf8mb4", WIDE_TEXTS),
    Case("VARCHAR(300) CHARACTER SET utf8mb3", [*TEXTS, "REPEAT('€', 300)"]),
    *(
        Case(f"CHAR({n}) CHARACTER SET utf8mb4", [*WIDE_TEXTS[:-2], f"REPEAT('€', {n})"])
        for n in (60, 63, 64, 65, 73, 81, 255)
    ),
    Case("CHAR(0)", ["''"]),
    Case("CHAR(20) CHARACTER SET latin1", ["X'41E4F6FC80'", "'a  '", "''"]),
    Case("VARCHAR(255) CHARACTER SET latin1", LATIN),
    Case("TEXT CHARACTER SET latin1", LATIN),
    Case("VARCHAR(50) CHARACTER SET ascii", ["'abc'", "''"]),
    Case("VARCHAR(50) CHARACTER SET utf16", ["'aé€😀'", "''"]),
    Case("CHAR(10) CHARACTER SET utf16", ["'aé€😀'", "''"]),
    Case("VARCHAR(50) CHARACTER SET utf16le", ["'aé€😀'"]),
    Case("VARCHAR(50) CHARACTER SET utf32", ["'aé€😀'"]),
    Case("VARCHAR(50) CHARACTER SET ucs2", ["'aé€'"]),
    Case("VARCHAR(50) CHARACTER SET sjis", ["'日本語ｶﾅ\\\\~'"]),
    Case("VARCHAR(50) CHARACTER SET cp932", ["'日本語①～'"]),
    Case("VARCHAR(50) CHARACTER SET gbk", ["'中文€'"]),
    Case("VARCHAR(50) CHARACTER SET gb18030", ["'中文😀ḿ'"], on=MYSQL),
    Case("VARCHAR(50) CHARACTER SET ujis", ["'日本語ｶﾅ仡'"]),
    Case("VARCHAR(50) CHARACTER SET eucjpms", ["'日本語①仡'"]),
    Case("VARCHAR(50) CHARACTER SET euckr", ["'한국어갂'"]),
    Case("VARCHAR(50) CHARACTER SET koi8r", ["'Привет'"]),
    Case("VARCHAR(50) CHARACTER SET keybcs2", ["'Čeština'"]),
    *(Case(kind, ["'abc'", "''", "REPEAT('€', 80)"]) for kind in ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")),
    Case("MEDIUMTEXT CHARACTER SET utf8mb4", ["REPEAT('x', 70000)"]),
    Case("BINARY(5)", BYTES),
    Case("BINARY(255)", BYTES),
    Case("VARBINARY(20)", BYTES),
    Case("VARBINARY(300)", [*BYTES, "REPEAT(X'00', 300)"]),
    *(Case(kind, BYTES) for kind in ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")),
    Case("LONGBLOB", ["REPEAT(X'0A', 300000)"]),
    Case("ENUM('a','it''s','x,y','é','')", ["1", "2", "3", "4", "5", "0", "'a'"]),
    Case("ENUM('é','ß') CHARACTER SET latin1", ["1", "2"]),
    Case("ENUM(" + ",".join(f"'v{n}'" for n in range(300)) + ")", ["1", "256", "300"]),
    Case("SET('a','it''s','c')", ["1", "5", "7", "0", "''"]),
    Case("SET(" + ",".join(f"'v{n}'" for n in range(64)) + ")", ["1", "1<<63", "18446744073709551615"]),
    Case("SET(" + ",".join(f"'v{n}'" for n in range(20)) + ")", ["1<<19", "(1<<20)-1"]),
    Case("JSON", JSONS, on=MYSQL),
    Case("JSON", [DOCUMENT, "'[]'", "'{\"a\":  1.10}'"], on=MARIADB),
    Case("GEOMETRY", ["ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0,1 1)')"]),
    Case("POINT", ["ST_GeomFromText('POINT(-1.5 2)')"]),
    Case("VECTOR(3)", ["STRING_TO_VECTOR('[1,2.5,-3]')"], on=MYSQL),
    Case("VECTOR(3)", ["VEC_FromText('[1,2.5,-3]')"], on=("mariadb118",)),
    Case("UUID", ["'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'",
                  "'01890a5d-ac96-774b-bcce-b302099a8057'"], on=MARIADB, told=False),
    Case("INET6", ["'2001:db8::ff00:42:8329'", "'::'", "'::1.2.3.4'", "'::ffff:192.0.2.1'", "'1:0:0:2::3'", "'::1'",
                   "'0:0:0:1::'", "'1::'"], on=MARIADB, told=False),
    Case("INET4", ["'192.0.2.1'", "'0.0.0.0'", "'1.0.0.0'"], on=MARIADB, told=False),
]  # fmt: skip
INTEGERS = ("TINYINT", "BOOL", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR")
BINARIES = ("BIT", "BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "GEOMETRY", "POINT", "VECTOR")


class Filled(NamedTuple):
    """A database with a table for each case, c0, c1 ...: NULL and the case's values, and the rows events of that."""

    server: DatabaseServer
    db: str
    events: list[RowsEvent]

    def cases(self) -> Iterator[tuple[int, Case, list[RowsEvent]]]:
        """Number, case and events of each case that this server has."""
        for number, case in enumerate(case for case in CASES if self.server.name in case.on):
            yield number, case, [event for event in self.events if event.table.table == f"c{number}"]

    def printed(self, number: int) -> list[bytes | None]:
        """The case's column as the server prints it, in the order of insertion."""
        with (
            self.server.connect(database=self.db, use_unicode=False, conv={}) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET NAMES utf8mb4")
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT v FROM c{number} ORDER BY id")
            return [row[0] for row in cursor.fetchall()]


def fill(server: DatabaseServer, db: str) -> Filled:
    start = binlog_end(server)
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION'")
        for number, case, _ in Filled(server, db, []).cases():
            cursor.execute(f"CREATE TABLE c{number} (id INT PRIMARY KEY AUTO_INCREMENT, v {case.sql}, w INT)")
            for value in ["NULL", *case.values]:
                cursor.execute(f"INSERT INTO c{number} (v, w) VALUES ({value}, -7)")
        connection.commit()
    return Filled(server, db, [event for event in rows_events(server, start) if event.table.schema == db])


@pytest.fixture
def filled(server: DatabaseServer, db: str, full_metadata: None) -> Filled:
    return fill(server, db)


class Cell(NamedTuple):
    """One column of a classic payload."""

    name: str
    before: bytes
    after: bytes


def string(payload: bytes, at: int) -> tuple[bytes, int]:
    length = int.from_bytes(payload[at : at + 4], "little")
    assert payload[at + 3 + length] == 0
    return payload[at + 4 : at + 3 + length], at + 4 + length


def cells(payload: bytes, version: int = 1) -> tuple[list[Cell], bytes]:
    """The columns of a Poll or PollV2 payload, and what stands behind it."""
    at = 13 if version == 1 else 21
    _, at = string(payload, at)
    _, at = string(payload, at if version == 1 else at + 4)
    count, at = int.from_bytes(payload[at : at + 4], "little"), at + 4
    columns = []
    for _ in range(count):
        name, at = string(payload, at if version == 1 else at + 4)
        before, at = string(payload, at)
        after, at = string(payload, at)
        columns.append(Cell(name.decode(), before, after))
    return columns, payload[at:]


def render(event: RowsEvent, definition: bytes, form: str, **options: Any) -> list[bytes]:
    rendered: list[bytes] = RowImages(definition, event.kind, event.body).render(form, **options)
    return rendered


def of_table(events: list[RowsEvent], table: str) -> list[RowsEvent]:
    return [event for event in events if event.table.table == table]


def test_text_is_what_the_server_prints(filled: Filled) -> None:
    wrong = []
    for number, case, events in filled.cases():
        expected = filled.printed(number)
        for describe in (from_event, from_schema) if case.told else (from_schema,):
            definition = packed(describe(filled.server, events[0].table))
            got: list[bytes | None] = []
            for event in events:
                for payload in render(event, definition, "poll", null_text=b"\0nothing"):
                    columns, _ = cells(payload)
                    assert [column.name for column in columns] == ["id", "v", "w"]
                    assert [column.before for column in columns] == [b"", b"", b""]
                    assert columns[2].after == b"-7"
                    got.append(None if columns[1].after == b"\0nothing" else columns[1].after)
            pairs = itertools.zip_longest(["NULL", *case.values], expected, got, fillvalue=b"(nothing)")
            wrong += [
                f"{case.sql} {value!r:.80}: server {right!r:.200}, relay {ours!r:.200}"
                for value, right, ours in pairs
                if right != ours
            ]
    assert not wrong, "\n".join(wrong)


def test_every_form_says_the_same(filled: Filled) -> None:
    for number, case, events in filled.cases():
        definition = packed(from_schema(filled.server, events[0].table))
        for event in events:
            [poll] = render(event, definition, "poll", position=99, queue_size=3)
            assert struct.unpack_from("<BQI", poll) == (1, 99, 3)
            [poll2] = render(event, definition, "poll2", position=99, queue_size=3)
            assert struct.unpack_from("<BQIII", poll2) == (1, 99, 3, 7, 1)
            assert cells(poll2, 2) == cells(poll)
            [many] = render(event, definition, "text", position=99, queue_size=3, sequence=12)
            null = cells(many[8:], 2)[1] != b"\0"
            assert many == struct.pack("<Q", 12) + poll2 + (b"\2" if null else b"\0")
            [typed] = render(event, definition, "msgpack", position=99, sequence=12)
            *head, before, after = msgspec.msgpack.decode(typed)
            assert head == [12, 1, 99, filled.db, f"c{number}", 7] and before is None
            assert list(after) == ["id", "v", "w"] and after["w"] == -7
            if null:
                assert after["v"] is None
            else:
                check_typed(case, cells(poll)[0][1].after, after["v"])


def check_typed(case: Case, text: bytes, value: Any) -> None:
    kind = case.sql.split("(")[0].split()[0]
    if kind in INTEGERS:
        assert value == int(text), case
    elif kind in ("FLOAT", "DOUBLE"):
        digits = 6 if kind == "FLOAT" else 17
        assert isinstance(value, float), case
        assert "(" in case.sql or f"{value:.{digits}g}" == f"{float(text):.{digits}g}", case
    elif kind in BINARIES:
        assert value == text, case
    else:
        assert value == text.decode(), case


def test_updates_and_deletes_have_both_sides(server: DatabaseServer, db: str, full_metadata: None) -> None:
    start = binlog_end(server)
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, a VARCHAR(20), b BIGINT UNSIGNED, c TEXT)",
        f"INSERT INTO {db}.t VALUES (1, 'one', 1, NULL), (2, NULL, 2, 'two')",
        f"UPDATE {db}.t SET a = 'changed', b = NULL, c = 'x'",
        f"DELETE FROM {db}.t WHERE id = 2",
    )
    insert, update, delete = of_table(list(rows_events(server, start)), "t")
    definition = packed(from_event(server, insert.table))
    assert [cells(row)[0] for row in render(update, definition, "poll")] == [
        [Cell("id", b"1", b"1"), Cell("a", b"one", b"changed"), Cell("b", b"1", b"NULL"), Cell("c", b"NULL", b"x")],
        [Cell("id", b"2", b"2"), Cell("a", b"NULL", b"changed"), Cell("b", b"2", b"NULL"), Cell("c", b"two", b"x")],
    ]
    assert [cells(row[8:], 2)[1] for row in render(update, definition, "text")] == [b"\x08\x04", b"\x02\x04"]
    assert [cells(row)[0] for row in render(delete, definition, "poll", null_text=b"")] == [
        [Cell("id", b"2", b""), Cell("a", b"changed", b""), Cell("b", b"", b""), Cell("c", b"x", b"")]
    ]
    assert cells(render(delete, definition, "text")[0][8:], 2)[1] == b"\x04"
    first, _ = (msgspec.msgpack.decode(row) for row in render(update, definition, "msgpack"))
    assert first[1] == 2
    assert first[6:] == [
        {"id": 1, "a": "one", "b": 1, "c": None},
        {"id": 1, "a": "changed", "b": None, "c": "x"},
    ]
    assert msgspec.msgpack.decode(render(delete, definition, "msgpack")[0])[6:] == [
        {"id": 2, "a": "changed", "b": None, "c": "x"},
        None,
    ]


def test_columns_that_an_image_leaves_out_are_left_out(server: DatabaseServer, db: str, full_metadata: None) -> None:
    start = binlog_end(server)
    with server.connect(database=db) as connection, connection.cursor() as cursor:
        cursor.execute("SET binlog_row_image = MINIMAL")
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b INT, c INT)")
        cursor.execute("INSERT INTO t VALUES (1, 'one', 1, NULL)")
        cursor.execute("UPDATE t SET b = 2")
        cursor.execute("DELETE FROM t")
    _, update, delete = of_table(list(rows_events(server, start)), "t")
    definition = packed(from_event(server, update.table))
    assert cells(render(update, definition, "poll")[0])[0] == [Cell("id", b"1", b""), Cell("b", b"", b"2")]
    assert cells(render(update, definition, "text")[0][8:], 2)[1] == b"\x02\x01"
    assert msgspec.msgpack.decode(render(update, definition, "msgpack")[0])[6:] == [{"id": 1}, {"b": 2}]
    assert cells(render(delete, definition, "poll")[0])[0] == [Cell("id", b"1", b"")]


def test_columns_can_be_taken_out_of_a_rows_event(server: DatabaseServer, db: str, full_metadata: None) -> None:
    start = binlog_end(server)
    columns = [f"c{number} {('INT', 'VARCHAR(300)', 'TEXT')[number % 3]}" for number in range(20)]
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, {', '.join(columns)})",
        f"INSERT INTO {db}.t (id, c0, c1, c5, c19) VALUES (1, 10, 'one', 'five', 'last'), (2, NULL, NULL, NULL, NULL)",
        f"UPDATE {db}.t SET c2 = 'two', c7 = NULL",
    )
    chosen = random.Random(1)
    for event in of_table(list(rows_events(server, start)), "t"):
        definition = from_event(server, event.table)
        whole = [cells(row)[0] for row in render(event, packed(definition), "poll")]
        for _ in range(20):
            keep = [chosen.random() < 0.5 for _ in definition.columns]
            body = RowImages(packed(definition), event.kind, event.body).without(keep)
            kept = [column for column, kept in zip(definition.columns, keep, strict=True) if kept]
            rows = (
                render(
                    RowsEvent(event.table, event.kind, body),
                    packed(Definition(db, "t", 0, 0, 0, True, kept)),
                    "poll",
                )
                if kept
                else []
            )
            assert [cells(row)[0] for row in rows] == [
                list(itertools.compress(row, keep)) for row in whole if any(keep)
            ]


def test_without_names_values_are_numbers_and_bytes(server: DatabaseServer, db: str) -> None:
    start = binlog_end(server)
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, e ENUM('a','b'), s SET('x','y'), v VARCHAR(9), b BINARY(4))",
        f"INSERT INTO {db}.t VALUES (1, 'b', 'x,y', 'text', 'ab')",
    )
    [event] = of_table(list(rows_events(server, start)), "t")
    definition = packed(from_nothing(server, event.table))
    columns, _ = cells(render(event, definition, "poll")[0])
    assert [(column.name, column.after) for column in columns] == [
        ("@1", b"1"), ("@2", b"2"), ("@3", b"3"), ("@4", b"text"), ("@5", b"ab"),
    ]  # fmt: skip
    typed = msgspec.msgpack.decode(render(event, definition, "msgpack")[0])[7]
    assert (typed["@2"], typed["@3"]) == (2, 3)


def test_timestamps_follow_the_zone_that_is_asked_for(
    server: DatabaseServer, db: str, full_metadata: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = binlog_end(server)
    server.execute(
        f"CREATE TABLE {db}.t (id INT PRIMARY KEY, v TIMESTAMP(3) NULL)",
        f"INSERT INTO {db}.t VALUES (1, FROM_UNIXTIME(1719835200.5)), (2, FROM_UNIXTIME(1735687800)), (3, NULL)",
    )
    [event] = of_table(list(rows_events(server, start)), "t")
    definition = packed(from_event(server, event.table))
    monkeypatch.setenv("TZ", "Europe/Brussels")
    time.tzset()
    try:
        local = [cells(row)[0][1].after for row in render(event, definition, "poll", utc=False)]
        utc = [cells(row)[0][1].after for row in render(event, definition, "poll", utc=True)]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert local == [b"2024-07-01 14:00:00.500", b"2025-01-01 00:30:00.000", b"NULL"]
    assert utc == [b"2024-07-01 12:00:00.500", b"2024-12-31 23:30:00.000", b"NULL"]


def test_numbers_of_every_size_are_printed_as_the_server_does(
    server: DatabaseServer, db: str, full_metadata: None
) -> None:
    some = random.Random(7)
    floats = [some.choice((1, -1)) * some.random() * 10.0 ** some.randint(-37, 37) for _ in range(1500)]
    floats += [round(some.random() * 10.0 ** some.randint(0, 9), some.randint(0, 7)) for _ in range(1500)]
    floats += [some.choice((1, -1)) * some.uniform(1e14, 1e17) for _ in range(500)]
    floats += [some.random() * 10.0 ** -some.randint(10, 18) for _ in range(500)]
    integers = [some.choice((1, -1)) * some.getrandbits(some.randint(1, 63)) for _ in range(len(floats))]
    decimals = [Decimal(some.getrandbits(some.randint(1, 99))).scaleb(-some.randint(0, 20)) for _ in range(len(floats))]
    start = binlog_end(server)
    with server.connect(database=db, conv={}) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE n (id INT PRIMARY KEY AUTO_INCREMENT, d DOUBLE, f FLOAT, i BIGINT, k DECIMAL(55,20))"
        )
        rows = zip(floats, floats, integers, decimals, strict=True)
        values = ",".join(f"({d!r}, {f!r}, {i}, {k:f})" for d, f, i, k in rows)
        cursor.execute(f"INSERT INTO n (d, f, i, k) VALUES {values}")
        connection.commit()
        cursor.execute("SELECT d, f, i, k FROM n ORDER BY id")
        expected = [tuple(value.encode() for value in row) for row in cursor.fetchall()]
    events = of_table(list(rows_events(server, start)), "n")
    definition = packed(from_event(server, events[0].table))
    payloads = [payload for event in events for payload in render(event, definition, "poll")]
    got = [tuple(cell.after for cell in cells(payload)[0][1:]) for payload in payloads]
    wrong = [pair for pair in zip(expected, got, strict=True) if pair[0] != pair[1]]
    assert not wrong, wrong[:20]


def test_columns_of_the_old_temporal_formats(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str]
) -> None:
    server, db = mariadb1011, make_db(mariadb1011)
    start = binlog_end(server)
    server.execute("SET GLOBAL mysql56_temporal_format = OFF")
    try:
        server.execute(
            f"CREATE TABLE {db}.t (id INT PRIMARY KEY, a TIME, b DATETIME, c TIMESTAMP NULL)",
            f"CREATE TABLE {db}.u (id INT PRIMARY KEY, a TIME(3))",
        )
    finally:
        server.execute("SET GLOBAL mysql56_temporal_format = ON")
    server.execute(
        f"INSERT INTO {db}.t VALUES (1, '-12:34:56', '2024-02-29 01:02:03', FROM_UNIXTIME(1719835200))",
        f"INSERT INTO {db}.u VALUES (1, '01:02:03.5')",
    )
    plain, fractional = (event for event in rows_events(server, start) if event.table.schema == db)
    columns, _ = cells(render(plain, packed(from_schema(server, plain.table)), "poll")[0])
    assert [column.after for column in columns] == [b"1", b"-12:34:56", b"2024-02-29 01:02:03", b"2024-07-01 12:00:00"]
    with pytest.raises(ValueError, match=rf"column a of {db}\.u: column type 11"):
        render(fractional, packed(from_schema(server, fractional.table)), "poll")


def test_what_cannot_be_decoded_is_refused() -> None:
    column = ["v", 1, 247, 1, False, True, False, "", ["a", "b"], "enum('a','b')"]
    definition = msgspec.msgpack.encode(["shop", "t", 1, 1, 1, True, [column]])
    assert render_one(definition, b"\x01\x01\xfe\x02") == b"b"
    with pytest.raises(ValueError, match=r"column v of shop\.t"):
        render_one(definition, b"\x01\x01\xfe\x03")
    with pytest.raises(ValueError, match="after row 1"):
        render_one(definition, b"\x01\x01\xfe\x01\xfe")
    with pytest.raises(ValueError, match="malformed"):
        render_one(definition, b"")
    with pytest.raises(ValueError, match="damaged"):
        render_one(b"\x97", b"")
    for kind, charset, word in ((99, "", "column type 99"), (15, "klingon", "klingon")):
        changed = ["v", 1, kind, 1, False, True, False, charset, [], ""]
        with pytest.raises(ValueError, match=rf"column v of shop\.t.*{word}"):
            render_one(msgspec.msgpack.encode(["shop", "t", 1, 1, 1, True, [changed]]), b"")


def render_one(definition: bytes, body: bytes) -> bytes:
    [payload] = RowImages(definition, 1, body).render("poll")
    return cells(payload)[0][0].after
