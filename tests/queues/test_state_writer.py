"""What the broker hands over is stored in order, whichever process dies."""

from __future__ import annotations

import mmap
import os
import random
import select
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relay._native import Arena
from relay.base.log import logger
from relay.config.load import load
from relay.datadir import sync
from relay.errors import RelayError
from relay.processes import state_writer
from relay.queues.state import Filter
from relay.queues.state_link import StateLink, raise_if_failed
from relay.queues.state_messages import (
    AddClient,
    Change,
    Checkpoint,
    ForgetClient,
    Loaded,
    ReplaceFilters,
    Stored,
)
from relay.queues.state_writing import StateWriting
from relay.runtime import child
from relay.runtime.context import StateWriterContext
from relay.runtime.ipc import MAX_MESSAGE
from tests.support.packets import pair

LONG = 60.0  # more than anything here takes

State = tuple[int, dict[int, tuple[str, list[Filter], bytes | None]]]  # position; by id: name, filters, checkpoint


def after(state: State, change: Change) -> State:
    """What is stored after one more change."""
    position, clients = state[0], dict(state[1])
    match change:
        case AddClient():
            clients[change.id] = change.name, [], None
        case ForgetClient():
            clients.pop(change.id, None)
        case ReplaceFilters() if change.id in clients:
            name, _, checkpoint = clients[change.id]
            clients[change.id] = name, change.filters, checkpoint
        case Checkpoint():
            position = change.position
            for id, checkpoint in change.clients:
                if id in clients:
                    clients[id] = *clients[id][:2], checkpoint
    return position, clients


def state_of(found: Loaded) -> State:
    return found.position, {c.id: (c.name, c.filters, c.checkpoint) for c in found.clients}


class Writer:
    """A state writer process, and links to it as brokers one after the other have them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends = pair()
        config = load(None, {}, {"Server.Login": "x", "Server.AuthSecret": "x", "Relay.DataDir": str(folder)})[0]
        arena = Arena(mmap.mmap(-1, Arena.size(4, 1, 0)), 4, 1, 0)
        self._context = StateWriterContext(
            "state-writer", 0, config, arena, logger("state-writer"), broker=self._ends[1]
        )
        self._pid = 0

    def start(self) -> None:
        self._pid = child.fork_child(self._context, lambda: state_writer.run(self._context))

    def kill(self) -> bool:
        """Kills it, and repairs what the supervisor repairs. True if that needs the broker to begin anew."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._pid = 0
        doubtful = sync.doubtful(self._folder, "state-writer")
        for file in doubtful:
            sync.rewrite(file)
        return bool(doubtful)

    def link(self) -> tuple[StateLink, Loaded]:
        """That of a new broker, with what it finds."""
        link = StateLink(self._ends[0])
        found = link.load(lambda: True)
        assert found is not None
        return link, found

    def close(self) -> None:
        if self._pid:
            self.kill()
        for end in self._ends:
            end.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with closing(Writer(tmp_path)) as writer:
        writer.start()
        yield writer


class Story:
    """Random changes, and after how many of them the answers say that everything is stored."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.states: list[State] = [(0, {})]  # after so many changes
        self.answered = 0
        self.last_id = 0

    def tell(self, link: StateLink) -> None:
        """Hands over a change."""
        change = self._change(link.next_number())
        self.states.append(after(self.states[-1], change))
        mine = len(self.states) - 1

        def stored(answer: Stored) -> None:
            assert not answer.error
            assert mine == self.answered + 1, "answers come in order"
            self.answered = mine

        link.store(change, stored)

    def _change(self, number: int) -> Change:
        dice, (position, clients) = self._dice, self.states[-1]
        match dice.choice(["add", "filters", "filters", "filters", "forget", "checkpoint"]):
            case "filters" if clients:
                filters = [
                    Filter("shop", f"t{dice.randrange(9)}", 7, 0, 0, since=position) for _ in range(dice.randrange(4))
                ]
                return ReplaceFilters(number, dice.choice(list(clients)), filters)
            case "forget" if len(clients) > 5:
                return ForgetClient(number, dice.choice(list(clients)))
            case "checkpoint":
                some = dice.sample(list(clients), len(clients) // 2)
                size = dice.choice([10, MAX_MESSAGE])
                return Checkpoint(number, position + 1, [(id, dice.randbytes(size)) for id in some])
            case _:
                self.last_id += 1
                return AddClient(number, self.last_id, f"client {dice.randrange(10**9)}")

    def resume(self, found: Loaded) -> None:
        """A new broker begins with what is stored: that must be all that was answered, and no part of a change."""
        state = state_of(found)
        possible = self.states[self.answered :]
        assert state in possible, f"{len(possible)} states are possible, and this is none of them"
        self.states = [state]
        self.answered = 0
        self.last_id = max(self.last_id, found.last_id)
        assert found.last_id >= max(state[1], default=0)


@pytest.mark.parametrize("seed", range(4))
def test_all_that_was_answered_is_stored_whichever_of_them_is_killed(writer: Writer, seed: int) -> None:
    dice = random.Random(seed)
    story = Story(dice)
    link, found = writer.link()
    story.resume(found)
    for _ in range(25):
        for _ in range(dice.randrange(12)):
            story.tell(link)
            link.settle(lambda: True, dice.choice([0.0, 0.0, 0.0, 0.01]))
        anew = dice.random() < 0.5
        if dice.random() < 0.7:
            anew |= writer.kill()
            writer.start()
        if anew:
            link, found = writer.link()
            story.resume(found)
    assert link.settle(lambda: True, LONG)
    assert story.answered == len(story.states) - 1
    _, found = writer.link()
    assert state_of(found) == story.states[-1]


def test_what_a_writer_before_did_not_read_is_not_carried_out_twice(tmp_path: Path) -> None:
    """An old change behind a newer one would undo it."""
    ends = pair()
    answers: list[int] = []
    link = StateLink(ends[0])

    def on_stored(answer: Stored) -> None:
        answers.append(answer.number)

    changes: list[None] = []
    first = StateWriting(tmp_path / "state.db", ends[1], bool)
    first.announce()

    def alive() -> bool:
        first.receive()
        return True

    assert link.load(alive) is not None
    numbers = [link.next_number() for _ in range(3)]
    link.store(AddClient(numbers[0], 1, "a"), on_stored)
    for number, table in zip(numbers[1:], ("old", "new"), strict=True):
        link.store(ReplaceFilters(number, 1, [Filter("shop", table, 7, 0, 0, 0)]), on_stored)
    first.close()  # it dies before it reads them
    second = StateWriting(tmp_path / "state.db", ends[1], bool, lambda: changes.append(None))
    with closing(sqlite3.connect(tmp_path / "state.db")) as database:
        second.announce()
        second.receive()
        assert not database.execute("SELECT * FROM clients").fetchall(), "they come again"
        link.receive()
        assert not answers
        second.receive()
        link.receive()
        assert answers == numbers
        second.receive()
        assert database.execute("SELECT table_name FROM filters").fetchall() == [("new",)]
    link.receive()
    assert answers == numbers, "nothing was carried out again"
    assert len(changes) == 4, "the opening and each change is counted"
    link.store(Checkpoint(link.next_number(), 100, []), on_stored)
    second.receive()
    link.receive()
    assert len(answers) == 4
    assert len(changes) == 4, "a checkpoint changes nothing that is shown"
    second.close()
    for end in ends:
        end.close()


def test_a_writer_whose_broker_died_before_it_knew_it_is_known_to_the_next(tmp_path: Path) -> None:
    ends = pair()
    writing = StateWriting(tmp_path / "state.db", ends[1], bool)
    writing.announce()
    ends[0].recv(MAX_MESSAGE)  # and then the broker dies

    def alive() -> bool:
        writing.announce()
        writing.receive()
        return True

    assert StateLink(ends[0]).load(alive) is not None
    writing.close()
    for end in ends:
        end.close()


@pytest.mark.parametrize("stale", range(1, 16))
def test_a_socket_that_a_writer_left_full_delays_no_message_to_the_next(tmp_path: Path, stale: int) -> None:
    """However little fits: also if `Resume` is the last message that does."""
    ends = pair()
    ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    link = StateLink(ends[0])
    answers: list[Stored] = []
    first = StateWriting(tmp_path / "state.db", ends[1], bool)
    first.announce()

    def alive() -> bool:
        first.receive()
        return True

    assert link.load(alive) is not None
    for id in range(1, 1 + stale):
        link.store(AddClient(link.next_number(), id, f"client {id}"), answers.append)
    first.close()  # it dies before it reads them
    second = StateWriting(tmp_path / "state.db", ends[1], bool)
    second.announce()
    while select.select([ends[0]], [], [], 0)[0]:
        link.receive()
        second.receive()
        second.announce()
    assert len(answers) == stale
    second.close()
    for end in ends:
        end.close()


def test_more_than_the_socket_takes_is_handed_over_in_the_end(writer: Writer) -> None:
    link, _ = writer.link()
    answers: list[Stored] = []
    link.store(AddClient(link.next_number(), 1, "a"), answers.append)
    for number in range(300):
        change = Checkpoint(link.next_number(), number, [(1, bytes(1000 * number))])
        link.store(change, answers.append)
    assert link.settle(lambda: True, LONG)
    assert len(answers) == 301 and not any(answer.error for answer in answers)
    _, found = writer.link()
    assert (found.position, found.clients[0].checkpoint) == (299, bytes(299_000))


class Failing:
    """A state writer in this process whose disk rejects what `fails` names."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails: set[str] = set()
        self._ends = pair()
        self._writing = StateWriting(folder / "state.db", self._ends[1], bool)
        self._writing.announce()
        self.link = StateLink(self._ends[0])
        assert self.link.load(self._alive) is not None
        state: Any = self._writing._state
        for name in ("add_client", "replace_filters", "checkpoint"):
            monkeypatch.setattr(state, name, self._failing(name, getattr(state, name)))

    def _failing(self, name: str, method: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            if name in self.fails:
                raise sqlite3.OperationalError("database or disk is full")
            method(*arguments)

        return call

    def _alive(self) -> bool:
        self._writing.receive()
        return True

    def stored(self, change: Change) -> str:
        """Why it is not stored; "" if it is."""
        answers: list[Stored] = []
        self.link.store(change, answers.append)
        assert self.link.settle(self._alive, LONG)
        return answers[0].error


def test_a_checkpoint_of_rows_whose_filter_is_not_stored_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss of power the filters would find other rows than the checkpoint counts."""
    running = Failing(tmp_path, monkeypatch)
    number = running.link.next_number
    assert running.stored(AddClient(number(), 1, "a")) == ""
    filters = [Filter("shop", "t", 7, 0, 0, 0)]
    running.fails = {"replace_filters"}
    assert running.stored(ReplaceFilters(number(), 1, filters)) == "database or disk is full"
    running.fails = set()
    assert "filters of 1 clients" in running.stored(Checkpoint(number(), 5, [(1, b"x")]))
    assert running.stored(ReplaceFilters(number(), 1, filters)) == ""
    assert running.stored(Checkpoint(number(), 5, [(1, b"x")])) == ""


def test_a_broker_cannot_begin_with_what_it_cannot_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Failing(tmp_path, monkeypatch)
    running.fails = {"checkpoint"}
    running.link.store(Checkpoint(running.link.next_number(), 1, []), raise_if_failed)
    with pytest.raises(RelayError, match=r"store clients: state\.db: database or disk is full"):
        running.link.settle(running._alive, LONG)
