"""Values in row images: both sides of a change, missing columns, undecodable bytes; numbers of every size."""

from __future__ import annotations

import itertools
import random
import time
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import RowImages
from relay.journal.frames import Definition
from tests.support.source_rows import RowsEvent, binlog_end, from_event, from_nothing, packed, rows_events
from tests.types.payloads import Cell, cells

pytestmark = pytest.mark.brands


def render(event: RowsEvent, definition: bytes, form: str, **options: Any) -> list[bytes]:
    rendered: list[bytes] = RowImages(definition, event.kind, event.body).render(form, **options)
    return rendered


def of_table(events: list[RowsEvent], table: str) -> list[RowsEvent]:
    return [event for event in events if event.table.table == table]


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


def test_names_have_short_heads_which_decoders_know() -> None:
    sequence_end = 10
    names = ["a", "b" * 31, "c" * 32, "d" * 255]
    row = render_tinies(names, position=70_000)
    parts = [1, 70_000, "shop", "t", 1, None, dict.fromkeys(names, 1)]
    assert row[sequence_end:] == b"".join(map(msgspec.msgpack.encode, parts))
    for names in (["e" * 300], [f"c{number}" for number in range(16)]):
        assert msgspec.msgpack.decode(render_tinies(names))[7] == dict.fromkeys(names, 1)


def render_tinies(names: list[str], **options: Any) -> bytes:
    """The row of an insert in msgpack, in which each of these columns is 1."""
    columns = [[name, 1, 1, 0, False, True, False, "", [], "tinyint"] for name in names]
    definition = msgspec.msgpack.encode(["shop", "t", 1, 1, 1, True, columns])
    bitmap = (len(names) + 7) // 8
    body = bytes([len(names)]) + b"\xff" * bitmap + b"\0" * bitmap + b"\1" * len(names)
    [row] = RowImages(definition, 1, body).render("msgpack", **options)
    return row


def render_one(definition: bytes, body: bytes) -> bytes:
    [payload] = RowImages(definition, 1, body).render("poll")
    return cells(payload)[0][0].after
