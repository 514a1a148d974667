"""Misbehaviour of servers and callers: a stream never hangs, and errors keep their facts."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

import relay.binlog
from relay.binlog import BinlogError, DescriptionError, Flag, Misuse, MisuseError, Replication, Stream, stream
from relay.binlog.dump import Dump
from relay.binlog.progress import Progress
from relay.errors import ErrorCode, StopCode
from tests.support.binlogs import opening, query


class Line:
    """A stream at one end, what a server sends at the other."""

    def __init__(self) -> None:
        self.ours, self.server = socket.socketpair()
        self.replication = Replication("binlog.000001", server_id=7)
        connection: Any = pymysql.connections.Connection(defer_connect=True)
        self.stream = Stream(connection, self.replication)
        self.stream._dump = Dump(self.ours, 0.01)
        self.stream._progress = Progress(self.replication, self.stream.decoder)


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.stream.close()
    made.server.close()


def error_packet(number: int, text: str, state: str = "") -> bytes:
    payload = b"\xff" + number.to_bytes(2, "little") + state.encode() + text.encode()
    return len(payload).to_bytes(3, "little") + b"\1" + payload


def failing(line: Line) -> BinlogError:
    """What `fetch` raises, now and again."""
    with pytest.raises(BinlogError) as first:
        line.stream.fetch()
    with pytest.raises(BinlogError) as second:
        line.stream.fetch()
    assert first.value is second.value
    assert (line.replication.size, line.replication.buffer) == (-1, b"")
    return first.value


@pytest.mark.parametrize("state", ["", "#HY000"])
def test_an_error_in_the_middle_keeps_what_came_before(line: Line, state: str) -> None:
    line.server.sendall(opening("binlog.000001", 4) + query("CREATE TABLE t (a INT)", 300))
    line.server.sendall(error_packet(1236, "log event entry exceeded max_allowed_packet", state))
    for _ in range(3):
        assert line.stream.fetch() == 0
    found = failing(line)
    assert (found.errno, found.text) == (1236, "log event entry exceeded max_allowed_packet")
    assert found.position == "binlog.000001:300"
    assert line.replication.start_position == 300


def test_a_packet_that_is_neither_event_nor_error_is_named(line: Line) -> None:
    line.server.sendall(b"\3\0\0\1abc")
    found = failing(line)
    assert (found.code, found.position) == (StopCode.UNKNOWN_EVENT, "binlog.000001:4")


def test_an_empty_packet_is_named(line: Line) -> None:
    line.server.sendall(b"\0\0\0\1")
    assert failing(line).code is StopCode.UNKNOWN_EVENT


@pytest.mark.parametrize("words", ["closed the connection", "Connection reset by peer"])
def test_a_server_that_goes_away_within_a_packet_is_named(line: Line, words: str) -> None:
    line.server.sendall(opening("binlog.000001", 4)[:30])
    if "reset" in words:
        line.ours.sendall(b"not read by the server")
    line.server.close()
    found = failing(line)
    assert (found.code, found.errno) == (ErrorCode.SOURCE_UNREACHABLE, 0)
    assert words in found.text


def test_a_server_that_falls_silent_is_named(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SILENCE_SECONDS", 2)
    line.server.sendall(opening("binlog.000001", 4)[:30])
    found = failing(line)
    assert found.code is ErrorCode.SOURCE_UNREACHABLE
    assert "no heartbeat" in found.cause


def test_errors_survive_the_way_between_processes() -> None:
    for error in (
        BinlogError(StopCode.GTID_GAP, "read", "cause", position="x:4", hint="do", errno=1236, text="said"),
        DescriptionError(ErrorCode.USAGE, "check", "cause", position="flags"),
        MisuseError(Misuse.CLOSED, "fetch"),
    ):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error)
        assert vars(back) == vars(error)
        assert back.line() == error.line()


def test_what_is_public_is_there_and_nothing_else_is_made_up() -> None:
    assert set(relay.binlog.__all__) <= set(dir(relay.binlog))
    assert all(getattr(relay.binlog, name) is not None for name in relay.binlog.__all__)
    with pytest.raises(AttributeError, match="Strean"):
        relay.binlog.Strean  # noqa: B018
    assert Flag.GTID == 1 << 16
