"""Updates of parts of JSON values (MySQL's binlog_row_value_options = PARTIAL_JSON) become whole values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import Attention, RowImages, complete_rows
from relay.journal.frames import Column, Definition
from tests.support import binlogs
from tests.support.binlogs import Fed
from tests.support.journal_rows import journaled
from tests.support.server_variables import global_variable

UPDATE = 2
PARTIAL_UPDATE_ROWS = 39
SESSION = "SET binlog_row_value_options = 'PARTIAL_JSON'"


class Change(NamedTuple):
    """An update as a client gets it: columns by position, before and after it."""

    before: Any
    after: Any


def changes(fed: Fed) -> list[Change]:
    """Every updated row of the journal."""
    updates = [frame for frame in journaled(fed) if frame.kind == UPDATE]
    return [Change(*sides) for frame in updates for sides in frame.typed()]


def types(stream: bytes) -> set[int]:
    return {binlogs.event_type(packet) for packet in binlogs.split(stream)}


class Table:
    """Documents in a table, one column of it."""

    def __init__(self, server: DatabaseServer, db: str, documents: Iterable[str], *settings: str) -> None:
        self.server, self.db, self.settings = server, db, (SESSION, *settings)
        with closing(server.connect(database=db)) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, j JSON, n INT)")
            for document in documents:
                cursor.execute("INSERT INTO t (j, n) VALUES (%s, 0)", [document])
            connection.commit()

    def update(self, expressions: Sequence[str]) -> tuple[list[str | None], list[str | None]]:
        """Sets j to each expression, one after the other, in every row; what SELECT shows before and after each."""
        before, after = [], []
        with (
            closing(self.server.connect(database=self.db, autocommit=True)) as connection,
            connection.cursor() as cursor,
        ):
            for setting in self.settings:
                cursor.execute(setting)
            for expression in expressions:
                cursor.execute("SELECT j FROM t ORDER BY id")
                before += [row[0] for row in cursor.fetchall()]
                cursor.execute(f"UPDATE t SET n = n + 1, j = {expression} ORDER BY id")
                cursor.execute("SELECT j FROM t ORDER BY id")
                after += [row[0] for row in cursor.fetchall()]
        return before, after


def check(table: Table, expressions: Sequence[str], fed: Fed) -> set[int]:
    """The journal has what SELECT shows, before and after each update. The types of events that there were."""
    start = binlogs.place(table.server)
    before, after = table.update(expressions)
    stream = binlogs.record(table.server, start)
    fed.begin(start)
    fed.feed(stream)
    assert not [asked.asks for asked in fed.asked if asked.asks not in ("table", "end")]
    found = changes(fed)
    assert [change.before["@2"] for change in found] == before
    assert [change.after["@2"] for change in found] == after
    return types(stream)


@pytest.fixture
def fed(tmp_path: Path) -> Fed:
    return Fed(tmp_path)


@pytest.fixture
def db97(mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> str:
    return make_db(mysql97)


DOCUMENT = """{"a": 1, "b": [1, 2, {"c": "x", "d": [[], {}, null]}], "long key": {"": 0, "\\"q\\"": true}, "é": -1.5}"""
EXPRESSIONS = (
    "JSON_SET(j, '$.a', 2)",
    "JSON_SET(j, '$.a', 2)",  # what is there already: no change
    "JSON_REPLACE(j, '$.b[0]', 'one', '$.b[last].c', 70000, '$.none', 1)",
    "JSON_SET(j, '$.b[9]', 'appended', '$.b[last]', JSON_ARRAY(1, 2), '$.b[last-99]', 'first')",
    'JSON_SET(j, \'$."long key"."new \\\\\\\\ \\\\" key"\', NULL, \'$."$x"\', 1, \'$."1"\', 2, \'$."a.b[0]"\', 3)',
    "JSON_SET(j, '$.\"\"', 1, '$.\"tab\\\\there\"', 2, '$.\"\\\\u0001\"', 3, '$.é', 4, '$.\"日本 語\"', 5)",
    'JSON_REMOVE(j, \'$.""\', \'$.b[last-1]\', \'$."long key"."\\\\"q\\\\""\')',
    "JSON_REMOVE(JSON_SET(j, '$.x', JSON_OBJECT('k', 1)), '$.x.k')",
    "JSON_SET(JSON_REMOVE(j, '$.b[1]'), '$.b[1]', CAST('2024-02-29 01:02:03.5' AS DATETIME(6)), '$.dec', 1.10)",
    "JSON_SET(j, '$.a[0]', 3, '$.a[1]', 4)",  # an array is made of the scalar
    "JSON_ARRAY_APPEND(j, '$.b', 1)",
    "JSON_ARRAY_INSERT(j, '$.b[0]', 2)",
    "JSON_SET(j, '$.blob', CAST('abc' AS BINARY), '$.t', CAST('-12:30:00.25' AS TIME(6)), '$.n', 18446744073709551615)",
    "JSON_REMOVE(j, '$.b', '$.blob', '$.t')",
    "JSON_SET(j, '$', 1)",
    "JSON_SET(j, '$[1]', 1)",
    "NULL",
    "JSON_ARRAY(1, 2)",
    "JSON_SET(j, '$[0]', JSON_ARRAY(JSON_ARRAY(5)), '$[0][0][0]', 6, '$[0][0][1]', 7)",
)


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_whole_values_are_delivered(metadata: str, mysql97: DatabaseServer, db97: str, fed: Fed) -> None:
    table = Table(mysql97, db97, [DOCUMENT])
    with global_variable(mysql97, "binlog_row_metadata", metadata):
        assert PARTIAL_UPDATE_ROWS in check(table, EXPRESSIONS, fed)


def test_as_deep_as_the_server_allows(mysql97: DatabaseServer, db97: str, fed: Fed) -> None:
    """A hundred containers within one another, by index and by key."""
    arrays, objects = "[" * 99 + '"x", [], 1' + "]" * 99, '{"k":' * 99 + "{}" + "}" * 99
    table = Table(mysql97, db97, [arrays, objects])
    index, key = "$" + "[0]" * 98, "$" + ".k" * 99
    expressions = [f"JSON_SET(j, '{index}[1][0]', 1)", f"JSON_SET(j, '{key}.new', 1, '{key}.newer', 2)"]
    expressions += [f"JSON_REPLACE(j, '{index}[0]', JSON_ARRAY())", f"JSON_REMOVE(j, '{index}[last-1]', '{key}.new')"]
    assert PARTIAL_UPDATE_ROWS in check(table, expressions, fed)


def test_growing_beyond_64_kib_and_shrinking_again(mysql97: DatabaseServer, db97: str, fed: Fed) -> None:
    """Offsets are of two bytes in containers of up to 65535 bytes, and of four in larger ones."""
    filler = ", ".join(f'"key {number}": {number * 1000}' for number in range(100))
    table = Table(mysql97, db97, [f'{{"a": [70000, -70000, 5, null], "o": {{{filler}}}, "pad": ""}}'])
    # A length beside the boundary for every alignment of what else is in the document.
    sizes = [*range(65535 - 1500, 65535, 97), 65535, 65536, 70000, 3_000_000, 16383, 16384, 127, 128]
    expressions = []
    for size in sizes:
        expressions += [f"JSON_SET(j, '$.pad', REPEAT('x', {size}))", "JSON_SET(j, '$.a[0]', 70001)"]
    expressions += ["JSON_REMOVE(j, '$.pad')", "JSON_SET(j, '$.o.new', REPEAT('y', 66000), '$.a[3]', 70000)"]
    expressions += ["JSON_REMOVE(j, '$.o.\"key 5\"')", "JSON_REMOVE(j, '$.o.new')"]
    assert PARTIAL_UPDATE_ROWS in check(table, expressions, fed)


@pytest.mark.slow
def test_a_document_larger_than_a_packet(mysql97: DatabaseServer, db97: str, fed: Fed) -> None:
    table = Table(mysql97, db97, ['{"a": 1}'])
    expressions = [
        "JSON_SET(j, '$.pad', REPEAT('x', 17000000))",
        "JSON_SET(j, '$.a', 'two')",
        "JSON_REMOVE(j, '$.pad')",
    ]
    assert PARTIAL_UPDATE_ROWS in check(table, expressions, fed)


@pytest.mark.parametrize(
    "shape",
    [
        '{"n": 70000, "k": {"b": "%s"}, "l": -70000}',
        '{"k": {"b": "%s", "n": 70000}}',
        '{"a": [70000, "%s"], "k": {"b": 1}}',
    ],
)
def test_the_first_byte_beyond_64_kib(shape: str, mysql97: DatabaseServer, db97: str, fed: Fed) -> None:
    """Which layout a container has is decided by one byte."""
    table = Table(mysql97, db97, [shape % ("x" * 65_000)])
    [(size,)] = mysql97.execute(f"SELECT JSON_STORAGE_SIZE(j) FROM {db97}.t")
    room = 65_535 - size
    expressions = [f"JSON_SET(j, '$.k.c', REPEAT('y', {length}))" for length in range(room - 30, room + 4)]
    assert PARTIAL_UPDATE_ROWS in check(table, expressions, fed)


def test_several_columns_of_which_some_change(mysql97: DatabaseServer, db97: str, fed: Fed) -> None:
    """More than eight JSON columns, NULLs among them, and others between; what is generated follows."""
    columns = ", ".join(f"j{number} JSON, v{number} INT DEFAULT 7" for number in range(9))
    generated = "g JSON AS (JSON_EXTRACT(j1, '$.a')) VIRTUAL, h JSON AS (JSON_SET(j8, '$.h', 1)) STORED"
    names = ", ".join(f"j{number}" for number in range(9))
    values = ", ".join("NULL" if number % 4 == 3 else f"""'{{"a": {number}, "b": [1, 2]}}'""" for number in range(9))
    update = [f"UPDATE {db97}.t SET j{number} = JSON_SET(j{number}, '$.a', 100)" for number in range(9)]
    update.append(
        f"UPDATE {db97}.t SET j0 = NULL, j3 = '{{}}', j8 = JSON_REMOVE(j8, '$.b'), j1 = JSON_SET(j1, '$.c', 1)"
    )
    update.append(f"UPDATE {db97}.t SET j7 = '5', j6 = JSON_REPLACE(j6, '$.b[1]', 'x', '$.a', JSON_OBJECT()), v4 = 8")
    start = binlogs.place(mysql97)
    mysql97.execute(
        SESSION,
        f"CREATE TABLE {db97}.t (id INT PRIMARY KEY, {columns}, {generated})",
        f"INSERT INTO {db97}.t (id, {names}) VALUES (1, {values}), (2, {values})",
        *update,
    )
    stream = binlogs.record(mysql97, start)
    assert PARTIAL_UPDATE_ROWS in types(stream)
    fed.begin(start)
    fed.feed(stream)
    final = {change.after["@1"]: list(change.after.values()) for change in changes(fed)}
    assert [final[1], final[2]] == [list(row) for row in mysql97.execute(f"SELECT * FROM {db97}.t ORDER BY id")]


def test_what_a_row_image_cannot_tell_stops_by_name(mysql97: DatabaseServer, db97: str, fed: Fed) -> None:
    """Without the value before it a change cannot be applied; other rows of such images are taken."""
    table = Table(mysql97, db97, [DOCUMENT], "SET binlog_row_image = MINIMAL")
    start = binlogs.place(mysql97)
    _, after = table.update(["JSON_SET(j, '$.a', 2)", "JSON_ARRAY(1)"])
    fed.begin(start)
    fed.feed(binlogs.record(mysql97, start))
    assert [asked.asks for asked in fed.asked] == ["table", "partial", "unknown", "end"]
    assert [asked.type for asked in fed.asked[1:3]] == [PARTIAL_UPDATE_ROWS] * 2
    assert [change.after["@2"] for change in changes(fed)] == after[1:]


def test_images_without_unneeded_blobs_hold_what_is_needed(mysql97: DatabaseServer, db97: str, fed: Fed) -> None:
    table = Table(mysql97, db97, [DOCUMENT], "SET binlog_row_image = NOBLOB")
    assert PARTIAL_UPDATE_ROWS in check(table, EXPRESSIONS, fed)


def test_columns_that_are_left_out_are_not_put_together(mysql97: DatabaseServer, db97: str, fed: Fed) -> None:
    """Which of a table's JSON columns are told by changes is counted over all of them, also those not in the row."""
    table = f"{db97}.t"
    start = binlogs.place(mysql97)
    mysql97.execute(
        SESSION,
        "SET binlog_row_image = MINIMAL",
        f"CREATE TABLE {table} (id INT PRIMARY KEY, a JSON, b JSON, c JSON)",
        f"INSERT INTO {table} VALUES (1, '[]', JSON_OBJECT('a', 1, 'pad', REPEAT('x', 50)), '[]')",
        f"UPDATE {table} SET b = JSON_SET(b, '$.a', 2), c = JSON_ARRAY(1)",
    )
    stream = binlogs.record(mysql97, start)
    assert PARTIAL_UPDATE_ROWS in types(stream)

    def without_b(asked: Attention) -> bool:
        if asked.asks != "table":
            return False
        whole = binlogs.defined(asked.body)
        kept = [column for column in whole.columns if column.name != "@3"]
        published = msgspec.structs.replace(whole, columns=kept)
        definitions = msgspec.msgpack.encode(whole), msgspec.msgpack.encode(published)
        fed.ingest.define(asked.table_id, *definitions, (True, True, False, True))
        return True

    fed.answer = without_b
    fed.begin(start)
    fed.feed(stream)
    assert not [asked for asked in fed.asked if asked.asks == "unknown"]
    assert changes(fed) == [Change({"@1": 1}, {"@4": "[1]"})]


def test_within_compressed_transactions_and_prepared_ones(mysql97: DatabaseServer, db97: str, tmp_path: Path) -> None:
    for name, before, after in (
        ("compressed", "SET binlog_transaction_compression = ON", ""),
        ("prepared", "XA START 'partial'", "XA END 'partial'; XA PREPARE 'partial'; XA COMMIT 'partial'"),
    ):
        mysql97.execute(
            f"CREATE TABLE {db97}.{name} (id INT PRIMARY KEY, j JSON)",
            f"""INSERT INTO {db97}.{name} VALUES (1, '{{"a": 1, "b": [1, 2]}}'), (2, '{{"a": 1}}')""",
        )
        start = binlogs.place(mysql97)
        update = f"UPDATE {db97}.{name} SET j = JSON_SET(j, '$.a', 'two', '$.b[5]', 3)"
        mysql97.execute(SESSION, before, update, *filter(None, after.split("; ")))
        fed = Fed(tmp_path / name)
        fed.begin(start)
        fed.feed(binlogs.record(mysql97, start))
        printed = [row[0] for row in mysql97.execute(f"SELECT j FROM {db97}.{name} ORDER BY id")]
        assert [change.after["@2"] for change in changes(fed)] == printed, name


COLUMNS = [
    Column(name, number, kind, meta, unsigned=False, nullable=True, primary=False, charset="", labels=[], sql_type="")
    for number, (name, kind, meta) in enumerate([("id", 1, 0), ("c2", 245, 4), ("c3", 245, 4)], 1)
]
DEFINITION = msgspec.msgpack.encode(Definition("shop", "orders", 1, 1, 1, True, COLUMNS))
OBJECT = bytes.fromhex("00 0100 0c00 0b00 0100 05 0100 61")  # {"a": 1}
ARRAY = bytes.fromhex("02 0100 0700 05 0200")  # [2]
HEAD = b"\3\7\7"  # three columns, all of them in both images


def sized(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


def change(operation: int, path: str, value: bytes | None = None) -> bytes:
    text = path.encode()
    return bytes([operation, len(text)]) + text + (b"" if value is None else bytes([len(value)]) + value)


def row(changes: bytes, options: bytes = b"\1", partial: bytes = b"\1", before: bytes = OBJECT) -> bytes:
    """An update of a table with an integer and two JSON columns, of which the first is told by what changed."""
    return b"\0\5" + sized(before) + sized(ARRAY) + options + partial + b"\0\6" + sized(changes) + sized(ARRAY)


def test_rows_are_completed_one_after_the_other() -> None:
    body = HEAD + row(change(0, "$.a", b"\5\7\0")) + row(b"") + row(OBJECT, partial=b"\0")
    whole = complete_rows(DEFINITION, body)
    rows = [msgspec.msgpack.decode(each)[7] for each in RowImages(DEFINITION, UPDATE, whole).render("msgpack")]
    assert [each["c2"] for each in rows] == ['{"a": 7}', '{"a": 1}', '{"a": 1}']
    assert {each["c3"] for each in rows} == {"[2]"}


def test_every_cut_is_noticed() -> None:
    one = row(change(1, "$.b", b"\x0c\3xyz") + change(2, "$.a"))
    body = HEAD + one + one
    complete_rows(DEFINITION, body)
    ends = {len(HEAD), len(HEAD + one)}
    for size in set(range(len(body))) - ends:
        with pytest.raises(ValueError, match="does not fit"):
            complete_rows(DEFINITION, body[:size])


@pytest.mark.parametrize(
    "changes",
    [
        change(3, "$.a", b"\5\7\0"),  # no such operation
        change(0, "$.b", b"\5\7\0"),  # nothing there to replace
        change(1, "$.a", b"\5\7\0"),  # there already
        change(2, "$.b"),  # nothing there to remove
        change(2, "$"),  # all of it
        change(2, "$[0]"),  # no array
        change(1, "$[0]", b"\5\7\0"),
        change(0, "$.a.b", b"\5\7\0"),  # no object
        change(0, "$.*", b"\5\7\0"),
        change(0, "$**.a", b"\5\7\0"),
        change(0, "a", b"\5\7\0"),  # no path
        change(0, '$."a', b"\5\7\0"),
        change(0, '$."\\ud800"', b"\5\7\0"),
        change(0, "$[1", b"\5\7\0"),
        change(0, "$[last+1]", b"\5\7\0"),
        change(0, "$[99999999999999999999]", b"\5\7\0"),
        change(0, "$.a", b""),  # no value
        change(0, "$.a", b"\5\7"),  # half of one
        change(0, "$.a", b"\x0d\7\0"),  # of no type
        change(0, "$.a", b"\0\1\0\xff\0"),  # larger than it is
    ],
)
def test_changes_that_do_not_fit_are_refused(changes: bytes) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        complete_rows(DEFINITION, HEAD + row(changes))


def test_unknown_options_of_values_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        complete_rows(DEFINITION, HEAD + row(b"", options=b"\3"))


def test_a_document_that_names_its_bytes_again_and_again_does_not_grow_without_end() -> None:
    """Each of many elements is one and the same large text: written out, they would be gigabytes."""
    count, text = 10_000, b"\x80\x80\x02" + b"x" * 32768
    entries = b"\x0c" + struct.pack("<H", 4 + 3 * count)
    array = b"\2" + struct.pack("<HH", count, 4 + 3 * count + len(text)) + entries * count + text
    body = HEAD + row(change(2, "$[0]"), before=array)
    with pytest.raises(ValueError, match="does not fit"):
        complete_rows(DEFINITION, body)
