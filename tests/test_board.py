"""A board in shared memory shows what its writer wrote last, whole, whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
import time

import pytest

from relay.board import Board, ExportStatus, export_status


def test_a_board_shows_nothing_until_something_is_written() -> None:
    board = Board()
    assert board.read() == b""
    assert export_status(board).state == "starting"
    for content in (b"one", b"", b"x" * 8000, b"two"):
        board.write(content)
        assert board.read() == content


def test_what_does_not_fit_is_refused_and_the_last_stays() -> None:
    board = Board()
    board.write(b"fits")
    with pytest.raises(ValueError, match="9000 bytes"):
        board.write(b"x" * 9000)
    assert board.read() == b"fits"


def test_a_reader_never_sees_half_of_what_another_process_writes() -> None:
    board = Board()
    board.write(b"\0" * 8000)
    writer = os.fork()
    if writer == 0:
        for number in range(10**9):
            board.write(bytes([number % 251]) * 8000)
    try:
        until, seen = time.monotonic() + 1, set()
        while time.monotonic() < until:
            content = board.read()
            assert len(content) == 8000 and len(set(content)) == 1
            seen.add(content[0])
        assert len(seen) > 1
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
    assert len(set(board.read())) == 1, "the writer was killed while it wrote"


def test_a_status_goes_over_the_fork() -> None:
    from msgspec import msgpack

    board = Board()
    status = ExportStatus(state="following", seq=7, file="binlog.000001", rows=3)
    writer = os.fork()
    if writer == 0:
        board.write(msgpack.encode(status))
        os._exit(0)
    os.waitpid(writer, 0)
    assert export_status(board) == status
