"""The broker's native loop: what it decides, which servers it wakes, and when it returns to Python."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from relay._native import Dispatcher
from tests.queues.test_broker_native import Stage
from tests.support import held_interpreter
from tests.support.signals import signalled

STEP = 1 << 20
PATIENCE = 0.2  # seconds
LONG = 1e6  # who waits so long hangs, and pytest's timeout ends the test
EVERYTHING = ("shop", "*", 7, 0, 0, 0, 2**64 - 1)


class Desk:
    """A broker with two clients, each of a server of its own, and a socket that somebody else may write to."""

    def __init__(self, folder: Path) -> None:
        self.stage = Stage(folder, 2)
        for client in (0, 1):
            self.stage.broker.set_filters(client, [EVERYTHING])
        self.wake, self.ahead, self.servers_ahead, *self.servers = (os.eventfd(0, os.EFD_NONBLOCK) for _ in range(5))
        self.asking, self.asked = socket.socketpair()
        self.epoll = select.epoll()
        for fd in (self.wake, self.ahead):
            self.epoll.register(fd, select.EPOLLIN | select.EPOLLET)
        self.epoll.register(self.asked, select.EPOLLIN)
        self.arena = self.stage.arena
        wakes = self.wake, self.ahead, self.servers_ahead, self.servers
        self.dispatcher = Dispatcher(self.stage.broker, self.arena, self.epoll.fileno(), *wakes)
        self.run()  # what the journal begins with

    def run(
        self, seconds: float = LONG, *, latest: float = LONG, step: int = STEP, patience: float = PATIENCE
    ) -> list[int]:
        now = time.monotonic()
        return self.dispatcher.run(now + seconds, now + latest, patience, step)

    def write(self) -> None:
        self.stage.write(0, 1, 1)

    def waiting(self, client: int) -> int:
        return int(self.arena.client_stats(client)["waiting"])

    def woken(self) -> list[bool]:
        """Which servers were woken since they were asked last."""
        return [bool(select.select([server], [], [], 0)[0] and os.eventfd_read(server)) for server in self.servers]

    def close(self) -> None:
        self.epoll.close()
        for each in (self.asking, self.asked):
            each.close()
        for fd in (self.wake, self.ahead, self.servers_ahead, *self.servers):
            os.close(fd)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with closing(Desk(tmp_path)) as desk:
        yield desk


def test_what_is_committed_is_decided_and_the_servers_of_those_who_wait_are_woken(desk: Desk) -> None:
    desk.stage.queue(1).wait()
    desk.write()
    assert desk.run() == []
    assert (desk.waiting(0), desk.waiting(1)) == (1, 1)
    assert sum(desk.woken()) == 1, "nobody waits at the other one"


def test_it_sleeps_until_it_is_woken_and_goes_on_by_itself(desk: Desk) -> None:
    seen: list[tuple[bool, int]] = []

    def source() -> None:
        while not desk.arena.broker_waiting:
            time.sleep(0.001)
        desk.write()
        seen.append((desk.arena.broker_waiting, desk.waiting(0)))
        os.eventfd_write(desk.wake, 1)
        while desk.waiting(0) == 0:
            time.sleep(0.001)
        desk.asking.send(b"?")

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(source)
        assert desk.run(patience=LONG) == [desk.asked.fileno()]
        done.result()
    assert seen == [(True, 0)]
    assert not desk.arena.broker_waiting, "who does not sleep need not be woken"


def test_a_server_is_woken_without_the_interpreter(desk: Desk) -> None:
    """Its code and data may be in no cache."""
    desk.stage.queue(0).wait()
    with held_interpreter.blocked(lambda: desk.run(latest=0.0, patience=LONG), desk.epoll.fileno()):
        desk.write()
        assert held_interpreter.brings(desk.wake, (1).to_bytes(8, "little"), desk.servers[1])
    assert desk.waiting(0) == 1


def test_woken_ahead_it_wakes_the_servers_ahead_without_the_interpreter(desk: Desk) -> None:
    with held_interpreter.blocked(lambda: desk.run(latest=0.0, patience=LONG), desk.epoll.fileno()):
        assert held_interpreter.brings(desk.ahead, (1).to_bytes(8, "little"), desk.servers_ahead)
    os.eventfd_read(desk.servers_ahead)
    desk.write()
    os.eventfd_write(desk.wake, 1)
    desk.run(latest=0.0)
    assert desk.waiting(0) == 1
    assert not select.select([desk.servers_ahead], [], [], 0)[0], "the row is there already"


@pytest.mark.parametrize("what_ends_it", ["its time", "a request"])
def test_what_was_committed_meanwhile_is_decided_before_it_comes_back(desk: Desk, what_ends_it: str) -> None:
    """What the caller does then may last: it must not keep rows."""

    def source() -> None:
        while not desk.arena.broker_waiting:
            time.sleep(0.001)
        desk.write()
        if what_ends_it == "a request":
            desk.asking.send(b"?")
        else:
            os.eventfd_write(desk.wake, 1)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(source)
        desk.run(latest=0.0, patience=LONG)
        done.result()
    assert desk.waiting(0) == 1


def test_who_asks_is_named(desk: Desk) -> None:
    desk.asking.send(b"?")
    assert desk.run(patience=LONG) == [desk.asked.fileno()]


def test_in_silence_it_comes_back_when_its_patience_ends(desk: Desk) -> None:
    began = time.monotonic()
    assert desk.run(latest=0.0) == []
    assert time.monotonic() - began >= PATIENCE * 0.9


def test_when_it_is_due_a_pause_is_enough(desk: Desk) -> None:
    assert desk.run(0.0, patience=LONG) == []
    desk.write()
    assert desk.run(0.0, patience=LONG) == []
    assert desk.waiting(0) == 1


def test_before_the_latest_time_it_does_not_come_back_without_a_pause(desk: Desk) -> None:
    for _ in range(100):
        desk.write()
    assert desk.run(0.0, step=1) == []
    assert desk.arena.broker_scan == desk.arena.committed
    assert desk.waiting(0) == 100


def test_woken_for_nothing_it_comes_back(desk: Desk) -> None:
    os.eventfd_write(desk.wake, 1)
    assert desk.run(patience=LONG) == []


def test_woken_ahead_it_sleeps_on_until_its_time(desk: Desk) -> None:
    os.eventfd_write(desk.ahead, 1)
    began = time.monotonic()
    assert desk.run() == []
    assert time.monotonic() - began >= PATIENCE * 0.9
    os.eventfd_write(desk.ahead, 1)
    assert desk.run(latest=0.0, patience=LONG) == [], "a source that sends no rows must not keep it from its other work"


def test_while_there_is_always_more_it_comes_back_at_its_time(desk: Desk) -> None:
    for _ in range(100):
        desk.write()
    rounds = 0
    while desk.arena.broker_scan < desk.arena.committed:
        assert desk.run(latest=0.0, step=1) == []
        rounds += 1
        assert rounds < 1000
    assert rounds > 10
    assert desk.waiting(0) == 100


def test_with_nothing_to_step_it_decides_nothing_and_listens(desk: Desk) -> None:
    desk.write()
    desk.asking.send(b"?")
    assert desk.run(step=0, patience=LONG) == [desk.asked.fileno()]
    os.eventfd_write(desk.wake, 1)
    desk.asked.recv(1)
    assert desk.run(step=0, patience=LONG) == [], "somebody may have cleared what it was stopped for"
    assert desk.waiting(0) == 0


def test_a_signal_ends_the_waiting(desk: Desk) -> None:
    with signalled() as came:
        assert desk.run(patience=LONG) == []
    assert came
