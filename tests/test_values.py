"""Every value of every type becomes the text that the server itself prints in a SELECT."""

from __future__ import annotations

import itertools
import random
import secrets
import struct
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pyarrow
import pytest

from examples.dbserver import DatabaseServer
from relay._native import Columns, RowImages
from relay.journal.frames import Definition
from tests.arrowvalues import as_column
from tests.rowsource import RowsEvent, binlog_end, from_event, from_nothing, from_schema, packed, rows_events
from tests.value_cases import BINARIES, CASES, INTEGERS, Case


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


@pytest.fixture(scope="module")
def filled(server: DatabaseServer) -> Iterator[Filled]:
    db = f"values_{secrets.token_hex(5)}"
    before = server.execute("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    server.execute(f"CREATE DATABASE {db} CHARACTER SET utf8mb4", "SET GLOBAL binlog_row_metadata = FULL")
    tables = fill(server, db)
    server.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    yield tables
    server.execute(f"DROP DATABASE {db}")


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


def test_columns_hold_what_the_server_prints(filled: Filled) -> None:
    wrong = []
    for number, case, events in filled.cases():
        columns = Columns(packed(from_schema(filled.server, events[0].table)))
        for event in events:
            columns.add(event.kind, event.body)
        batch = pyarrow.record_batch(columns)
        batch.validate(full=True)
        assert batch.num_rows == 1 + len(case.values)
        kind = batch.schema.field("v").type
        asides = batch.column("v__text").to_pylist() if "v__text" in batch.schema.names else itertools.repeat(None)
        for text, *got in zip(filled.printed(number), batch.column("v").to_pylist(), asides, strict=False):
            try:
                expected = [as_column(kind, text), None]
            except ValueError:
                expected = [None, text.decode() if text else None]
            if got != expected and not (isinstance(got[0], float) and rounded(case, got[0]) == expected[0]):
                wrong.append(f"{case.sql} {text!r:.80}: {got!r:.200} instead of {expected!r:.200}")
    assert not wrong, "\n".join(wrong)


def rounded(case: Case, value: float) -> float:
    """A number as the server prints it: six digits of a FLOAT; as many decimals as FLOAT(M,D) and DOUBLE(M,D) have."""
    if "," in case.sql:
        return round(value, int(case.sql.split(",")[1].split(")")[0]))
    return float(f"{value:.6g}") if case.sql.startswith("FLOAT") else value


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
