"""The reader's native loop: a stream from a socket into the journal, and when it returns to Python."""

from __future__ import annotations

import mmap
import os
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from relay._native import Arena, Attention, Intake
from tests.support import binlogs, held_interpreter
from tests.support.binlogs import Fed
from tests.support.made_streams import START, transaction
from tests.support.signals import signalled

PATIENCE = 0.2  # of a receive, seconds
LONG = 1e6  # who waits so long hangs, and pytest's timeout ends the test
SHAPE = (4, 1, 0)


class Line:
    """A socket with a source at its other end, and an intake at this."""

    def __init__(self, fed: Fed, **options: float) -> None:
        self.fed = fed
        self.source, self.end = socket.socketpair()
        self.end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, int(PATIENCE * 1e6)))
        self.wake, self.ahead = (os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2))
        self.arena = Arena(mmap.mmap(-1, Arena.size(*SHAPE)), *SHAPE)
        self.arena.attach_writer(fed.writer)
        fed.ingest.count_into(self.arena.counters_address)
        fed.begin(START)
        self.intake = Intake(fed.ingest, self.arena, self.end.fileno(), self._never, self.wake, self.ahead, **options)

    def _never(self, buffer: memoryview) -> int:
        raise AssertionError("a plain socket is read natively")

    def send(self, *packets: bytes) -> None:
        self.source.sendall(b"".join(packets))

    def run(
        self, seconds: float = LONG, *, latest: float = LONG, once: bool = False, wait: bool = True, quiet: float = 0.0
    ) -> Attention | None:
        """Answers questions about tables and statements, as long as there are any."""
        now = time.monotonic()
        while True:
            asked = self.intake.run(now + seconds, now + latest, once, wait, now + quiet)
            if asked is None or asked.asks not in ("table", "query"):
                return asked
            self.fed.usual_answer(asked)

    def wait_long(self) -> None:
        """Makes a receive wait until something comes."""
        self.end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(LONG), 0))

    def woken(self, *, ahead: bool = False) -> bool:
        """Whether the broker was woken since it was asked last, for rows or ahead of one."""
        try:
            return os.eventfd_read(self.ahead if ahead else self.wake) > 0
        except BlockingIOError:
            return False

    def scripted(self, *pieces: bytes) -> list[bytes]:
        """Instead of the socket from now on: pieces that a function gives, and then nothing; those that are left."""
        left = list(pieces)

        def receive(buffer: memoryview) -> int:
            piece = left.pop(0) if left else b""
            buffer[: len(piece)] = piece
            return len(piece)

        self.intake = Intake(self.fed.ingest, self.arena, -1, receive, self.wake, self.ahead)
        return left

    def close(self) -> None:
        self.source.close()
        self.end.close()
        os.close(self.wake)
        os.close(self.ahead)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    with closing(Line(Fed(tmp_path))) as line:
        yield line


def opening() -> bytes:
    return binlogs.opening(*START)


def test_what_comes_is_journaled_and_counted_however_it_is_cut(line: Line) -> None:
    stream = opening() + b"".join(transaction(n, n * 1000, rows=n) for n in range(1, 6))
    for at in range(0, len(stream), 7):
        line.send(stream[at : at + 7])
        line.run(once=True)
    assert line.run() is None, "nothing more comes"
    assert line.fed.rows() == [("t", 1, n) for n in range(1, 6)]
    assert line.arena.traffic()["transactions"] == 5
    assert line.arena.committed == line.fed.writer.committed()


def test_without_a_wait_nothing_is_received(line: Line) -> None:
    line.send(opening(), transaction(1, 1000))
    before = line.intake.heard
    assert line.run(wait=False) is None
    assert line.intake.heard == before and not line.fed.rows()
    line.run(once=True)
    assert line.fed.rows() == [("t", 1, 1)]


def test_the_broker_is_woken_when_something_is_published_and_it_sleeps(line: Line) -> None:
    line.send(opening(), transaction(1, 1000))
    line.run()
    assert not line.woken(), "a broker that works looks by itself"
    line.arena.broker_waiting = True
    line.send(transaction(2, 2000)[:-20])
    line.run()
    assert not line.woken(), "of half a transaction it has nothing"
    line.send(transaction(2, 2000)[-20:])
    line.run(once=True)
    assert line.woken()
    line.run()
    assert not line.woken(), "once for what was published"
    line.arena.broker_waiting = False
    line.send(transaction(3, 3000))
    line.run()
    assert not line.woken(), "a broker that works looks by itself"


def test_bytes_after_a_pause_wake_others_ahead_of_the_row(tmp_path: Path) -> None:
    with closing(Line(Fed(tmp_path), pause=PATIENCE / 2)) as line:
        line.send(opening(), transaction(1, 1000))
        line.run()
        line.woken(ahead=True)
        time.sleep(PATIENCE)
        line.send(transaction(2, 2000)[:-20])
        line.run(once=True)
        assert line.woken(ahead=True), "the row is not there yet"


def test_bytes_without_a_pause_wake_nobody_ahead(tmp_path: Path) -> None:
    with closing(Line(Fed(tmp_path), pause=LONG)) as line:
        line.send(opening(), transaction(1, 1000))
        line.run()
        assert line.fed.rows() == [("t", 1, 1)]
        assert not line.woken(ahead=True), "who has worked just now is awake"


def test_the_broker_is_woken_without_the_interpreter(line: Line) -> None:
    """Another thread may have its lock, and its code and data may be in no cache."""
    line.send(opening(), transaction(1, 1000))
    line.run()
    line.arena.broker_waiting = True
    line.wait_long()
    with held_interpreter.blocked(lambda: line.run(once=True), line.end.fileno()):
        assert held_interpreter.brings(line.source.fileno(), transaction(2, 2000), line.wake)
    assert line.fed.rows() == [("t", 1, 1)] * 2


def test_a_silent_source_is_waited_for_as_long_as_a_receive_waits(line: Line) -> None:
    before = line.intake.heard
    began = time.monotonic()
    assert line.run() is None
    assert time.monotonic() - began >= PATIENCE
    assert line.intake.heard == before


def test_a_quiet_source_is_waited_for_again_until_the_time_for_it(line: Line) -> None:
    line.run()
    began = time.monotonic()
    assert line.run(quiet=3 * PATIENCE) is None
    assert time.monotonic() - began >= 3 * PATIENCE


def test_a_source_that_becomes_quiet_is_reported_after_one_receive(line: Line) -> None:
    line.send(opening(), transaction(1, 1000))
    assert line.run(quiet=LONG) is None
    assert line.fed.rows() == [("t", 1, 1)]
    line.send(transaction(2, 2000))
    assert line.run(quiet=LONG) is None
    assert line.fed.rows() == [("t", 1, 1)] * 2


def test_when_it_is_due_it_comes_back_in_a_pause_of_the_source(line: Line) -> None:
    line.send(opening(), transaction(1, 1000))
    line.run()
    line.wait_long()
    line.send(transaction(2, 2000))
    assert line.run(0.0) is None
    assert line.fed.rows() == [("t", 1, 1)] * 2


def test_before_the_latest_time_it_does_not_come_back_without_a_pause(tmp_path: Path) -> None:
    with closing(Line(Fed(tmp_path), pause=LONG)) as line, ThreadPoolExecutor(1) as pool:
        line.wait_long()
        line.send(opening(), transaction(1, 1000))
        before = line.arena.committed

        def source() -> None:
            while line.arena.committed == before:
                time.sleep(0.001)
            line.send(transaction(2, 2000))
            line.source.close()

        done = pool.submit(source)
        with pytest.raises(OSError, match="the source closed the connection"):
            line.run(0.0)
        done.result()
        assert line.fed.rows() == [("t", 1, 1)] * 2


def test_at_the_latest_time_it_comes_back_without_a_pause(tmp_path: Path) -> None:
    with closing(Line(Fed(tmp_path), pause=LONG)) as line:
        line.send(opening(), transaction(1, 1000))
        line.run()
        line.wait_long()
        line.send(transaction(2, 2000))
        assert line.run(0.0, latest=0.0) is None
        assert line.fed.rows() == [("t", 1, 1)] * 2, "not before what came then is worked through"


def test_a_source_that_closes_the_connection_is_named(line: Line) -> None:
    line.send(opening(), transaction(1, 1000))
    line.source.close()
    with pytest.raises(OSError, match="the source closed the connection"):
        line.run()
    assert line.fed.rows() == [("t", 1, 1)], "what it had sent is taken"


def test_a_connection_that_fails_says_how(line: Line) -> None:
    line.end.close()
    with pytest.raises(OSError) as caught:
        line.run()
    assert caught.value.strerror == "Bad file descriptor"


@pytest.mark.parametrize("flag", ["draining", "paused"])
def test_a_drain_or_pause_that_is_asked_for_is_seen_at_the_next_receive(line: Line, flag: str) -> None:
    line.send(opening(), transaction(1, 1000))
    line.run()
    setattr(line.arena, flag, True)
    assert line.run(quiet=LONG) is None, "a quiet source is not waited for"
    pieces = line.scripted(transaction(2, 2000), transaction(3, 3000))
    assert line.run() is None
    assert len(pieces) == 1
    line.fed.ingest.stop_at_boundary(True)
    asked = line.run()
    assert asked is not None
    assert asked.asks == "boundary"


def test_beyond_4_gib_it_comes_back_after_each_receive(line: Line) -> None:
    far = 1 << 32
    line.fed.ingest.start(START.file, far + 4)
    line.send(binlogs.opening(START.file, far + 4), transaction(1, far + 1000))
    line.run()
    pieces = line.scripted(transaction(2, far + 2000), transaction(3, far + 3000))
    assert line.run() is None
    assert len(pieces) == 1
    assert line.fed.ingest.position == far + 3000


def test_a_signal_ends_the_waiting(line: Line) -> None:
    line.wait_long()
    with signalled() as came:
        assert line.run(quiet=LONG) is None
    assert came


def test_without_a_descriptor_the_function_is_asked(line: Line) -> None:
    pieces = line.scripted(opening() + transaction(1, 1000), transaction(2, 2000))
    assert line.run() is None
    assert line.fed.rows() == [("t", 1, 1)] * 2
    assert not pieces


def test_what_the_function_raises_is_raised(line: Line) -> None:
    def receive(buffer: memoryview) -> int:
        raise ZeroDivisionError

    intake = Intake(line.fed.ingest, line.arena, -1, receive, line.wake, line.ahead)
    with pytest.raises(ZeroDivisionError):
        intake.run(0, 0, False)
