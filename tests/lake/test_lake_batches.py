"""relay.lake.read_batches: changes as Arrow batches, from the journal of a DataDir."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import relay.lake
from relay.errors import ErrorCode, RelayError, StopCode
from relay.lake import Batch, read_batches
from tests.support import ROOT
from tests.support.journal_builder import DELETE, ID, INSERT, NOON, UPDATE, Made, column, row

DOCUMENT = (ROOT / "docs" / "lake-batches.md").read_text()
BIG = 20_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def made(data: Path) -> Made:
    return Made(data / "journal")


def read(made: Made, *tables: str, **more: Any) -> list[Batch]:
    made.flush()
    batches = list(read_batches(made.folder.parent, tables or ("*.*",), **more))
    for batch in batches:
        batch.rows.validate(full=True)
        numbers = batch.rows.column("_seq").to_pylist()
        assert (batch.first, batch.last) == (min(numbers), max(numbers))
    return batches


def changes(batches: list[Batch]) -> list[tuple[str, str, int]]:
    return [
        (batch.table, change, number)
        for batch in batches
        for change, number in zip(
            *(batch.rows.column(name).to_pylist() for name in ("_change_type", "_seq")), strict=True
        )
    ]


def other_row(made: Made, number: int) -> None:
    made.rows(INSERT, b"\0" + struct.pack("<i", number), table=made.define(ID, table="other"), columns=1)


def test_batches_say_what_they_hold_and_where_they_end(made: Made) -> None:
    made.inserted(1, gtid="0-1-1")
    made.rows(UPDATE, row(1), row(2))
    other_row(made, 7)
    made.commit(gtid="0-1-2")
    first, second = read(made)
    assert changes([first, second]) == [
        ("t", "insert", 1), ("t", "update_preimage", 2), ("t", "update_postimage", 2), ("other", "insert", 3),
    ]  # fmt: skip
    for batch in (first, second):
        assert (batch.schema, batch.file, batch.position) == ("shop", "binlog.000001", made.place)
        assert (batch.gtid, batch.whole, batch.lost) == ("0-1-2", True, "")
        assert batch.rows.schema.metadata[b"table"].decode() == batch.table
    assert read(made, start=second.resume) == []
    assert changes(read(made, start=first.resume)) == changes([first, second]), "the second was not dealt with"


def test_tables_are_chosen_by_pattern(made: Made) -> None:
    made.inserted(1)
    other_row(made, 7)
    made.commit()
    assert changes(read(made, "shop.o*", "no.*")) == [("other", "insert", 2)]
    assert changes(read(made, "*.t")) == [("t", "insert", 1)]
    with pytest.raises(RelayError, match="'orders' is not a table pattern") as error:
        read(made, "orders")
    assert error.value.code is ErrorCode.USAGE


def test_transactions_are_divided_only_if_they_are_too_large(made: Made) -> None:
    for number in range(0, 1800, 6):
        made.inserted(*range(number, number + 6))
    for number in range(1000, 4000, 10):
        made.rows(INSERT, *(row(n, b"y" * 70) for n in range(number, number + 10)))
    made.commit()
    made.inserted(9000)
    batches = read(made, max_bytes=BIG)
    assert [number for _, _, number in changes(batches)] == list(range(1, 4802))
    small = [batch for batch in batches if batch.last <= 1800]
    assert len(small) > 2
    assert all(batch.whole and batch.last % 6 == 0 for batch in small)
    assert all(batch.rows.nbytes < 2.5 * BIG for batch in batches)
    divided = [batch for batch in batches if not batch.whole]
    assert len(divided) > 5
    assert len({(batch.file, batch.position, batch.resume) for batch in divided}) == 1
    assert read(made, start=divided[-1].resume)[0].first == 1801, "it comes again as a whole"
    assert all(batch.whole for batch in batches if batch.last >= 4800)


def test_batches_are_small_and_yet_a_large_transaction_is_whole(made: Made) -> None:
    number = 0
    for rows in (15_000, 15_000, 15_000, 15_000, 60_000, 15_000):  # of some 310 bytes
        made.rows(INSERT, *(row(number + n, b"x" * 250) for n in range(rows)))
        made.commit()
        number += rows
    batches = read(made)
    assert all(batch.whole for batch in batches)
    assert [batch.rows.num_rows for batch in batches] == [30_000, 30_000, 60_000, 15_000]


def test_reading_goes_on_after_any_batch(made: Made) -> None:
    for number in range(200):
        made.rows(INSERT, *(row(n, b"z" * 60) for n in range(number % 9)))
        other_row(made, number)
        made.commit()
        if number % 50 == 25:
            made.statement("TRUNCATE t")
        if number % 60 == 30:
            made.writer.file(4, f"binlog.{number:06}")
            made.place = 4
    batches = read(made, max_bytes=BIG)
    everything = changes(batches)
    assert {change for _, change, _ in everything} == {"insert", "truncate"} and len(batches) > 10
    for at, batch in enumerate(batches):
        seen = changes(batches[: at + 1]) + changes(read(made, start=batch.resume, max_bytes=BIG))
        assert set(seen) == set(everything)


def test_statements_that_take_rows_are_rows_as_in_the_lake(made: Made) -> None:
    colours = made.define(ID, column("colour", 247, 1, "", ("red",)), column("select", 3), column("_seq", 3), table="c")
    made.rows(INSERT, b"\0\1\0\0\0\1\2\0\0\0\3\0\0\0", table=colours, columns=4)
    made.commit()
    made.statement("TRUNCATE TABLE c")
    made.statement("CREATE INDEX i ON c (colour)")
    made.statement("DROP TABLE unseen")
    made.statement("ALTER TABLE c MODIFY id BIGINT")
    rows, truncated, dropped, reset = read(made)
    assert changes([rows, truncated, dropped, reset]) == [
        ("c", "insert", 1), ("c", "truncate", 2), ("unseen", "drop", 4), ("c", "reset", 5),
    ]  # fmt: skip
    assert rows.rows.schema.names[:4] == ["id", "colour", "select", "_seq_"]
    assert truncated.rows.schema == rows.rows.schema
    (marker,) = truncated.rows.to_pylist()
    assert {marker[name] for name in ("id", "colour", "select", "_seq_")} == {None}
    assert (marker["_file"], marker["_commit_version"], marker["_gtid"]) == ("binlog.000001", 2, None)
    assert marker["_commit_timestamp"].timestamp() == NOON + 1
    assert dropped.rows.schema == pa.schema(list(rows.rows.schema)[4:])
    assert changes(read(made, "other.*")) == []


def test_an_accepted_gap_is_told_with_what_follows_it(made: Made) -> None:
    made.inserted(1)
    made.writer.gap(77, "binlog.000009", "purged by the source")
    made.rows(DELETE, row(1))
    other_row(made, 2)
    made.commit()
    made.inserted(3)
    assert [(batch.table, batch.lost) for batch in read(made, max_bytes=1)] == [
        ("t", ""), ("t", "purged by the source"), ("other", ""), ("t", ""),
    ]  # fmt: skip


def test_json_may_come_as_the_bytes_of_the_event(made: Made) -> None:
    document = bytes.fromhex("000100 0c00 0b00 0100 05 0200 61")
    table = made.define(column("j", 245, 4), table="j")
    made.rows(INSERT, b"\0" + struct.pack("<I", len(document)) + document, table=table, columns=1)
    made.commit()
    assert read(made)[0].rows.column("j").to_pylist() == ['{"a": 2}']
    assert read(made, json="binary")[0].rows.column("j").to_pylist() == [document]


def test_what_is_followed_comes_when_it_is_on_disk_and_has_waited(made: Made) -> None:
    made.inserted(1)
    made.flush()
    batches = read_batches(made.folder.parent, follow=True, max_seconds=0.3)
    assert changes([next(batches)]) == [("t", "insert", 1)]
    made.inserted(2)  # committed, and not yet on disk
    arrived = list[float]()

    def later() -> None:
        time.sleep(0.2)
        arrived.append(time.monotonic())
        made.flush()
        time.sleep(0.1)
        made.inserted(3)
        made.flush()

    thread = threading.Thread(target=later)
    thread.start()
    came = changes([next(batches)])
    assert time.monotonic() - arrived[0] >= 0.3
    thread.join()
    if len(came) == 1:  # the thread was late
        came += changes([next(batches)])
    assert came == [("t", "insert", 2), ("t", "insert", 3)]
    made.statement("TRUNCATE t")
    made.flush()
    assert changes([next(batches)]) == [("t", "truncate", 4)]


def test_a_place_of_another_journal_is_refused_and_so_is_none_at_all(made: Made, tmp_path: Path) -> None:
    made.inserted(1)
    (batch,) = read(made)
    other = Made(tmp_path / "other" / "journal")
    other.inserted(1)
    with pytest.raises(RelayError, match="a position of another journal") as error:
        read(other, start=batch.resume)
    assert error.value.code is StopCode.JOURNAL_LOST
    with pytest.raises(RelayError, match="'newest' is not a position") as error:
        read(other, start="newest")
    assert error.value.code is ErrorCode.USAGE
    with pytest.raises(RelayError) as error:
        read_batches(tmp_path / "nothing")
    assert error.value.code is StopCode.JOURNAL_LOST


def test_what_retention_took_is_named(made: Made) -> None:
    for number in range(2000):
        made.inserted(number)
    first = read(made, max_bytes=1)[0]
    made.writer.drop_before(made.writer.committed())
    with pytest.raises(RelayError) as error:
        read(made, start=first.resume)
    assert error.value.code is StopCode.JOURNAL_LOST
    assert read(made)[0].first > 2


def test_without_pyarrow_the_error_names_the_extra(made: Made) -> None:
    made.inserted(1)
    program = (
        "import sys\n"
        "sys.modules['pyarrow'] = None\n"
        "import relay.lake\n"
        "from relay.errors import RelayError\n"
        "try:\n"
        f"    relay.lake.read_batches({str(made.folder.parent)!r})\n"
        "except RelayError as error:\n"
        "    print(error.line())\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pyarrow" in out and "binlog-relay[lake]" in out


def test_the_lake_itself_exports_no_other_names() -> None:
    assert set(relay.lake.__all__) == {"Batch", "changes", "current", "read_batches"}
    with pytest.raises(AttributeError, match="no attribute 'write_batches'"):
        _ = relay.lake.write_batches


def test_the_document_runs_and_names_every_field(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made.inserted(1)
    made.statement("TRUNCATE t")
    made.flush()
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(compile(program, "docs/lake-batches.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "shop t 1 rows up to binlog.000001 304",
        "{'_seq': 1, '_change_type': 'insert'}",
        "shop t 1 rows up to binlog.000001 304",
        "{'_seq': 2, '_change_type': 'truncate'}",
    ]
    told = DOCUMENT.split("## What a batch is", 1)[1].split("\n\n", 2)[1]
    assert re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in told.splitlines())) == list(Batch._fields)
