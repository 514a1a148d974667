"""ChangeReader: the journal's transactions as columns for the lake, from constructed journals and real servers."""

from __future__ import annotations

import os
import random
import signal
import struct
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from relay._native import ChangeReader, JournalError, JournalReader, JournalWriter, Reached
from relay.errors import RelayError, StopCode
from relay.journal.frames import Column
from tests.support.journal_builder import (
    DELETE,
    ID,
    INSERT,
    NAME,
    NOON,
    SEGMENT,
    UPDATE,
    Made,
    body,
    column,
    definition,
    row,
)
from tests.support.waiting import until

DAY = 86400
META = ["_change_type", "_commit_version", "_commit_timestamp", "_seq", "_file", "_pos", "_gtid"]
ALL = 1 << 40


def taken(reader: ChangeReader) -> list[pa.RecordBatch]:
    batches = [pa.record_batch(columns) for columns in reader.take()]
    for batch in batches:
        batch.validate(full=True)
    return batches


def ids(reader: ChangeReader) -> list[int]:
    return [number for batch in taken(reader) for number in batch.column("id").to_pylist()]


def read_all(reader: ChangeReader, made: Made, max_bytes: int = ALL) -> Reached:
    return reader.read(made.flush(), max_bytes)


def drain(reader: ChangeReader, until: int) -> None:
    while reader.read(until, ALL).why != "end":
        reader.take()


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


def test_a_statement_has_a_number_and_stops_the_reading_after_its_transaction(made: Made) -> None:
    made.inserted(1, 2)
    made.statement("TRUNCATE t")
    made.inserted(3)
    reader = made.reader()
    [(position, _)] = JournalReader(made.folder).frames(made.writer.first(), made.flush(), kinds=[6])
    assert read_all(reader, made) == Reached("ddl", 3, NOON + 1, "shop", "TRUNCATE t", b"", b"", position)
    assert (ids(reader), reader.seq, reader.in_transaction) == ([1, 2], 3, False)
    assert read_all(reader, made) == Reached("end", 4, NOON, "", "", b"", b"", 0)
    (batch,) = taken(reader)
    assert batch.column("_seq").to_pylist() == [4]
    assert made.writer.state().sequence == 5


def test_bytes_of_a_statement_that_are_no_utf8_can_be_written_as_text(made: Made) -> None:
    made.statement("ALTER TABLE t COMMENT 'caf\udce9'")
    assert read_all(made.reader(), made).text == "ALTER TABLE t COMMENT 'caf\ufffd'"


def test_statements_and_rows_of_one_transaction_are_told_at_its_end(made: Made) -> None:
    start = made.writer.committed()
    made.writer.ddl(made.place, NOON, "shop", "CREATE TABLE a")
    made.rows(INSERT, row(1))
    made.writer.ddl(made.place, NOON, "shop", "CREATE TABLE b")
    made.rows(INSERT, row(2))
    made.commit()
    reader = made.reader()
    assert read_all(reader, made)[::4] == ("ddl", "CREATE TABLE a")
    assert reader.in_transaction and reader.position == start, "the other one is still to be told"
    assert read_all(reader, made)[::4] == ("ddl", "CREATE TABLE b")
    assert not reader.in_transaction and reader.position == made.writer.committed()
    assert read_all(reader, made).why == "end"
    (batch,) = taken(reader)
    assert batch.column("_seq").to_pylist() == [2, 4]
    assert batch.column("_commit_version").to_pylist() == [4, 4]


def test_gaps_and_another_source_stop_the_reading(made: Made) -> None:
    made.inserted(1)
    made.writer.gap(77, "binlog.000003", "purged")
    made.inserted(2)
    made.writer.file(4, "binlog.000004")
    made.writer.source(200, "other.000001", "", "server two")
    made.inserted(3)
    reader = made.reader()
    assert read_all(reader, made) == Reached("gap", 1, NOON, "", "purged", b"", b"", 0)
    assert (ids(reader), reader.file, reader.offset) == ([1], "binlog.000003", 77)
    assert read_all(reader, made) == Reached("source", 2, NOON, "", "server two", b"", b"", 0)
    assert (ids(reader), reader.file, reader.offset) == ([2], "other.000001", 200)
    assert read_all(reader, made).why == "end"
    (batch,) = taken(reader)
    assert batch.column("_file").to_pylist() == ["other.000001"]


def test_columns_may_be_taken_within_a_large_transaction(made: Made) -> None:
    made.inserted(0)
    before = made.writer.committed()
    for number in range(0, 3000, 10):
        made.rows(INSERT, *(row(n, b"y" * 70) for n in range(number, number + 10)))
    made.commit(gtid="0-1-9")
    reader, found = made.reader(before), list[int]()
    while (reached := read_all(reader, made, 20_000)).why == "full":
        assert reader.in_transaction and reader.position == before
        (batch,) = taken(reader)
        assert batch.nbytes < 30_000
        assert reached.seq == reader.seq == batch.column("_seq").to_pylist()[-1]
        assert set(batch.column("_commit_version").to_pylist()) == {3001}
        assert set(batch.column("_gtid").to_pylist()) == {"0-1-9"}
        found += batch.column("id").to_pylist()
    assert reached.why == "end" and not reader.in_transaction
    assert found + ids(reader) == list(range(3000))
    assert len(found) > 2000


def test_the_least_that_is_read_is_a_row(made: Made) -> None:
    made.inserted(1, 2)
    made.inserted(3)
    reader, found = made.reader(), list[list[int]]()
    while read_all(reader, made, 1).why == "full":
        found.append(ids(reader))
    assert [*found, ids(reader)] == [[1], [2], [3]] or [*found, ids(reader)] == [[1], [2], [3], []]


def test_reading_goes_on_at_any_boundary_as_if_it_had_never_stopped(made: Made) -> None:
    for number in range(600):
        made.rows(INSERT, *(row(n, b"z" * 60) for n in range(number % 7)))
        made.rows(INSERT, row(number, b"w" * 100))
        made.commit(gtid=f"0-1-{number + 1}")
        if number % 90 == 5:
            made.writer.file(4, f"binlog.{number:06}")
            made.place = 4
        if number % 100 == 50:
            made.statement(f"ALTER {number}")
    until = made.flush()
    assert len(list(made.folder.glob("*.seg"))) > 3

    def facts(reader: ChangeReader) -> tuple[Any, ...]:
        return reader.position, reader.seq, reader.file, reader.offset

    whole, places = made.reader(), list[tuple[Any, ...]]()
    while whole.read(until, 3000).why != "end":
        whole.take()
        if not whole.in_transaction:
            places.append(facts(whole))
    assert len(places) > 100
    for place in places:
        again = ChangeReader(made.folder, place[0])
        assert facts(again) == place
    rest = ChangeReader(made.folder, places[-30][0])
    drain(rest, until)
    assert facts(rest) == facts(whole)


def test_it_begins_with_the_oldest_whole_transaction_and_names_what_retention_took(made: Made) -> None:
    for number in range(40):
        for _ in range(60):
            made.rows(INSERT, row(number, b"q" * 70))
        made.commit()
    until = made.flush()
    start = made.writer.committed()
    bases = [segment.base for segment in made.writer.segments()]
    early = ChangeReader(made.folder)
    early.read(until, 1)
    for drop in bases[1:-1]:
        made.writer.drop_before(drop)
        reader = ChangeReader(made.folder)
        assert reader.read(until, ALL).why == "end"
        numbers = ids(reader)
        assert len(numbers) % 60 == 0, "the rest of a transaction whose beginning is gone is left out"
        assert numbers == [n for n in range(40 - len(numbers) // 60, 40) for _ in range(60)]
        assert reader.position == start
    with pytest.raises(JournalError) as lost:
        ChangeReader(made.folder, bases[1] + 64)
    assert lost.value.code is StopCode.JOURNAL_LOST
    with pytest.raises(JournalError) as lost:
        drain(early, until)
    assert lost.value.code is StopCode.JOURNAL_LOST


def test_a_position_within_a_transaction_is_refused(made: Made) -> None:
    made.rows(INSERT, row(1))
    within = made.writer.end()
    made.rows(INSERT, row(2))
    made.commit()
    with pytest.raises(JournalError, match="not between transactions"):
        made.reader(within)


def test_tables_are_chosen_by_name_once(made: Made) -> None:
    asked, other = list[tuple[str, str]](), made.define(ID, table="other")
    for number in range(3):
        made.rows(INSERT, row(number))
        made.rows(INSERT, b"\0" + struct.pack("<i", 70 + number), table=other, columns=1)
        made.commit()
    made.table = made.define(ID, NAME, version=2)
    made.inserted(9)

    def wanted(schema: str, table: str) -> bool:
        asked.append((schema, table))
        return table == "other"

    reader = made.reader(wanted=wanted)
    assert read_all(reader, made) == Reached("end", 7, NOON, "", "", b"", b"", 0)
    (batch,) = taken(reader)
    assert (batch.column("id").to_pylist(), batch.column("_seq").to_pylist()) == ([70, 71, 72], [2, 4, 6])
    assert asked == [("shop", "t"), ("shop", "other")]


def test_a_reading_returns_now_and_then_though_nothing_is_wanted(tmp_path: Path) -> None:
    made = Made(tmp_path, segment_bytes=1 << 26)
    large = b"\x03" + b"\0" * (1 << 22)
    for _ in range(2):
        for number in range(10):  # of a transaction: 40 MiB
            made.writer.rows(made.table, INSERT, number, NOON, 1, large)
        made.commit()
    reader = made.reader(wanted=lambda schema, table: False)
    reasons = list[str]()
    while not reasons or reasons[-1] != "end":
        reasons.append(read_all(reader, made).why)
    assert reasons.count("more") in (2, 3)
    assert (reader.seq, reader.position) == (20, made.writer.committed())


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


def test_a_definition_that_waits_for_its_proof_stops_the_reading(made: Made) -> None:
    made.inserted(1)
    pending = made.writer.define(definition(column("@1", 3), table="late"), pending=True)
    made.writer.rows(pending, INSERT, 900, NOON, 1, body(INSERT, 1, b"\0\5\0\0\0"))
    made.commit()
    made.inserted(2)
    reader, end = made.reader(), made.writer.end()
    assert reader.read(end, ALL).seq == 1
    assert ids(reader) == [1]
    made.writer.resolve(pending, definition(ID, table="late"))
    until = made.flush()
    assert reader.read(until, ALL).seq == 3
    assert ids(reader) == [5, 2]
    assert reader.position == until == ChangeReader(made.folder, until).position, "the proof stands at the end"


def test_reading_is_level_behind_a_definition_that_was_proven_last(made: Made) -> None:
    pending = made.writer.define(definition(column("@1", 3), table="late"), pending=True)
    made.writer.rows(pending, INSERT, 900, NOON, 1, body(INSERT, 1, b"\0\5\0\0\0"))
    made.commit()
    made.writer.resolve(pending, definition(ID, table="late"))
    reader, end = made.reader(), made.flush()
    assert reader.read(end, ALL).why == "end"
    assert reader.position == end
    assert ChangeReader(made.folder, end).seq == 1


def test_what_is_flushed_is_told_to_any_process(made: Made) -> None:
    other = JournalReader(made.folder)
    first = made.flush()
    assert other.flushed() == first == made.writer.committed()
    made.inserted(1)
    assert other.flushed() == first
    pid = os.fork()
    if pid == 0:
        os._exit(0 if JournalReader(made.folder).flushed() == first else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    second = made.flush()
    assert other.flushed() == JournalReader(made.folder).flushed() == second > first
    for _ in range(3000):  # several segments of a transaction that is open, and then taken back
        made.rows(INSERT, row(1, b"l" * 70))
    assert other.flushed() == JournalReader(made.folder).flushed() == made.flush() == second
    made.writer.rollback()
    assert other.flushed() == JournalReader(made.folder).flushed() == second
    made.inserted(2)
    third = made.flush()
    assert other.flushed() == JournalReader(made.folder).flushed() == third == made.writer.committed()


def test_a_folder_without_a_journal_has_nothing_flushed(tmp_path: Path) -> None:
    assert JournalReader(tmp_path).flushed() == 0
    with pytest.raises(JournalError):
        ChangeReader(tmp_path)


def test_json_is_read_in_one_of_two_forms(made: Made) -> None:
    with pytest.raises(ValueError, match="'text' or 'binary'"):
        made.reader(json="bson")


def killed_writer(folder: Path, seed: int) -> None:
    """Transactions whose rows have their own numbers as ids, in a process that is killed; flushed now and then.

    With an even seed it is killed only after a flush, however slow the machine is.
    """
    journal = JournalReader(folder)
    flushed = journal.flushed()
    pid = os.fork()
    if pid == 0:
        try:
            chance = random.Random(seed)
            writer = JournalWriter(folder, SEGMENT)
            table = writer.define(definition(ID, NAME))
            while True:
                number = writer.state().sequence
                for first in range(number, number + chance.randrange(60), 3):
                    images = [row(each, b"k" * 70) for each in range(first, first + 3)]
                    writer.rows(table, INSERT, number, NOON, 3, body(INSERT, 2, *images))
                if chance.random() < 0.1:
                    writer.rollback()
                    continue
                writer.commit(number, NOON, f"0-1-{number}")
                if chance.random() < 0.2:
                    writer.flush()
        finally:
            os._exit(1)
    try:
        if seed % 2 == 0:
            until(lambda: journal.flushed() > flushed, what=f"nothing flushed after byte {flushed}", pause=0.001)
        time.sleep(random.Random(seed).uniform(0.01, 0.05))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_what_was_read_as_flushed_stands_whatever_becomes_of_the_writer(tmp_path: Path) -> None:
    JournalWriter(tmp_path, SEGMENT).flush()
    journal, found, position = JournalReader(tmp_path), list[int](), 0
    for seed in range(25):
        reader = ChangeReader(tmp_path, position)
        flushed = journal.flushed()
        killed_writer(tmp_path, seed)
        assert journal.flushed() >= flushed
        while reader.read(journal.flushed(), 30_000).why != "end":
            if not reader.in_transaction:
                position = reader.position
            for batch in taken(reader):
                assert batch.column("id").to_pylist() == batch.column("_seq").to_pylist()
                found += [number for number in batch.column("_seq").to_pylist() if number > len(found)]
        for batch in taken(reader):
            found += [number for number in batch.column("_seq").to_pylist() if number > len(found)]
        position = reader.position
        assert found == list(range(1, reader.seq + 1))
    assert len(found) > 25 / 2
