"""The servers' event loop without its server: what it replies natively, what it leaves to Python, when it returns."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relay._native import Columns, Poller, Server, Session
from relay.protocol import classic
from relay.protocol.classic import Command, Format
from tests.support.queue_line import OPEN, Line

POLL = classic.encode_request(Command.POLL, client_id=1, token=7)
LATER = 60.0


class Stand:
    """A client with five rows that wait, and its connection's session at a poller."""

    def __init__(self, folder: Path) -> None:
        self.line = line = Line(folder)
        self.slot, _ = line.client(1)
        line.write(1, rows=5)
        line.broker.step(1 << 30)
        self.server = Server(line.arena, str(folder / "journal"))
        self.session = self.connected(1, self.slot)
        self.ours, self.client = socket.socketpair()
        self.epoll = select.epoll()
        self.wake, self.ahead = (os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2))
        self.poller = Poller(self.epoll.fileno(), self.wake, self.ahead)
        self.epoll.register(self.ours, select.EPOLLIN)
        self.poller.attach(self.ours.fileno(), self.session)

    def connected(self, id: int, slot: int) -> Session:
        session = Session(self.server, 1 << 16)
        session.identify(id, slot, 7, 0, "192.0.2.1")
        return session

    def wait(self, seconds: float) -> list[tuple[int, int, Session | None, Exception | None]]:
        return self.poller.wait(time.monotonic() + seconds)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    made = Stand(tmp_path)
    yield made
    os.close(made.wake)
    os.close(made.ahead)
    made.ours.close()
    made.client.close()
    made.epoll.close()


def take_rows(stand: Stand) -> None:
    """The client takes what is there."""
    stand.client.sendall(many(0))
    assert stand.wait(0.05) == []
    stand.client.recv(1 << 16)


def begin_to_wait(stand: Stand) -> None:
    """The client takes what is there, and then waits for rows."""
    take_rows(stand)
    stand.client.sendall(many(5))
    assert stand.wait(0.05) == [], "to begin to wait needs no Python"
    assert stand.session.waits_for_rows


def many(confirmed: int, seconds: float = LATER, *, client: int = 1) -> bytes:
    wanted = classic.PollMany(1000, 0, int(seconds * 1000), confirmed, Format.MSGPACK)
    return classic.encode_request(Command.POLL_MANY, classic.encode_poll_many(wanted), client_id=client, token=7)


def rows_come(stand: Stand) -> None:
    """Rows of shop.orders."""
    stand.line.write(1, rows=2, together=True)
    stand.line.broker.step(1 << 30)


def is_replied(stand: Stand) -> bool:
    return bool(select.select([stand.client], [], [], 0)[0])


def replied(stand: Stand) -> list[tuple[int, int]]:
    """The results of the replies that have come, and the numbers of their rows."""
    parser = classic.ReplyParser()
    parser.feed(stand.client.recv(4096))
    return [(each.result, int.from_bytes(each.payload[:4], "little")) for each in iter(parser.next, None)]


def test_who_waits_for_rows_has_them_when_the_poller_is_woken(stand: Stand) -> None:
    begin_to_wait(stand)
    rows_come(stand)
    os.eventfd_write(stand.wake, 1)
    assert stand.wait(0.05) == [], "to answer needs no Python"
    assert replied(stand) == [(0, 2)]
    assert not stand.session.waits_for_rows
    os.eventfd_write(stand.wake, 1)
    assert [entry[0] for entry in stand.wait(LATER)] == [stand.wake], "nobody waits any more"


def test_who_has_no_rows_waits_on_when_others_are_woken(stand: Stand) -> None:
    begin_to_wait(stand)
    slot = stand.line.broker.add_client(2, "client 2")
    stand.line.broker.set_filters(slot, [("shop", "items", 7, 0, 0, stand.line.arena.committed, OPEN)])
    other, (ours, theirs) = stand.connected(2, slot), socket.socketpair()
    with ours, theirs:
        stand.epoll.register(ours, select.EPOLLIN)
        stand.poller.attach(ours.fileno(), other)
        theirs.sendall(many(0, client=2))
        assert stand.wait(0.05) == []
        for confirmed in (7, 9, 11):
            rows_come(stand)
            os.eventfd_write(stand.wake, 1)
            assert stand.wait(0.05) == []
            assert replied(stand) == [(0, 2)]
            assert other.waits_for_rows
            stand.client.sendall(many(confirmed))
            assert stand.wait(0.05) == []
        stand.line.write(2)  # of both tables
        stand.line.broker.step(1 << 30)
        os.eventfd_write(stand.wake, 1)
        assert stand.wait(0.05) == []
        assert not other.waits_for_rows
        stand.poller.detach(ours.fileno())


def test_who_is_forgotten_while_it_waits_is_told_at_the_next_wake_up(stand: Stand) -> None:
    begin_to_wait(stand)
    stand.line.broker.remove_client(stand.slot)
    os.eventfd_write(stand.wake, 1)
    assert [entry[2] for entry in stand.wait(LATER)] == [stand.session]
    assert results(stand.client.recv(4096)) == [classic.Result.DISCONNECTED]


def test_a_descriptor_of_one_who_waited_may_be_that_of_another(stand: Stand) -> None:
    begin_to_wait(stand)
    fd = stand.ours.fileno()
    stand.session.release()
    stand.poller.detach(fd)
    session = stand.connected(1, stand.slot)
    stand.poller.attach(fd, session)
    stand.client.sendall(many(5))
    assert stand.wait(0.05) == []
    assert session.waits_for_rows
    rows_come(stand)
    os.eventfd_write(stand.wake, 1)
    assert stand.wait(0.05) == []
    assert replied(stand) == [(0, 2)]


def test_who_has_sent_the_next_request_already_waits_on(stand: Stand) -> None:
    begin_to_wait(stand)
    stand.client.sendall(many(7))
    assert stand.wait(0.05) == []
    for confirmed in (9, 11):
        rows_come(stand)
        os.eventfd_write(stand.wake, 1)
        assert stand.wait(0.05) == []
        assert replied(stand) == [(0, 2)]
        assert stand.session.waits_for_rows
        stand.client.sendall(many(confirmed))


@pytest.mark.parametrize("seconds", [0.001, 0.1])
def test_who_has_waited_long_enough_has_no_rows(stand: Stand, seconds: float) -> None:
    take_rows(stand)
    begun = time.monotonic()
    stand.client.sendall(many(5, seconds))
    while not is_replied(stand) and time.monotonic() < begun + LATER:
        assert stand.wait(0.01) == [], "to end a wait needs no Python"
    assert time.monotonic() - begun >= seconds
    assert replied(stand) == [(0, 0)]
    assert not stand.session.waits_for_rows


def test_what_a_client_sends_meanwhile_does_not_prolong_its_wait(stand: Stand) -> None:
    take_rows(stand)
    stand.client.sendall(many(5, 0.5))
    end = time.monotonic() + LATER
    while not is_replied(stand) and time.monotonic() < end:
        stand.client.sendall(b"\0")  # a part of the next request
        assert stand.wait(0.05) == []
    assert replied(stand) == [(0, 0)]


def test_a_wait_that_began_with_an_answer_of_python_ends_too(stand: Stand) -> None:
    take_rows(stand)
    stand.client.sendall(classic.encode_request(Command.PING) + many(5, 0.1))
    assert [entry[2] for entry in stand.wait(LATER)] == [stand.session]
    stand.session.answer(stand.ours.fileno(), classic.encode_reply(classic.Result.OK))
    stand.poller.expect_rows(stand.ours.fileno())
    end = time.monotonic() + LATER
    while stand.session.waits_for_rows and time.monotonic() < end:
        stand.wait(0.01)
    assert replied(stand) == [(0, 0), (0, 0)]


def test_a_wake_up_that_brings_nobody_rows_is_for_the_caller(stand: Stand) -> None:
    begin_to_wait(stand)
    os.eventfd_write(stand.wake, 1)
    assert [entry[0] for entry in stand.wait(LATER)] == [stand.wake]
    assert stand.session.waits_for_rows, "it waits on"
    stand.poller.detach(stand.ours.fileno())
    os.eventfd_write(stand.wake, 1)
    assert [entry[0] for entry in stand.wait(LATER)] == [stand.wake]


def test_woken_ahead_it_waits_on_or_answers_with_what_is_there(stand: Stand) -> None:
    begin_to_wait(stand)
    os.eventfd_write(stand.ahead, 1)
    assert stand.wait(0.05) == []
    assert stand.session.waits_for_rows
    rows_come(stand)
    os.eventfd_write(stand.ahead, 1)
    assert stand.wait(0.05) == []
    assert replied(stand) == [(0, 2)]


def test_who_does_not_read_is_left_to_python(stand: Stand) -> None:
    """Python closes the connection of a client that leaves its replies unread."""
    begin_to_wait(stand)
    stand.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    stand.line.write(1, rows=2000)
    stand.line.broker.step(1 << 30)
    os.eventfd_write(stand.wake, 1)
    assert [entry[2] for entry in stand.wait(LATER)] == [stand.session]
    assert stand.session.unsent


def test_who_sends_too_much_ahead_is_left_to_python(stand: Stand) -> None:
    """Python does not listen to it until it has its reply."""
    begin_to_wait(stand)
    stand.client.setblocking(False)
    ready: list[tuple[int, int, Session | None, Exception | None]] = []
    end = time.monotonic() + LATER
    while not ready and time.monotonic() < end:
        stand.client.send(many(5) * 100)
        ready = stand.wait(0)
    assert [entry[2] for entry in ready] == [stand.session]
    assert not stand.session.wants_input
    assert stand.session.waits_for_rows


def results(received: bytes) -> list[int]:
    parser = classic.ReplyParser()
    parser.feed(received)
    return [reply.result for reply in iter(parser.next, None)]


def test_polls_are_answered_until_the_time_is_over(stand: Stand) -> None:
    for rows_left in (4, 3):
        stand.client.sendall(POLL)
        while not is_replied(stand):
            until = time.monotonic() + 0.05
            assert stand.poller.wait(until) == []
            assert time.monotonic() >= until
        reply = stand.client.recv(4096)
        assert results(reply) == [0]
        assert int.from_bytes(reply[18:22], "little") == rows_left  # the queue's size stands behind kind and position


@pytest.mark.parametrize("until", [0.0, 1e-9, 1.0])
def test_a_time_that_is_over_ends_it_at_once(stand: Stand, until: float) -> None:
    assert stand.poller.wait(until) == []
    assert stand.poller.wait(until) == []


def test_a_time_may_be_set_anew(stand: Stand) -> None:
    reader, writer = os.pipe()
    stand.epoll.register(reader, select.EPOLLIN)
    os.write(writer, b"x")
    assert stand.wait(LATER) == [(reader, select.EPOLLIN, None, None)]
    os.read(reader, 1)
    assert stand.wait(0.01) == []
    os.close(reader)
    os.close(writer)


def test_what_is_no_poll_is_left_to_python(stand: Stand) -> None:
    stand.client.sendall(classic.encode_request(Command.PING))
    assert stand.wait(LATER) == [(stand.ours.fileno(), select.EPOLLIN, stand.session, None)]
    assert stand.session.waits_for_answer


def test_a_session_that_was_detached_is_any_descriptor(stand: Stand) -> None:
    stand.poller.detach(stand.ours.fileno())
    stand.client.sendall(POLL)
    assert stand.wait(LATER) == [(stand.ours.fileno(), select.EPOLLIN, None, None)]


def test_who_fails_is_named_and_others_are_served(stand: Stand) -> None:
    error = RuntimeError("no memory for columns")

    def fail(columns: list[Columns]) -> list[bytes]:
        raise error

    stand.server.encode_with(fail)
    asked = classic.encode_poll_many(classic.PollMany(1, 0, 0, 0, Format.ARROW))
    stand.client.sendall(classic.encode_request(Command.POLL_MANY, asked, client_id=1, token=7))
    assert stand.wait(LATER) == [(stand.ours.fileno(), select.EPOLLIN, stand.session, error)]


def test_a_signal_ends_it(stand: Stand) -> None:
    came: list[int] = []
    former: Callable[..., object] | int | None = signal.signal(
        signal.SIGALRM, lambda number, frame: came.append(number)
    )
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert stand.wait(LATER) == []
        assert came == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, former)
