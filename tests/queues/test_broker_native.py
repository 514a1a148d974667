"""The broker's decisions against the rules, row by row: limits, lag, flush, seek, retention, kills, cold starts."""

from __future__ import annotations

import mmap
import random
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from relay._native import Arena, Broker, ClientQueue, JournalReader, JournalWriter, QueueError
from tests.support.chance import seeds
from tests.support.queue_line import RowsFrame, rows_frames, rows_of

OPEN = 2**64 - 1
POOL = 1 << 20
TABLES = ("orders", "items", "people")
Row = tuple[int, int]  # frame, row
Filter = tuple[str, str, int, int, int, int, int]  # schema, table, kinds, discard, limit, since, until


@dataclass
class Model:
    """What a client's queue must hold, and its accounts."""

    filters: list[Filter] = field(default_factory=list)
    queue: list[Row] = field(default_factory=list)
    limited: deque[Row] = field(default_factory=deque)  # of the queue and before it; no filter without a limit asked
    in_flight: list[Row] = field(default_factory=list)
    matched: int = 0
    confirmed: int = 0
    longest: int = 0  # the queue, after a frame was decided
    served: int = 0
    newest_at: int = 0  # the last frame of which a limit dropped the newest rows
    dropped: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("limit_oldest", "limit_newest", "cut", "flush", "undecodable", "skipped"), 0
        )
    )

    def offer(self, frame: int, table: str, kind: int, rows: int) -> None:
        """Decide rows of a frame, as if one by one."""
        matching = [f for f in self.filters if f[1] in ("*", table) and f[2] & kind and f[5] <= frame < f[6]]
        if not matching:
            return
        self.matched += rows
        limits = [f[4] for f in matching]
        new = [(frame, row) for row in range(rows)]
        if not all(limits):
            self.queue += new
        else:
            self.offer_limited(new, max(limits), all(f[3] == 1 for f in matching))
        self.longest = max(self.longest, len(self.queue))

    def offer_limited(self, new: list[Row], limit: int, displacing: bool) -> None:
        """Rows that no filter without a limit asked for; whether all their filters drop the oldest."""
        limited = self.limited
        while limited and (not self.queue or limited[0] < self.queue[0]):
            limited.popleft()
        waiting = len(limited)
        if not displacing:
            room = max(0, limit - waiting)
            if new[room:]:
                self.dropped["limit_newest"] += len(new[room:])
                self.newest_at = new[0][0]
            new = new[:room]
        self.queue += new
        limited.extend(new)
        # A row that finds as many waiting as its limit allows displaces the oldest of them, and no other.
        most = max(limit, waiting)
        while displacing and len(limited) > most:
            self.dropped["limit_oldest"] += 1
            del self.queue[bisect_left(self.queue, limited.popleft())]  # rows are in order

    def flush(self) -> None:
        """Drop all that waits."""
        self.dropped["flush"] += len(self.queue)
        self.queue.clear()
        self.limited.clear()

    def take(self, rows: list[Row]) -> None:
        """Hand out the first rows."""
        self.in_flight = rows
        self.served += len(rows)
        del self.queue[: len(rows)]


class Stage:
    """A journal, an arena and a broker in this process, and what must be true of them."""

    def __init__(self, folder: Path, clients: int) -> None:
        self.folder = folder / "journal"
        self.writer = JournalWriter(self.folder, 1 << 16)
        self.writer.source(4, "binlog.000001", "", "test")
        columns = [["id", 11, 3, 0, False, False, True, "", [], "int"]]
        self.tables = [
            self.writer.define(msgspec.msgpack.encode(["shop", name, 1, 1, 1 + i, True, columns]))
            for i, name in enumerate(TABLES)
        ]
        self.names: dict[int, str] = {}  # by TABLE frame
        self.frames: list[RowsFrame] = []  # all that were written
        self.position = 100
        self.models = [Model() for _ in range(clients)]
        self.seen = self.writer.committed()
        self.checkpoints: dict[int, bytes] = {}  # by client id
        self.decided = 0
        self.make_arena()
        for i in range(clients):
            assert self.broker.add_client(i + 1, f"client {i}") == i

    def make_arena(self) -> None:
        self.memory = mmap.mmap(-1, Arena.size(8, 2, POOL))
        self.arena = Arena(self.memory, 8, 2, POOL)
        self.arena.attach_writer(self.writer)
        self.start_broker()

    def start_broker(self) -> None:
        self.broker = Broker(self.arena, self.folder, lambda offset, size: None)

    def expand(self, ranges: list[tuple[int, int, int]]) -> list[Row]:
        return rows_of(self.frames, ranges)

    def queue(self, client: int) -> ClientQueue:
        return ClientQueue(self.arena, client)

    def write(self, table: int, kind: int, rows: int) -> None:
        self.position += 50
        body = b"\1\1" + (b"\0" + bytes(4)) * rows if kind != 2 else b"\1\1\1" + (b"\0" + bytes(4)) * 2 * rows
        self.writer.rows(self.tables[table], kind, self.position, 1, rows, body)
        self.writer.commit(self.position, 1)

    def step(self) -> None:
        """Let broker and models decide everything that is committed."""
        self.broker.step(1 << 30)
        for frame, payload in JournalReader(self.folder).frames(self.seen, self.writer.committed()):
            values = msgspec.msgpack.decode(payload)
            if values[0] == 1:
                self.names[frame] = msgspec.msgpack.decode(values[2])[1]
            elif values[0] == 2:
                for model in self.models:
                    model.offer(frame, self.names[values[2]], values[1], values[5])
        self.frames += rows_frames(self.folder, self.seen, self.writer.committed())
        self.seen = self.writer.committed()

    def set_filters(self, client: int, filters: list[Filter]) -> None:
        filters = [f for f in filters if f[6] > self.broker.decided(client)]
        self.broker.set_filters(client, filters)
        self.models[client].filters = filters

    def checkpoint(self) -> None:
        """Keep what clients changed, if the journal is flushed up to there."""
        if (found := self.broker.checkpoint()) is not None:
            self.decided, changed = found
            self.checkpoints.update(changed)
            self.broker.stored()

    def check(self) -> None:
        for i, model in enumerate(self.models):
            stats = self.arena.client_stats(i)
            assert (stats["matched"], stats["confirmed"]) == (model.matched, model.confirmed), i
            assert (stats["in_flight"], stats["waiting"]) == (len(model.in_flight), len(model.queue)), i
            assert (stats["max_waiting"], stats["served"]) == (model.longest, model.served), i
            # A floor that was passed by another in the meantime is counted for one of the two.
            assert sum(stats["dropped"].values()) == sum(model.dropped.values()), i
            for reason in ("limit_newest", "undecodable"):
                assert stats["dropped"][reason] == model.dropped[reason], (i, reason)
            assert stats["last_drop"]["limit_newest"] == model.newest_at, i
            ready = self.expand(self.queue(i).peek()[1])
            assert ready == model.queue[: len(ready)], i
            assert len(ready) == len(model.queue) or stats["lagging"], i
            assert self.expand(self.queue(i).in_flight()[1]) == model.in_flight, i

    def drain(self, client: int) -> None:
        """Take everything, with the refills that it needs."""
        model, queue = self.models[client], self.queue(client)
        self.confirm(client, 2**62)
        while model.queue:
            self.broker.step(1)
            assert self.expand(queue.take(1 << 30)[1]), "nothing to take"
            taken = self.expand(queue.in_flight()[1])
            assert taken == model.queue[: len(taken)]
            model.take(taken)
            self.confirm(client, 2**62)

    def confirm(self, client: int, rows: int) -> None:
        model, queue = self.models[client], self.queue(client)
        first, _ = queue.in_flight()
        done = queue.confirm(min(first - 1 + rows, 2**63))
        assert done == min(rows, len(model.in_flight))
        model.confirmed += done
        del model.in_flight[:done]


FILTER_SETS: list[list[tuple[str, int, int, int]]] = [  # table, kinds, discard, limit
    [("*", 7, 0, 0)],
    [("orders", 3, 2, 0), ("people", 4, 1, 0)],
    [("*", 7, 1, 30)],
    [("*", 1, 2, 25), ("*", 6, 2, 60)],
    [("orders", 7, 0, 0), ("items", 7, 2, 40), ("people", 7, 1, 20)],
    [("orders", 1, 1, 10), ("orders", 7, 1, 1200)],
    [("orders", 7, 1, 400), ("items", 7, 1, 3), ("people", 3, 1, 30)],
    [("orders", 7, 0, 0), ("items", 7, 2, 300), ("people", 3, 2, 500), ("people", 6, 1, 70)],
]


def act(stage: Stage, rng: random.Random, client: int) -> str:
    """One thing that may happen to a relay; its name."""
    model, queue = stage.models[client], stage.queue(client)
    deed = rng.choice(["write"] * 6 + ["take"] * 5 + ["confirm"] * 3 + ["kill"] * 2 + ["flush", "seek", "cut", "filter"]
                      + ["cold", "skip", "burst", "drain"] + ["checkpoint"] * 3)  # fmt: skip
    if deed in ("write", "burst"):
        tables = rng.choice([(0,), (1,), (2,), (0, 1, 2)])  # of one table, many frames are decided at once
        for _ in range(rng.randrange(700, 1400) if deed == "burst" else rng.randrange(1, 30)):
            stage.write(rng.choice(tables), rng.choice((1, 2, 4)), rng.choice((1, 1, 2, 3, 40)))
        stage.step()
    elif deed == "take" and not model.in_flight:
        taken = stage.expand(queue.take(rng.randrange(1, 60))[1])
        assert taken == model.queue[: len(taken)]
        model.take(taken)
    elif deed == "confirm":
        stage.confirm(client, rng.randrange(0, 60))
    elif deed == "drain":
        stage.drain(client)
    elif deed == "checkpoint":
        stage.checkpoint()
    elif deed == "kill":
        stage.start_broker()
        for i, each in enumerate(stage.models):
            stage.broker.set_filters(i, each.filters)
        stage.step()
    elif deed == "flush":
        assert stage.broker.flush(client) == len(model.queue)
        model.flush()
    elif deed == "skip" and not model.in_flight and queue.peek()[1]:
        queue.skip()
        model.dropped["undecodable"] += 1
        del model.queue[0]
    else:
        return rebuild(stage, rng, client, deed)
    return deed


def rebuild(stage: Stage, rng: random.Random, client: int, deed: str) -> str:
    """The rarer deeds."""
    model = stage.models[client]
    frames = [f for f, _ in JournalReader(stage.folder).frames(stage.writer.first() + 64, stage.seen)]
    if deed == "seek":
        position = rng.choice([*frames[-200:], stage.seen])
        model.flush()
        stage.broker.flush(client)
        stage.set_filters(client, [(*f[:5], min(f[5], position), f[6]) for f in model.filters if f[6] == OPEN])
        stage.broker.seek(client, position)
        for frame, payload in JournalReader(stage.folder).frames(position, stage.seen):
            values = msgspec.msgpack.decode(payload)
            if values[0] == 2:
                model.offer(frame, stage.names[values[2]], values[1], values[5])
    elif deed == "cut":
        bases = [segment.base for segment in stage.writer.segments()]
        position = rng.choice(bases)
        if rng.random() < 0.5:
            stage.broker.cut(position)
        for each in stage.models:
            kept = [row for row in each.queue if row[0] >= position]
            each.dropped["cut"] += len(each.queue) - len(kept)
            each.queue = kept
        stage.arena.flushed = stage.writer.flush()
        stage.arena.first = position
        stage.writer.drop_before(position)
        stage.step()  # counts what was lost without a cut
    elif deed == "filter":
        here = stage.seen
        ended = [(*f[:6], min(f[6], here)) for f in model.filters]
        new = [("shop", *f, here, OPEN) for f in rng.choice(FILTER_SETS)]
        stage.set_filters(client, [f for f in ended if f[5] < f[6]] + new)
    elif deed == "cold":
        stage.arena.flushed = stage.writer.flush()
        stage.checkpoint()
        stage.make_arena()
        stage.arena.flushed, stage.arena.first = stage.writer.flush(), stage.writer.first()
        for i, each in enumerate(stage.models):
            packed = stage.checkpoints[i + 1]
            assert stage.broker.flaw(packed, stage.decided) == ""
            assert stage.broker.add_client(i + 1, f"client {i}", each.filters, packed, stage.decided) == i
        stage.step()
    return deed


@pytest.mark.parametrize("seed", [*seeds(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in seeds(8, 4))])
def test_queues_hold_what_the_rules_say(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    stage = Stage(tmp_path, len(FILTER_SETS))
    stage.broker.step(1)
    for client, filters in enumerate(FILTER_SETS):
        stage.set_filters(client, [("shop", *f, stage.seen, OPEN) for f in filters])
    deeds = []
    for _ in range(120):
        deeds.append(act(stage, rng, rng.randrange(len(FILTER_SETS))))
        try:
            stage.check()
        except AssertionError as error:
            raise AssertionError(f"after {' '.join(deeds[-12:])}: {error}") from error
    for client in range(len(FILTER_SETS)):
        stage.drain(client)
    stage.check()


def test_rows_that_a_limit_drops_within_a_step_are_counted_as_if_each_had_waited(tmp_path: Path) -> None:
    asked: list[list[tuple[str, int, int, int]]] = [
        [("*", 7, 1, 30)],
        [("orders", 7, 1, 300)],  # longer than the ring
        [("orders", 5, 1, 40), ("items", 7, 1, 10)],
        [("orders", 1, 1, 20), ("orders", 6, 1, 50)],
        [("orders", 7, 1, 5000)],
    ]
    stage = Stage(tmp_path, len(asked))
    stage.broker.step(1)
    for client in range(len(asked)):
        stage.set_filters(client, [("shop", "*", 7, 0, 0, stage.seen, OPEN)])
    for _ in range(600):
        stage.write(0, 1, 1)
    stage.step()
    stage.check()
    for client, filters in enumerate(asked):
        ended = [(*f[:6], stage.seen) for f in stage.models[client].filters]
        stage.set_filters(client, ended + [("shop", *f, stage.seen, OPEN) for f in filters])
    for events in (35, 1, 20, 1030, 3000):
        for number in range(events):
            stage.write(0, (1, 1, 2, 4)[number % 4], 1 + number % 3)
        stage.step()
        stage.check()
        told = stage.arena.client_stats(0)["last_drop"]["limit_oldest"]
        assert told == stage.models[0].queue[-1][0]
        for client, model in enumerate(stage.models[:2]):
            stage.confirm(client, 2**62)
            taken = stage.expand(stage.queue(client).take(7)[1])
            assert taken == model.queue[: len(taken)]
            model.take(taken)
        stage.check()
    stage.start_broker()
    for client, model in enumerate(stage.models):
        stage.broker.set_filters(client, model.filters)
    for client in range(len(asked)):
        stage.drain(client)
    stage.check()


def test_a_broker_refuses_memory_that_cannot_be(tmp_path: Path) -> None:
    stage = Stage(tmp_path, 1)
    stage.broker.step(1)
    stage.set_filters(0, [("shop", "*", 7, 2, 300, stage.seen, OPEN)])
    room = (512).to_bytes(8, "little")
    offset = stage.arena.fixed_size(8, 2, POOL)
    places = [at for at in range(128, offset, 8) if stage.memory[at : at + 8] == room]
    assert places
    for at in places:
        stage.memory[at : at + 8] = (511).to_bytes(8, "little")
    with pytest.raises(QueueError, match="are not a list"):
        stage.start_broker()
    stage.memory[40:48] = (255).to_bytes(8, "little")
    with pytest.raises(QueueError, match="rings of an impossible size"):
        Arena(stage.memory)
