"""ChangeReader: the columns of rows, their types and values, from constructed journals."""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from relay._native import Reached
from relay.errors import RelayError, StopCode
from relay.journal.frames import Column
from tests.support.change_batches import ALL, ids, read_all, taken
from tests.support.journal_builder import (
    DELETE,
    ID,
    INSERT,
    NAME,
    NOON,
    UPDATE,
    Made,
    column,
    definition,
    row,
)

DAY = 86400
META = ["_change_type", "_commit_version", "_commit_timestamp", "_seq", "_file", "_pos", "_gtid"]


def test_rows_of_a_transaction_carry_where_it_ends(made: Made) -> None:
    made.inserted(1, gtid="0-1-1")
    made.rows(UPDATE, row(1), row(1, b"y"), row(5), row(6, None))
    made.rows(DELETE, row(6, None))
    made.commit(NOON + 5, "0-1-2")
    reader = made.reader(base=1000)
    assert read_all(reader, made) == Reached("end", 1004, NOON + 5, "", "", b"", b"", 0)
    (columns,) = reader.take()
    assert (columns.date, columns.rows, columns.first, columns.last, columns.sides) == ("2023-11-14", 6, 1001, 1004, [])
    assert columns.definition == definition(ID, NAME)
    batch = pa.record_batch(columns)
    batch.validate(full=True)
    assert batch.schema.names == ["id", "name", "name__raw", *META]
    assert batch.column("id").to_pylist() == [1, 1, 1, 5, 6, 6]
    assert batch.column("name").to_pylist() == ["x", "x", "y", "x", None, None]
    changes = ["insert", *["update_preimage", "update_postimage"] * 2, "delete"]
    assert batch.column("_change_type").to_pylist() == changes
    assert batch.column("_seq").to_pylist() == [1001, 1002, 1002, 1003, 1003, 1004]
    assert batch.column("_commit_version").to_pylist() == [1001] + [1004] * 5
    ends = [datetime.fromtimestamp(NOON, UTC)] + [datetime.fromtimestamp(NOON + 5, UTC)] * 5
    assert batch.column("_commit_timestamp").to_pylist() == ends
    assert batch.column("_file").to_pylist() == ["binlog.000001"] * 6
    assert batch.column("_pos").to_pylist() == [104, 254, 254, 254, 254, 354]
    assert batch.column("_gtid").to_pylist() == ["0-1-1"] + ["0-1-2"] * 5
    assert (reader.file, reader.offset, reader.gtid, reader.timestamp) == ("binlog.000001", 404, "0-1-2", NOON + 5)
    assert (reader.position, reader.seq, reader.in_transaction) == (made.writer.committed(), 1004, False)
    assert (reader.identity, reader.generation) == ("server one", made.writer.generation())


def test_columns_have_the_types_of_the_lake(made: Made) -> None:
    text, one, four = pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.string())
    made.inserted(1)
    reader = made.reader()
    read_all(reader, made)
    (batch,) = taken(reader)
    assert [(field.name, field.type, field.nullable) for field in batch.schema] == [
        ("id", pa.int32(), True), ("name", text, True), ("name__raw", pa.binary(), True),
        ("_change_type", one, True), ("_commit_version", pa.int64(), True),
        ("_commit_timestamp", pa.timestamp("us", "UTC"), True), ("_seq", pa.int64(), True),
        ("_file", four, True), ("_pos", pa.int64(), True), ("_gtid", four, True),
    ]  # fmt: skip
    assert batch.column("_gtid").to_pylist() == [None]


SPECIAL: list[tuple[Column, list[bytes | None], str, list[Any], dict[str, list[Any]]]] = [
    (column("b", 16, 1), [b"\0", b"\1", None], "bool", [False, True, None], {}),
    (column("b", 16, 13), [b"\x12\x34", None], "binary", [b"\x12\x34", None], {}),
    (column("e", 247, 1, "", ("b", "", "a", "b")), [b"\0", b"\1", b"\2", b"\3", b"\4", None],
     "dictionary<values=string, indices=int32, ordered=0>", [None, "b", "", "a", "b", None],
     {"e__text": ["", *[None] * 5]}),
    (column("e", 247, 1, "", ("b", "a")), [b"\0", b"\1", None],
     "dictionary<values=string, indices=int32, ordered=0>", ["", "b", None], {}),
    (column("e", 247, 1, "binary", ("\xff", "a")), [b"\0", b"\1", b"\2"],
     "dictionary<values=binary, indices=int32, ordered=0>", [b"", b"\xff", b"a"], {}),
    (column("e", 247, 1), [b"\2", None], "int32", [2, None], {}),
    (column("s", 248, 1, "", ("x", "y")), [b"\0", b"\3", None], "list<item: string>", [[], ["x", "y"], None], {}),
    (column("g", 255, 4), [b"\x0b\0\0\0\xe6\x10\0\0wkbytes", b"\4\0\0\0\0\0\0\0", b"\0\0\0\0", None],
     "binary", [b"wkbytes", b"", b"", None], {"g__srid": [4326, 0, None, None]}),
    (column("d", 10), [b"\x21\xd0\x0f", b"\0\0\0", b"\x20\xd0\x0f", None], "date32[day]",
     [datetime(2024, 1, 1).date(), None, None, None], {"d__text": [None, "0000-00-00", "2024-01-00", None]}),
    (column("v", 15, 80, "utf8mb4"), [b"\2ok", b"\3\xffok", b"\1?", b"\0", None], "string",
     ["ok", "?ok", "?", "", None], {"v__raw": [None, b"\xffok", None, None, None]}),
    (column("v", 15, 80, "cp1251"), [b"\2\xe0?", b"\2\x98?", None], "string", ["а?", "??", None],
     {"v__raw": [None, b"\x98?", None]}),
    (column("v", 15, 80, "ucs2"), [b"\2\0a", b"\4\0a\xd8\0", None], "string", ["a", "a???", None],
     {"v__raw": [None, b"\0a\xd8\0", None]}),
    (column("v", 15, 80, "binary"), [b"\2\xff\0", None], "binary", [b"\xff\0", None], {}),
    (column("c", 141, 80, "cp1251"), [b"\3\0\xe0?", b"\3\0\x98?", b"\0", None], "string", ["а?", "??", "", None],
     {"c__raw": [None, b"\x98?", None, None]}),
    (column("t", 19), [b"\xb4\x6e\xfb", None], "int64", [3020399 * 10**6, None], {}),
    (column("n", 8, unsigned=True), [b"\xff" * 8, None], "decimal128(20, 0)", [2**64 - 1, None], {}),
]  # fmt: skip


@pytest.mark.parametrize(("of", "values", "kind", "expected", "sides"), SPECIAL)
def test_values_are_lossless_with_their_side_columns(
    made: Made, of: Column, values: list[bytes | None], kind: str, expected: list[Any], sides: dict[str, list[Any]]
) -> None:
    table = made.define(of, table="special")
    images = [b"\1" if value is None else b"\0" + value for value in values]
    made.rows(INSERT, *images, table=table, columns=1)
    made.commit()
    reader = made.reader()
    read_all(reader, made)
    (columns,) = reader.take()
    assert columns.sides == list(sides)
    batch = pa.record_batch(columns)
    batch.validate(full=True)
    assert str(batch.schema.field(of.name).type) == kind
    assert batch.column(of.name).to_pylist() == expected
    assert batch.schema.names[1 : -len(META)] == [name for name in batch.schema.names if "__" in name]
    assert {name: batch.column(name).to_pylist() for name in sides} == sides
    if pa.types.is_dictionary(batch.schema.field(of.name).type):
        words = batch.column(of.name).dictionary.to_pylist()
        assert len(set(words)) == len(words), "a Parquet writer takes them for unique"


def test_batches_in_the_memory_of_released_ones_have_only_their_own_rows(made: Made) -> None:
    chance, width = random.Random(45), len(SPECIAL)
    columns = [msgspec.structs.replace(of, name=f"c{i}") for i, (of, *_) in enumerate(SPECIAL)]
    table = made.define(*columns, table="special")
    for number in range(300):
        images = []
        for _ in range(chance.randrange(1, 20)):
            values = [chance.choice(each[1]) if chance.random() < number % 3 / 2 else each[1][0] for each in SPECIAL]
            nulls = sum(1 << i for i, value in enumerate(values) if value is None)
            images.append(nulls.to_bytes((width + 7) // 8, "little") + b"".join(value or b"" for value in values))
        made.rows(INSERT, *images, table=table, columns=width)
        made.commit(gtid=f"0-1-{number + 1}" if number % 2 else "")
    until = made.flush()

    def batches() -> Iterator[pa.RecordBatch]:
        reader = made.reader()
        why = "full"
        while why == "full":
            why = reader.read(until, chance.randrange(1, 60_000)).why
            yield from taken(reader)

    held = list(batches())  # each in memory of its own
    expected = [row for batch in held for row in batch.to_pylist()]
    found = []
    kept = deque[pa.RecordBatch]()

    def release() -> None:
        kept.popleft()

    with ThreadPoolExecutor(1) as other:
        for batch in batches():
            found += batch.to_pylist()
            kept.append(batch)
            del batch
            if len(kept) > 2:
                other.submit(release).result()
    assert len(held) > 20
    assert found == expected


@pytest.mark.parametrize(("most", "batches"), [(1, 3), (ALL, 1)])
def test_large_batches_keep_their_rows_in_a_block_and_beyond_it(tmp_path: Path, most: int, batches: int) -> None:
    made = Made(tmp_path, 64 << 20)
    made.table = made.define(ID, column("text", 15, 8000, "utf8mb4"))
    texts: list[str] = []
    for event in range(60):
        # The first rows, from which a batch knows the size of all, are shorter.
        more = [f"{event} {number} " * (500 if event % 20 < 2 else 1000) for number in range(100)]
        rows = (b"\0" + struct.pack("<iH", len(texts) + i, len(text)) + text.encode() for i, text in enumerate(more))
        made.rows(INSERT, *rows)
        texts += more
        if event % 20 == 19:
            made.commit()
    reader = made.reader()
    numbers, read = [], []
    for _ in range(batches):
        reader.read(made.flush(), most, ALL)
        (batch,) = taken(reader)
        assert batch.nbytes > 4 << 20, "too small for a block"
        numbers += batch.column("id").to_pylist()
        read += batch.column("text").to_pylist()
        del batch  # the next one takes its memory
    assert numbers == list(range(len(texts)))
    assert read == texts


def test_json_is_text_or_the_bytes_of_the_event(made: Made) -> None:
    document = bytes.fromhex("000100 0c00 0b00 0100 05 0200 61")  # {"a": 2}
    table = made.define(column("j", 245, 4), table="j")
    made.rows(INSERT, b"\0" + struct.pack("<I", len(document)) + document, b"\1", table=table, columns=1)
    made.commit()
    for json, kind, value in (("text", pa.string(), '{"a": 2}'), ("binary", pa.binary(), document)):
        reader = made.reader(json=json)
        read_all(reader, made)
        (batch,) = taken(reader)
        assert batch.schema.field("j").type == kind
        assert batch.column("j").to_pylist() == [value, None]


def test_json_is_read_in_one_of_two_forms(made: Made) -> None:
    with pytest.raises(ValueError, match="'text' or 'binary'"):
        made.reader(json="bson")


def test_batches_are_of_one_definition_and_one_day(made: Made) -> None:
    other = made.define(ID, table="other")
    made.inserted(1)
    made.rows(INSERT, b"\0" + struct.pack("<i", 7), table=other, columns=1)
    made.rows(INSERT, row(2))
    made.commit(NOON + DAY)
    made.table = made.define(ID, NAME, version=2)
    made.inserted(3, when=NOON + DAY)
    made.table = made.define(ID, NAME, version=2)  # another TABLE frame, of the same definition
    made.inserted(4, when=NOON + DAY)
    reader = made.reader()
    read_all(reader, made)
    found = [(columns.date, columns.first, columns.last, columns.rows) for columns in reader.take()]
    assert found == [
        ("2023-11-14", 1, 1, 1), ("2023-11-15", 2, 2, 1), ("2023-11-15", 3, 3, 1), ("2023-11-15", 4, 5, 2),
    ]  # fmt: skip


def test_rows_that_lack_columns_are_an_error_with_their_name(made: Made) -> None:
    made.inserted(1)
    made.writer.rows(made.table, INSERT, 500, NOON, 1, b"\2\1\0" + struct.pack("<i", 2))
    made.commit()
    reader = made.reader()
    for _ in range(2):
        with pytest.raises(RelayError, match=r"journal position \d+: rows of shop.t do not hold all columns") as error:
            read_all(reader, made)
        assert error.value.code is StopCode.PARTIAL_IMAGE
    assert ids(reader) == [1]
    left_out = made.reader(wanted=lambda schema, table: False)
    assert read_all(left_out, made).seq == 2
