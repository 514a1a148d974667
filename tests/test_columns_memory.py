"""The memory of column batches: used again, in any thread, and little of it kept."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from relay._native import Columns

NATIVE = Path(__file__).parent.parent / "relay" / "native"
FLAGS = ("-std=c++17", "-O1", "-g", "-fno-sanitize-recover=all", "-pthread", f"-I{NATIVE}")
SPARE = 8 * 2 << 20
SLACK = 24 << 20  # the interpreter's, and what malloc keeps
TABLE: list[list[Any]] = [
    ["id", 1, 8, 0, False, False, True, "", [], "bigint"],
    ["flag", 2, 16, 1, False, True, False, "", [], "bit(1)"],
    ["day", 3, 10, 0, False, True, False, "", [], "date"],
    ["label", 4, 248, 1, False, True, False, "", ["x", "y"], "set('x','y')"],
    ["word", 5, 15, 4000, False, True, False, "utf8mb4", [], "varchar(1000)"],
]
DEFINITION = msgspec.msgpack.encode(["shop", "t", 1, 1, 1, True, TABLE])
EMPTY = b"\x1e"  # NULL in all columns but `id`


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_blocks_of_columns(tmp_path: Path, sanitizers: str) -> None:
    program = tmp_path / "columns_memory_test"
    sources = [Path(__file__).parent / "native" / "columns_memory_test.cpp", NATIVE / "columns_memory.cpp"]
    subprocess.run(["g++", *FLAGS, f"-fsanitize={sanitizers}", "-o", program, *sources], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def made(rows: int, word: str | None) -> Columns:
    """Rows with values, or NULL but for the id."""
    columns = Columns(DEFINITION)
    nulls, tail = EMPTY, b""
    if word is not None:
        raw = word.encode()
        nulls, tail = b"\0", b"\1" + bytes(3) + b"\3" + struct.pack("<H", len(raw)) + raw
    columns.add(1, b"\5\x1f" + b"".join(nulls + struct.pack("<q", number) + tail for number in range(rows)))
    return columns


def check(rows: int, word: str | None) -> None:
    """A batch has what was put into it: offsets, validity, and the zero date, which is NULL but for its text."""
    batch = pa.record_batch(made(rows, word))
    batch.validate(full=True)
    bit, label, text = (None, None, None) if word is None else (b"\1", ["x", "y"], "0000-00-00")
    assert batch.column("id").to_numpy().tolist() == list(range(rows))
    for name, value in {"flag": bit, "day": None, "day__text": text, "label": label, "word": word}.items():
        column = batch.column(name)
        assert column.equals(pa.array([value] * rows, column.type)), name


def test_memory_used_again_shows_no_old_values() -> None:
    for rows, word in [(60_000, "word" * 9), (60_000, None), (9_000, "x" * 500), (40_000, ""), (30_000, "longer" * 20)]:
        check(rows, word)


def test_batches_are_released_by_other_threads() -> None:
    def work(word: str) -> None:
        for _ in range(3):
            check(30_000, word)
            given[word] = pa.record_batch(made(30_000, word))  # the one before is released here, or by its reader

    given: dict[str, pa.RecordBatch] = {}
    threads = [threading.Thread(target=work, args=(word * 20,)) for word in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for word in list(given):
            batch = given.pop(word, None)
            assert batch is None or batch.column("word").unique().to_pylist() == [word]
    for thread in threads:
        thread.join()


def anonymous() -> int:
    """Bytes of this process that are resident and no file's."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10


def test_what_stays_of_large_batches_is_bounded() -> None:
    large = 60_000, "y" * 900
    before = anonymous()
    held = [pa.record_batch(made(*large)) for _ in range(2)]
    assert anonymous() - before > 100 << 20
    del held
    assert anonymous() - before < SPARE + SLACK
    for _ in range(5):
        made(*large)
    assert anonymous() - before < SPARE + SLACK


def test_a_forked_process_makes_batches_of_its_own() -> None:
    check(60_000, "parent")
    batch = pa.record_batch(made(60_000, "parent"))
    child = os.fork()
    if not child:
        try:
            check(60_000, "child")
            del batch
            check(60_000, None)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert batch.column("word").unique().to_pylist() == ["parent"]
