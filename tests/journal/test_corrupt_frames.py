"""Frames that have the right checksum and the wrong content: each consumer stops with journal_corrupt, file and offset.

Each consumer is called as its process calls it.
"""

from __future__ import annotations

import mmap
import re
import socket
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from relay._native import Arena, Broker, JournalReader, Server, Session, crc32c
from relay.cdc.store import Store as CdcStore
from relay.cdc.versions import Versions
from relay.errors import RelayError, StopCode
from relay.journal import frames
from relay.lake.exporter import Exporter
from relay.lake.exporter import Settings as ExportSettings
from relay.lake.storage import open_storage
from relay.linelog.linelog import LineLog
from relay.linelog.linelog import Settings as LogSettings
from relay.monitoring.usage import Usage
from relay.protocol import classic
from relay.schema.restore import restore
from relay.schema.store import Store
from tests.support.cdc_rows import read
from tests.support.journal_builder import ID, INSERT, NAME, Made, column, row

Change = Callable[[bytes], bytes]

OPEN: Final = 2**64 - 1
_HEADER: Final = 8  # of a frame


class Corrupt:
    """A journal of two transactions and a statement, of which one frame is written anew with other content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        made = Made(folder / "journal")
        made.inserted(1, gtid="0-1-1")
        table = made.define(ID, NAME, column("more", 3), table="u")
        made.rows(INSERT, row(2) + struct.pack("<i", 3), table=table, columns=3)
        made.commit(gtid="0-1-2")
        made.statement("TRUNCATE t")
        self.journal, self.writer = made.folder, made.writer
        self.end = made.flush()
        self.begin = made.writer.first()
        self.positions: dict[type[frames.Frame], list[int]] = {}
        for position, payload in JournalReader(self.journal).frames(self.begin, self.end):
            self.positions.setdefault(type(frames.decode(payload)), []).append(position)

    def change(self, position: int, change: Change) -> None:
        """Change the payload of a frame, which keeps its size, and its checksum with it."""
        with (self.journal / f"{self.begin:020}.seg").open("r+b") as file:
            file.seek(position)
            [length] = struct.unpack("<I4x", file.read(_HEADER))
            payload = change(file.read(length))
            assert len(payload) == length
            file.seek(position)
            file.write(struct.pack("<II", length, crc32c(payload)) + payload)

    def expect(self, text: str, position: int) -> None:
        """Check that the text names the file and the offset of the frame at this position."""
        assert f"{self.begin:020}.seg, offset {position - self.begin}: " in text


@pytest.fixture
def corrupt(tmp_path: Path) -> Corrupt:
    return Corrupt(tmp_path)


# -- The consumers; each returns the text of what it stops with --


def _failure(work: Callable[[], object]) -> str:
    with pytest.raises(RelayError) as stopped:
        work()
    assert stopped.value.code is StopCode.JOURNAL_CORRUPT
    return str(stopped.value)


def export(corrupt: Corrupt) -> str:
    def follow() -> None:
        exporter = Exporter(open_storage(str(corrupt.folder / "lake")), corrupt.journal, ExportSettings(roll_seconds=0))
        while not exporter.step().caught_up:
            pass

    return _failure(follow)


def log(corrupt: Corrupt, form: str = "csv") -> str:
    folder = corrupt.folder / form
    folder.mkdir()

    def follow() -> None:
        lines = LineLog(corrupt.journal, LogSettings(str(folder), ("*",), form=form))
        while not lines.step().caught_up:
            pass

    return _failure(follow)


def log_json(corrupt: Corrupt) -> str:
    return log(corrupt, "json")


def scan_for_cdc(corrupt: Corrupt) -> str:
    journal = JournalReader(corrupt.journal)

    def follow() -> None:
        with closing(CdcStore(corrupt.folder / "cdc.db", journal.generation())) as store:
            versions = Versions(journal, store, corrupt.end)
            while versions.position < corrupt.end:
                versions.step(corrupt.end)

    return _failure(follow)


def read_for_cdc(corrupt: Corrupt) -> str:
    return _failure(lambda: read(corrupt.journal, corrupt.end, table="u"))


def count(corrupt: Corrupt) -> str:
    usage = Usage(corrupt.folder / "usage.db", corrupt.journal)
    assert usage.advance(1_700_000_000.0, corrupt.end)
    usage.close()
    return usage.trouble


class Queues:
    """A broker with a client that wants everything, and a server."""

    def __init__(self, corrupt: Corrupt) -> None:
        self.corrupt = corrupt
        self.arena = Arena(mmap.mmap(-1, Arena.size(8, 1, 1 << 20)), 8, 1, 1 << 20)
        self.broker = Broker(self.arena, corrupt.journal, lambda offset, size: None)
        first = corrupt.positions[frames.Table][0]
        self.slot = self.broker.add_client(1, "client", [("*", "*", 7, 0, 0, first, OPEN)])

    def decide(self) -> None:
        self.arena.attach_writer(self.corrupt.writer)
        while self.broker.pending():
            self.broker.step(1 << 20)

    def poll(self) -> tuple[bytes, str]:
        """The reply to a poll, and the damage that the server reports."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            server = Server(self.arena, str(self.corrupt.journal))
            session = Session(server, 1 << 16)
            session.identify(1, self.slot, 7, 0, "192.0.2.1")
            theirs.sendall(classic.encode_request(classic.Command.POLL, client_id=1, token=7))
            session.exchange(ours.fileno())
            return theirs.recv(1 << 16), server.take_damage()


def decide(corrupt: Corrupt) -> str:
    return _failure(Queues(corrupt).decide)


CONSUMERS: Final = (export, log, log_json, scan_for_cdc, read_for_cdc, count, decide)
everywhere = pytest.mark.parametrize("consumer", CONSUMERS, ids=lambda each: each.__name__)


# -- What is wrong --


def _table(position: int) -> Change:
    """Rows that name the TABLE frame at this position."""
    return lambda payload: payload[:8] + position.to_bytes(8) + payload[16:]


@everywhere
@pytest.mark.parametrize("named", [0, 8, 1 << 40, OPEN])
def test_rows_name_a_table_of_their_own_segment(
    corrupt: Corrupt, consumer: Callable[[Corrupt], str], named: int
) -> None:
    rows = corrupt.positions[frames.Rows][-1]
    corrupt.change(rows, _table(named))
    text = consumer(corrupt)
    corrupt.expect(text, named if named == 8 else rows)  # 8 is a place before the first frame


@everywhere
def test_rows_name_a_table_before_them(corrupt: Corrupt, consumer: Callable[[Corrupt], str]) -> None:
    rows = corrupt.positions[frames.Rows][-1]
    corrupt.change(rows, _table(rows))
    corrupt.expect(consumer(corrupt), rows)


@everywhere
def test_rows_name_a_frame_that_is_no_table(corrupt: Corrupt, consumer: Callable[[Corrupt], str]) -> None:
    commit = corrupt.positions[frames.Commit][0]
    corrupt.change(corrupt.positions[frames.Rows][-1], _table(commit))
    corrupt.expect(consumer(corrupt), commit)


@everywhere
@pytest.mark.parametrize(
    "change",
    [
        lambda payload: b"\x97" + payload[1:],
        lambda payload: payload[:6] + b"\x03" + payload[7:],
        lambda payload: payload[:45] + b"\xff" + payload[46:],
        lambda payload: payload[:36] + b"\xff" + payload[37:],
    ],
    ids=["fields", "kind of rows", "size", "number"],
)
def test_rows_are_well_formed(corrupt: Corrupt, consumer: Callable[[Corrupt], str], change: Change) -> None:
    rows = corrupt.positions[frames.Rows][-1]
    corrupt.change(rows, change)
    corrupt.expect(consumer(corrupt), rows)


@everywhere
@pytest.mark.parametrize(
    "change",
    [
        lambda payload: b"\x94" + payload[1:],
        lambda payload: payload[:2] + b"\xcf" + (1 << 40).to_bytes(8) + payload[11:],
        lambda payload: payload[:2] + b"\xcf" + (64).to_bytes(8) + payload[11:],
        lambda payload: payload.replace(b"\xa4shop", b"\xa4sh\xffp"),
        lambda payload: payload.replace(b"\xa4shop", b"\xc4\x03hop"),
    ],
    ids=["fields", "link behind the end", "link back", "no UTF-8", "no text"],
)
def test_definitions_can_be_read(corrupt: Corrupt, consumer: Callable[[Corrupt], str], change: Change) -> None:
    table = corrupt.positions[frames.Table][-1]
    corrupt.change(table, change)
    corrupt.expect(consumer(corrupt), table)


@pytest.mark.parametrize("consumer", [each for each in CONSUMERS if each is not count], ids=lambda each: each.__name__)
def test_columns_of_definitions_can_be_read(corrupt: Corrupt, consumer: Callable[[Corrupt], str]) -> None:
    table = corrupt.positions[frames.Table][-1]
    corrupt.change(table, lambda payload: payload.replace(b"\xa4more", b"\xa4m\xffre"))
    corrupt.expect(consumer(corrupt), table)


@pytest.mark.parametrize("named", [1 << 40, OPEN])
def test_a_server_tells_the_client_and_reports_what_became_corrupt_behind_the_broker(
    corrupt: Corrupt, named: int
) -> None:
    queues = Queues(corrupt)
    queues.decide()
    rows = corrupt.positions[frames.Rows][0]
    corrupt.change(rows, _table(named))
    reply, damage = queues.poll()
    assert reply[:1] == b"\xff"
    corrupt.expect(damage, rows)
    corrupt.expect(reply.decode("latin-1"), rows)
    corrupt.expect(_failure(lambda: JournalReader(corrupt.journal).table_at(rows)), rows)


def test_a_frame_that_is_no_longer_one_of_rows_is_damage_for_a_client(corrupt: Corrupt) -> None:
    queues = Queues(corrupt)
    queues.decide()
    rows = corrupt.positions[frames.Rows][0]
    corrupt.change(rows, lambda payload: b"\x98\x03" + payload[2:])
    reply, damage = queues.poll()
    assert reply[:1] == b"\xff"
    corrupt.expect(damage, rows)


def _replay_statements(corrupt: Corrupt) -> str:
    def replay() -> None:
        with closing(Store(corrupt.folder / "schema.db")) as store:
            restore(store, corrupt.writer, corrupt.journal, lambda: ())

    return _failure(replay)


@pytest.mark.parametrize("consumer", [export, scan_for_cdc, _replay_statements], ids=lambda each: each.__name__)
def test_outcomes_of_statements_can_be_read(corrupt: Corrupt, consumer: Callable[[Corrupt], str]) -> None:
    position = corrupt.end
    corrupt.writer.ddl(9000, 1, "shop", "TRUNCATE t", b"\xc1", b"\x91\xc1")
    corrupt.writer.commit(9000, 1, "0-1-9")
    corrupt.end = corrupt.writer.flush()
    corrupt.expect(consumer(corrupt), position)


def test_a_gtid_that_is_none_stops_the_cdc_port(corrupt: Corrupt) -> None:
    commit = corrupt.positions[frames.Commit][1]
    corrupt.change(commit, lambda payload: payload.replace(b"0-1-2", b"x:1-y"))
    corrupt.expect(scan_for_cdc(corrupt), commit)


def test_a_mark_that_the_journal_goes_on_where_it_does_not_is_damage(corrupt: Corrupt) -> None:
    rows = corrupt.positions[frames.Rows][-1]
    with (corrupt.journal / f"{corrupt.begin:020}.seg").open("r+b") as file:
        file.seek(rows)
        file.write(b"\xff" * 4)
    for consumer in CONSUMERS:
        corrupt.expect(consumer(corrupt), rows)


def test_a_journal_without_a_segment_in_the_middle_is_lost_there(tmp_path: Path) -> None:
    made = Made(tmp_path)
    while len(made.writer.segments()) < 3:
        made.inserted(1)
    until = made.flush()
    [_, middle, *_] = sorted(tmp_path.glob("*.seg"))
    middle.unlink()
    with pytest.raises(RelayError, match=re.escape(f"is missing from {tmp_path}")) as lost:
        list(JournalReader(tmp_path).frames(made.writer.first(), until))
    assert lost.value.code is StopCode.JOURNAL_LOST
