"""Transactions larger than memory, and resuming beyond 4 GiB of a file.

`make huge`: each server writes a binlog file beyond 4 GiB, 14 GB of disk for two or three minutes.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from examples.dbserver import DatabaseServer
from relay._native import GtidSet, JournalReader, JournalWriter
from relay.ingest.reader_state import ReaderState
from relay.journal import frames
from relay.source import facts
from tests.support.binlogs import StreamPosition
from tests.support.process_memory import anonymous_bytes
from tests.support.reader_process import Reader

pytestmark = [pytest.mark.huge, pytest.mark.timeout(900)]

ROW_BYTES = 16_000_000
ROWS = 272  # 4.35 GB
GROWTH = 120 << 20  # of anonymous memory, more than the reader may need; the journal's pages are the kernel's to drop


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not `tmp_path`, which is kept for a while."""
    with TemporaryDirectory(prefix="relay-huge-") as made:
        yield Path(made)


@pytest.fixture
def new_reader(folder: Path) -> Iterator[Callable[[DatabaseServer, Path], Reader]]:
    """new_reader(server, DataDir) starts readers that end before `folder` does."""
    assert folder.is_dir()
    with ExitStack() as stack:

        def start(server: DatabaseServer, folder: Path) -> Reader:
            made = Reader(server, folder, {"Relay.SegmentBytes": "64MiB"})
            stack.callback(made.close)
            return made.start()

        yield start


def make_tables(server: DatabaseServer, engine: str = "") -> None:
    engine = engine or ("BLACKHOLE" if server.kind.mysql else "MyISAM")  # the binlog is what matters
    server.execute(
        "CREATE DATABASE d",
        f"CREATE TABLE d.huge (id INT, data LONGBLOB) ENGINE = {engine}",
        "CREATE TABLE d.numbers (id INT)",
        f"INSERT INTO d.numbers VALUES {', '.join(f'({number})' for number in range(ROWS))}",
        "CREATE TABLE d.small (id INT PRIMARY KEY)",
    )


def insert_huge(server: DatabaseServer) -> None:
    server.execute(f"INSERT INTO d.huge SELECT id, REPEAT('x', {ROW_BYTES}) FROM d.numbers")


def write_beyond(server: DatabaseServer) -> None:
    """One huge transaction, and small ones behind it in the same file.

    A server changes files once it has written that much. What comes meanwhile, or is committed together with the huge
    one, still goes into the old file.
    """
    huge = threading.Thread(target=insert_huge, args=(server,))
    done = threading.Event()

    def write_small(number: int) -> None:
        while not done.is_set():
            server.execute(f"INSERT INTO d.small VALUES ({number})")
            number += 1
            done.wait(random.Random(number).uniform(0, 1) if server.kind.mysql else None)

    if server.kind.mysql:  # the next group is written while this one waits
        server.execute("SET GLOBAL binlog_group_commit_sync_delay = 1000000", "SET GLOBAL sync_binlog = 1")
        huge.start()
    else:  # the first of a group waits for the others
        server.execute("SET GLOBAL binlog_commit_wait_count = 9", "SET GLOBAL binlog_commit_wait_usec = 60000000")
        huge.start()
        written = server.data / "d" / "huge.MYD"
        while written.stat().st_size < ROWS * ROW_BYTES:
            time.sleep(0.1)
        time.sleep(3)  # until it waits
    writers = [threading.Thread(target=write_small, args=(first,)) for first in range(0, 8_000, 1_000)]
    for writer in writers:
        writer.start()
    huge.join()
    done.set()
    for writer in writers:
        writer.join()
    if not server.kind.mysql:
        server.execute("SET GLOBAL binlog_commit_wait_count = 0")
    server.execute("INSERT INTO d.small VALUES (1000000)")  # in the next file


class Commit(NamedTuple):
    """A transaction in the journal: its file, where it ends, its GTID, and its rows by their place in the binlog."""

    file: str
    position: int
    gtid: str
    rows: tuple[tuple[int, int, int], ...]


def commits(reader: Reader) -> list[Commit]:
    file, found = "", list[Commit]()
    rows: list[tuple[int, int, int]] = []
    journal = JournalReader(reader.journal_dir)
    for _, payload in journal.frames(journal.first(), reader.arena.committed):  # one by one: they are 4 GiB
        frame = frames.decode(payload)
        if isinstance(frame, frames.File | frames.Source):
            file = frame.file
        elif isinstance(frame, frames.Rows):
            rows.append((frame.end_position, frame.rows, len(frame.body)))
        elif isinstance(frame, frames.Commit):
            found.append(Commit(file, frame.position, frame.gtid, tuple(rows)))
            rows.clear()
    return found


def journal_at(folder: Path, identity: str, place: StreamPosition, gtid_set: str) -> Path:
    """A DataDir whose reader has read everything up to a place."""
    folder.mkdir()
    JournalWriter(folder / "journal", 1 << 20).source(place.position, place.file, gtid_set, identity)
    return folder


def gtids_after(before: str, done: Sequence[Commit]) -> str:
    gtids = GtidSet(before)
    for commit in done:
        if commit.gtid:
            gtids.add(commit.gtid)
    return str(gtids)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("mysql97", ()),
        ("mysql97", ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")),
        # Usually it makes a file of its own of so large a transaction.
        ("mariadb118", ("--binlog-large-commit-threshold=18446744073709551615",)),
        ("mariadb1011", ()),
    ],
)
def test_beyond_4_gib(
    kind: str,
    options: tuple[str, ...],
    own_server: Callable[..., DatabaseServer],
    new_reader: Callable[[DatabaseServer, Path], Reader],
    folder: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server = own_server(kind, *options)
    make_tables(server)
    with closing(server.connect()) as connection:
        about = facts.query_facts(connection)
        began = facts.binlog_end(connection, about)
    first = new_reader(server, folder).streaming()
    writing = threading.Thread(target=write_beyond, args=(server,))
    most = base = anonymous_bytes(first.pid)
    writing.start()
    while writing.is_alive():
        most = max(most, anonymous_bytes(first.pid))
        time.sleep(0.02)
    written = server.execute("SELECT COUNT(*) FROM d.small")[0][0]
    while first.arena.sequence <= ROWS + written:
        most = max(most, anonymous_bytes(first.pid))
        time.sleep(0.2)
    first.until(lambda: first.count("huge") == ROWS)  # its names are proven
    assert first.count("small") == written
    assert most - base < GROWTH, f"a transaction of 4 GiB took {most - base >> 20} MiB"
    assert len(list((folder / "journal").glob("*.seg"))) > 60

    read = commits(first)
    beyond = [at for at, commit in enumerate(read) if commit.position > 2**32]
    assert len(beyond) >= 3, "no small transactions behind the huge one in its file"
    assert len({read[at].file for at in beyond}) == 1
    with closing(ReaderState(folder / "state.db")) as reader_state:
        kept = reader_state.get("low_place")
    low = read[beyond[0] - 1] if beyond[0] else began
    assert kept == f"{low.file}:{low.position}"
    first.close()

    # The reader dies behind the huge transaction, behind one that follows it, and behind the last of the file.
    for number, at in enumerate((beyond[0], beyond[1], beyond[-1])):
        known = gtids_after(began.gtid_set, read[: at + 1]) if about.has_gtids else ""
        place = StreamPosition(read[at].file, read[at].position)
        ways = [known, ""] if kind == "mariadb1011" else [known]  # also as if its GTIDs were of no use
        for way, gtid_set in enumerate(ways):
            data = journal_at(folder / f"{number}-{way}", about.identity, place, gtid_set)
            again = new_reader(server, data).streaming()
            rest = read[at + 1 :]
            again.until(lambda: len(commits(again)) >= len(rest), 120)  # noqa: B023
            assert commits(again) == rest, f"resumed at {place} with the GTIDs {gtid_set or '(none)'}"
            again.close()
            log = capfd.readouterr().err
            from_before = not gtid_set or kind == "mariadb118"  # whose index has 32 bits for a place
            assert (f"reading_again position={place.file}:" in log) == from_before, log


def most_until(reader: Reader, condition: Callable[[], bool]) -> int:
    """The most anonymous memory that a reader has while a condition comes about, bytes."""
    samples: list[int] = []

    def looked() -> bool:
        samples.append(anonymous_bytes(reader.pid))
        return condition()

    reader.until(looked, 300)
    return max(samples)


@pytest.mark.parametrize("kind", ["mysql97", "mariadb118", "mariadb1011"])
def test_prepared_rows_larger_than_their_memory(
    kind: str,
    own_server: Callable[..., DatabaseServer],
    new_reader: Callable[[DatabaseServer, Path], Reader],
    folder: Path,
) -> None:
    server, rows = own_server(kind), 32  # 0.5 GB
    make_tables(server, "InnoDB")
    running = new_reader(server, folder).streaming()
    base = anonymous_bytes(running.pid)
    insert = f"INSERT INTO d.huge SELECT id, REPEAT('x', {ROW_BYTES}) FROM d.numbers WHERE id < {rows}"
    server.execute("XA START 'a'", insert, "XA END 'a'", "XA PREPARE 'a'")
    server.execute("INSERT INTO d.small VALUES (1)")
    most = most_until(running, lambda: running.count("small") == 1)
    server.execute("XA COMMIT 'a'")
    most = max(most, most_until(running, lambda: running.arena.sequence == rows + 2))
    assert running.count("huge") == rows
    assert most - base < GROWTH, f"a prepared transaction of 0.5 GB took {most - base >> 20} MiB"


@pytest.mark.parametrize("kind", ["mysql97"])
def test_a_compressed_transaction_larger_than_an_event_may_be(
    kind: str,
    own_server: Callable[..., DatabaseServer],
    new_reader: Callable[[DatabaseServer, Path], Reader],
    folder: Path,
) -> None:
    server, rows = own_server(kind), 90  # 1.44 GB in one event of 50 KB
    make_tables(server)
    running = new_reader(server, folder).streaming()
    base = anonymous_bytes(running.pid)
    server.execute(
        "SET SESSION binlog_transaction_compression = ON",
        f"INSERT INTO d.huge SELECT id, REPEAT('x', {ROW_BYTES}) FROM d.numbers WHERE id < {rows}",
    )
    most = most_until(running, lambda: running.arena.sequence == rows + 1)
    running.until(lambda: running.count("huge") == rows)
    assert most - base < GROWTH, f"a compressed transaction of 1.44 GB took {most - base >> 20} MiB"
