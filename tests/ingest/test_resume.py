"""A reader that dies at any event of a real stream and resumes loses no row and repeats none.

For every position at which the stream of each server can be cut between two events, and for some within one: the
journal of that moment is opened again, the server is asked for what `Ingest.resume` says, once by file and position and
once by GTID, and the journal at the end must equal that of an uninterrupted reader.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
import pytest

from examples.dbserver import DatabaseServer
from relay._native import JournalReader
from relay.journal import frames
from relay.source import facts
from tests.ingest.test_ingest import xa
from tests.support import binlogs
from tests.support.binlogs import Fed, StreamPosition

pytestmark = pytest.mark.brands

SEGMENT = 64 * 1024  # the larger rows have segments of their own


def run_workload(server: DatabaseServer, db: str) -> None:
    """Groups of every kind that a stream is made of; XA transactions a, b and c end in another order than begun."""
    mysql = server.kind.mysql
    use = f"USE {db}"
    compress = "SESSION binlog_transaction_compression" if mysql else "GLOBAL log_bin_compress"
    server.execute(
        use,
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50))",
        "CREATE TABLE u (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE m (id INT) ENGINE = MyISAM",
        "CREATE TABLE b (id INT PRIMARY KEY, data LONGBLOB)",
        "BEGIN",
        "INSERT INTO t (v) VALUES ('a'), ('b'), ('c')",
        "INSERT INTO u VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE t, u SET t.v = 'x', u.v = 9 WHERE t.id = u.id AND u.id < 3",
        "DELETE FROM u WHERE id = 3",
        "COMMIT",
    )
    server.execute(use, *xa(f"{db}a", "INSERT INTO t (v) VALUES ('xa')", "INSERT INTO u VALUES (10, 1), (11, 1)"))
    server.execute(
        use,
        "INSERT INTO m VALUES (1), (2)",
        "BEGIN",
        "INSERT INTO t (v) VALUES ('d')",
        "SAVEPOINT s",
        "INSERT INTO u VALUES (4, 4)",
        "ROLLBACK TO s",
        "UPDATE t SET v = 'e' WHERE id = LAST_INSERT_ID()",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t (v) VALUES ('never')",
        "ROLLBACK",
        "INSERT INTO m VALUES (3)" if mysql else "BEGIN",  # MySQL with GTIDs refuses to mix
        "INSERT INTO u VALUES (6, 6)",
        "COMMIT" if mysql else "INSERT INTO m VALUES (3)",
        "UPDATE u SET v = 8 WHERE id = 6",
        "COMMIT",
    )
    server.execute(use, *xa(f"{db}b", "INSERT INTO t (v) VALUES ('xb')"))
    server.execute(use, "FLUSH BINARY LOGS", "ALTER TABLE b ADD COLUMN more INT", f"XA COMMIT '{db}a'")
    server.execute(use, *xa(f"{db}c", "INSERT INTO u VALUES (20, 1)", "DELETE FROM u WHERE id = 2"))
    server.execute(use, f"XA ROLLBACK '{db}b'", "INSERT INTO t (v) VALUES ('f'), ('g')", "FLUSH BINARY LOGS")
    before = server.execute(f"SELECT @@{compress.replace(' ', '.')}")[0][0]
    try:
        server.execute(
            use,
            f"SET {compress} = ON",
            "BEGIN",
            f"INSERT INTO b VALUES (1, REPEAT('x', 100000), 1), (2, '{'y' * 70_000}', 2)",
            "INSERT INTO u VALUES (5, 5)",
            "COMMIT",
            f"CREATE TABLE copied COMMENT = '{'long ' * 100}' AS SELECT id FROM b",
            "UPDATE b SET data = 'short'",
        )
    finally:
        if not mysql:
            server.execute(f"SET {compress} = {before}")
    server.execute(use, f"XA COMMIT '{db}c'")
    server.execute(
        use,
        f"XA START '{db}d'",
        "INSERT INTO u VALUES (30, 1)",
        f"XA END '{db}d'",
        f"XA COMMIT '{db}d' ONE PHASE",
        "INSERT INTO b VALUES (3, RANDOM_BYTES(1024), 3), (4, REPEAT('z', 300000), 4)",
        "SET gtid_next = 'AUTOMATIC:blue'" if mysql else "SET SESSION gtid_domain_id = 77",
        "INSERT INTO t (v) VALUES ('elsewhere')",
        "SET gtid_next = 'AUTOMATIC'" if mysql else "SET SESSION gtid_domain_id = 0",
        "TRUNCATE m",
        "RENAME TABLE t TO renamed",
        "INSERT INTO renamed (v) VALUES ('last')",
        "DROP TABLE m",
    )


EXPECTED = {  # rows of each table
    "t": 3 + 2 + 1 + 1 + 1 + 2 + 1,
    "u": 3 + 2 + 1 + 2 + 2 + 2 + 1 + 1,
    "m": 3,
    "b": 2 + 2 + 2,
    "copied": 2,
    "renamed": 1,
}


class Recording(NamedTuple):
    """A stream from its place to its end; what stood before it."""

    server: DatabaseServer
    start: StreamPosition
    gtid_set: str
    stream: bytes

    def begin(self, directory: Path) -> Fed:
        fed = Fed(directory, segment=SEGMENT)
        fed.writer.source(self.start.position, self.start.file, self.gtid_set, "test")
        fed.ingest.start(*self.start)
        return fed

    def cuts(self) -> list[int]:
        """Every offset between two events, and some within one."""
        ends, at = [0], 0
        for packet in binlogs.split(self.stream):
            at += len(packet)
            ends.append(at)
        chance = random.Random(4)
        return sorted({*ends, *chance.sample(range(len(self.stream)), len(ends) // 8)})


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory: hundreds of journals are made and removed."""
    with TemporaryDirectory(dir="/dev/shm") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def recording(server: DatabaseServer) -> Iterator[Recording]:
    db = "resumed"
    server.execute(f"CREATE DATABASE {db} CHARACTER SET utf8mb4", "FLUSH BINARY LOGS")
    if server.kind.mysql:
        server.execute("GRANT TRANSACTION_GTID_TAG ON *.* TO root@localhost")
    start = binlogs.place(server)
    with closing(server.connect()) as connection:
        before = facts.gtid_at(connection, facts.query_facts(connection), *start)
    run_workload(server, db)
    yield Recording(server, start, before, binlogs.record(server, start))
    server.execute(f"DROP DATABASE {db}")


def content(fed: Fed) -> list[tuple[object, ...]]:
    """What clients can see: rows, statements and commits in order, without where in the journal they stand."""
    tables, found = dict[int, str](), list[tuple[object, ...]]()
    for position, payload in JournalReader(fed.directory).frames(fed.writer.first(), fed.writer.committed()):
        frame = frames.decode(payload)
        if isinstance(frame, frames.Table):
            tables[position] = msgspec.msgpack.decode(frame.definition, type=frames.Definition).table
        elif isinstance(frame, frames.Rows):
            fields = msgspec.structs.asdict(frame) | {"table": tables[frame.table]}
            found.append(("rows", *fields.values()))
        elif isinstance(frame, frames.Ddl | frames.Commit):
            found.append((type(frame).__name__, *msgspec.structs.astuple(frame)))
    return found


def dead_at_each_cut(recording: Recording, folder: Path) -> Iterator[tuple[int, Fed]]:
    """For each cut of the stream, a new ingest on the journal that a reader killed there leaves."""
    dying = recording.begin(folder / "dying")
    at = 0
    for cut in recording.cuts():
        dying.feed(recording.stream[at:cut])
        at = cut
        left = folder / "left"
        shutil.copytree(folder / "dying", left)
        yield cut, Fed(left, segment=SEGMENT)
        shutil.rmtree(left)


def test_the_stream_holds_all_kinds_of_groups(recording: Recording, folder: Path) -> None:
    fed = recording.begin(folder)
    fed.feed(recording.stream)
    rows = dict.fromkeys(EXPECTED, 0)
    for table, _, count in fed.rows():
        rows[table] += count
    assert rows == EXPECTED
    assert {asked.asks for asked in fed.asked} == {"query", "table", "end"}
    kinds = {binlogs.event_type(packet) for packet in binlogs.split(recording.stream)}
    assert kinds >= ({33, 42, 38, 40, 4, 16, 19} if recording.server.kind.mysql else {162, 38, 166, 165, 4, 16, 19})
    assert len(recording.cuts()) > 100


def test_by_place_at_every_event(recording: Recording, folder: Path) -> None:
    whole = recording.begin(folder / "whole")
    whole.feed(recording.stream)
    expected = content(whole)
    ask = cache(lambda place: binlogs.record(recording.server, place))
    for cut, fed in dead_at_each_cut(recording, folder):
        resume = fed.ingest.resume()
        fed.ingest.start(resume.file, resume.position)
        fed.feed(ask(StreamPosition(resume.file, resume.position)))
        assert content(fed) == expected, f"cut at byte {cut}, resumed at {resume}"
        assert fed.writer.state() == whole.writer.state()


def test_by_gtid_at_every_event(recording: Recording, folder: Path) -> None:
    whole = recording.begin(folder / "whole")
    whole.feed(recording.stream)
    expected = content(whole)
    ask = cache(lambda gtid_set: binlogs.record_by_gtid(recording.server, gtid_set))
    impossible = 0
    for cut, fed in dead_at_each_cut(recording, folder):
        resume = fed.ingest.resume()
        if not resume.by_gtid_possible:
            impossible += 1
            continue
        fed.ingest.start("", 4, by_gtid=True)
        fed.feed(ask(resume.gtid_set))
        assert content(fed) == expected, f"cut at byte {cut}, resumed at {resume}"
        assert fed.writer.state().gtid_set == whole.writer.state().gtid_set
    # MariaDB's position cannot leave out what is prepared.
    assert (impossible > 0) == (not recording.server.kind.mysql)


def test_a_reader_that_dies_after_every_event(recording: Recording, folder: Path) -> None:
    """One journal through all deaths: what an earlier one left must not hurt a later one."""
    whole = recording.begin(folder / "whole")
    whole.feed(recording.stream)
    ask = cache(lambda place: binlogs.record(recording.server, place))
    fed = recording.begin(folder / "dying")
    for cut in [*recording.cuts(), len(recording.stream)]:
        resume = fed.ingest.resume()
        stream = ask(StreamPosition(resume.file, resume.position))
        fed.ingest.start(resume.file, resume.position)
        fed.feed(stream[: max(0, len(stream) - (len(recording.stream) - cut))])
        fed.open()
    assert content(fed) == content(whole)
    assert fed.writer.state() == whole.writer.state()
