"""A constructed DataDir: a journal, and a state.db with clients, filters and queues.

And what a start restores of it.
"""

from __future__ import annotations

import mmap
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from relay._native import Arena, Broker, ClientQueue
from relay.base.log import logger
from relay.binlog.events.position import BinlogPosition
from relay.config.load import load
from relay.ingest.reader_state import ReaderState
from relay.journal import newest
from relay.journal.frames import Definition
from relay.queues.registry import Registry
from relay.queues.requests import Requests
from relay.queues.state import ClientState
from relay.queues.state_link import StateLink
from relay.queues.state_writing import StateWriting
from relay.runtime import ipc
from relay.runtime.context import BrokerContext
from tests.support.journal_builder import ID, NAME, Made
from tests.support.packets import pair

SHAPE = (16, 1, 1 << 20)  # clients, workers, bytes for queues
FACTS = {"generation": "", "server_id": "4711", "skipped": "binlog.000001:900", "low_place": "binlog.000001:4000000000",
         "mark": "binlog.000001 1700000000 120 00112233"}  # fmt: skip
TABLES = [Definition("shop", f"t{number}", 0, 0, 0, True, [ID, NAME]) for number in range(3)]
KEPT = ("matched", "confirmed", "served", "in_flight", "next", "waiting", "waiting_limited", "max_waiting", "repeats",
        "dropped", "last_drop")  # fmt: skip
OLDEST, NEWEST = 1, 2


class OpenDataDir:
    """A broker of that DataDir with empty shared memory, as after a failure of the host."""

    def __init__(self, folder: Path, journal: Made) -> None:
        config = load(None, {}, {"Server.Login": "x", "Server.AuthSecret": "x", "Relay.DataDir": str(folder)})[0]
        self.arena = Arena(mmap.mmap(-1, Arena.size(*SHAPE)), *SHAPE)
        self.arena.attach_writer(journal.writer)
        self._ends = pair()
        self._beside = tempfile.TemporaryDirectory()
        self._link, self._writing = StateLink(self._ends[0]), StateWriting(folder / "state.db", self._ends[1], bool)
        try:
            self._writing.announce()
            self.broker = Broker(self.arena, journal.folder, lambda offset, size: None)
            unstored = Path(self._beside.name)
            context = BrokerContext("broker", 0, config, self.arena, logger("broker"), unstored=unstored)
            self.registry = Registry(context, self.broker, self._link)
            assert self.registry.load(self._write)
            self._requests = Requests(context, self.broker, self.registry, self._link)
        except BaseException:
            self.close()
            raise

    def _write(self) -> bool:
        """The state writer's part."""
        self._writing.receive()
        return True

    def close(self) -> None:
        self._writing.close()
        self._beside.cleanup()
        for end in self._ends:
            end.close()

    def ask(self, request: ipc.Request) -> Any:
        replies: list[Any] = []
        self._requests.answer(request, replies.append)
        self._settle()
        [reply] = replies
        assert not reply.error, reply.error
        return reply

    def checkpoint(self) -> None:
        self.registry.checkpoint()
        self._settle()

    def _settle(self) -> None:
        assert self._link.settle(self._write, 30)

    def client(self, name: str, *filters: tuple[str, int, int]) -> ClientQueue:
        """The queue of a new client; a filter is table, discard and limit."""
        registered = self.ask(ipc.Register(1, name))
        for table, discard, limit in filters:
            self.ask(ipc.AddFilter(1, registered.client_id, "shop", table, 7, discard, limit))
        return ClientQueue(self.arena, registered.slot)

    def decide(self) -> None:
        while self.broker.pending():
            self.broker.step(1 << 30)


def made(folder: Path, clients: int = 0) -> Made:
    """A journal with rows, and a state.db whose clients have all kinds of queues, and `clients` more."""
    journal = Made(folder / "journal")
    with closing(ReaderState(folder / "state.db")) as reader_state:
        for key, value in (FACTS | {"generation": str(journal.writer.generation())}).items():
            reader_state.put(key, value)
        for definition in TABLES:
            reader_state.with_ids(definition)
        reader_state.add_gap(1.5, BinlogPosition("binlog.000001", 4), BinlogPosition("binlog.000001", 8), "accepted")
    journal.inserted(1)
    station = OpenDataDir(folder, journal)
    some = station.client("some", ("*", 0, 0))
    station.client("waits", ("t", 0, 0))
    station.client("oldest", ("t", OLDEST, 7))
    station.client("newest", ("t", NEWEST, 7))
    station.client("both", ("t", NEWEST, 5), ("*", OLDEST, 3))
    station.client("gone", ("t", 0, 0))
    for number in range(clients):
        station.client(f"client {number}", ("t", 0, 0), (f"table {number}", 0, 0))
    for number in range(2, 60):
        journal.inserted(number, number + 100)
        station.decide()
    some.confirm(some.take(9)[0] + 8)
    some.take(5)
    station.client("waits", ("t", OLDEST, 200))  # replaces the filter, which still holds for what it matched
    station.ask(ipc.Forget(1, "gone"))
    journal.inserted(61, 62)
    station.decide()
    journal.flush()
    station.arena.flushed = journal.writer.flushed()
    station.checkpoint()
    station.close()
    return journal


def restored(folder: Path, journal: Made) -> dict[str, Any]:
    """Everything that reader and broker take from state.db at a start on that DataDir."""
    found: dict[str, Any] = {}
    with closing(ReaderState(folder / "state.db")) as reader_state:
        found["facts"] = {key: reader_state.get(key) for key in FACTS}
        found["numbers"] = [reader_state.with_ids(definition) for definition in TABLES]
        found["names"] = dict(sorted(reader_state._ids.items()))
        found["gaps"] = reader_state._db.execute("SELECT * FROM gaps").fetchall()
        newest.check(journal.folder, reader_state.broker_position())
    with closing(ClientState(folder / "state.db")) as state:
        found["stored"] = state.generation(), state.position(), state.clients()
    station = OpenDataDir(folder, journal)
    with closing(station):
        queues = {}
        for slot in station.arena.client_slots():
            facts = station.arena.client_stats(slot)
            queues[facts["name"]] = facts["client_id"], {key: facts[key] for key in KEPT}, _drained(station, slot)
        found["queues"] = queues
        found["next id"] = station.ask(ipc.Register(1, "new")).client_id
    return found


def _drained(station: OpenDataDir, slot: int) -> list[Any]:
    queue = ClientQueue(station.arena, slot)
    came: list[Any] = []
    for _ in range(100):
        station.decide()
        first, ranges = queue.in_flight()
        if not ranges:
            first, ranges = queue.take(1000)
        if not ranges:
            return came
        came.append((first, ranges))
        queue.confirm(first + sum(rows for *_, rows in ranges) - 1)
    raise AssertionError("the queue has no end")


def killed(folder: Path, to: Path) -> Made:
    """As `made`, in `folder`. `to` is a copy as a killed relay leaves it: SQLite's log is not in the file."""
    with closing(sqlite3.connect(folder / "state.db", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL").fetchall()
        other.execute("BEGIN")  # while it reads, the log is not copied into the file
        other.execute("SELECT * FROM sqlite_master").fetchall()
        journal = made(folder)
        to.mkdir()
        (to / "journal").symlink_to(folder / "journal")
        for name in ("state.db", "state.db-wal", "state.mark"):
            shutil.copyfile(folder / name, to / name)
    return journal


@contextmanager
def copied(folder: Path, to: Path) -> Iterator[Path]:
    """A copy of DataDir, with the same journal."""
    to.mkdir()
    (to / "journal").symlink_to((folder / "journal").resolve())
    for file in folder.iterdir():
        if file.is_file():
            shutil.copyfile(file, to / file.name)
    try:
        yield to
    finally:
        shutil.rmtree(to)
