"""The shared memory as Python sees it: words, processes, fatal errors, clients, limits that do not fit, wakes."""

from __future__ import annotations

import mmap
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from relay._native import Arena, Broker, ClientQueue, JournalReader, JournalWriter, QueueError, Server, Session
from relay.errors import RelayError, StopCode
from relay.protocol import classic

SHAPE = (4, 2, 1 << 20)  # clients, workers, bytes for rings
OPEN = 2**64 - 1
COLUMNS = [["id", 11, 3, 0, False, False, True, "", [], "int"]]


class Line:
    """A journal with one table, an arena and a broker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = JournalWriter(folder / "journal", 1 << 20)
        self.writer.source(4, "binlog.000001", "", "test")
        self.table = self.writer.define(msgspec.msgpack.encode(["shop", "orders", 1, 1, 1, True, COLUMNS]))
        self.arena = new_arena()
        self.arena.attach_writer(self.writer)
        self.allocated: list[tuple[int, int]] = []
        self.broker = Broker(self.arena, folder / "journal", lambda offset, size: self.allocated.append((offset, size)))
        self.broker.step(1)

    def write(self, transactions: int, rows: int = 1) -> None:
        for _ in range(transactions):
            self.writer.rows(self.table, 1, 100, 1, rows, b"\1\1" + (b"\0" + bytes(4)) * rows)
            self.writer.commit(100, 1)

    def update(self) -> None:
        self.writer.rows(self.table, 2, 100, 1, 1, b"\1\1\1" + (b"\0" + bytes(4)) * 2)
        self.writer.commit(100, 1)

    def client(self, id: int, *, discard: int = 0, limit: int = 0) -> tuple[int, ClientQueue]:
        slot = self.broker.add_client(id, f"client {id}")
        self.broker.set_filters(slot, [("shop", "*", 7, discard, limit, self.arena.committed, OPEN)])
        return slot, ClientQueue(self.arena, slot)

    def succeeded(self, *clients: tuple[int, int, int]) -> None:
        """Another broker takes over, as after a kill; slot, discard and limit of each client."""
        self.broker = Broker(self.arena, self.folder / "journal", lambda offset, size: None)
        for slot, discard, limit in clients:
            self.broker.set_filters(slot, [("shop", "*", 7, discard, limit, 1, OPEN)])

    def rows_frames(self) -> list[tuple[int, bytes]]:
        """Positions and payloads of the frames of rows."""
        frames = JournalReader(self.folder / "journal").frames(0, self.arena.committed)
        return [frame for frame in frames if frame[1][1] == 2]

    @contextmanager
    def damaged(self, index: int) -> Iterator[None]:
        """Meanwhile a bit of that frame of rows is another one, which only its CRC tells."""
        position, payload = self.rows_frames()[index]
        with (self.folder / "journal" / f"{0:020d}.seg").open("r+b", buffering=0) as file:
            at = position + 8 + len(payload) - 1
            os.pwrite(file.fileno(), bytes([payload[-1] ^ 1]), at)
            yield
            os.pwrite(file.fileno(), payload[-1:], at)

    def stops(self) -> None:
        """The broker stops by name, however often it is asked."""
        for _ in range(2):
            with pytest.raises(RelayError, match="damaged") as stop:
                self.broker.step(1 << 30)
            assert stop.value.code == StopCode.JOURNAL_CORRUPT


def emptied(queue: ClientQueue) -> int:
    """Takes and confirms what a queue's ring holds from its first row on, as long as the broker adds nothing."""
    rows = 0
    while ranges := queue.take(1000)[1]:
        rows += sum(count for _, _, count in ranges)
        queue.confirm(rows)
    return rows


def drained(line: Line, queue: ClientQueue) -> int:
    """Take and confirm all there is; how many rows, none of them twice."""
    taken: list[tuple[int, int]] = []
    while ranges := queue.take(100)[1]:
        taken += [(frame, first + row) for frame, first, rows in ranges for row in range(rows)]
        queue.confirm(len(taken))
        line.broker.step(1 << 30)
    assert taken == sorted(set(taken))
    return len(taken)


def new_arena() -> Arena:
    return Arena(mmap.mmap(-1, Arena.size(*SHAPE)), *SHAPE)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)


def test_only_memory_of_the_same_shape_fits() -> None:
    memory = mmap.mmap(-1, Arena.size(*SHAPE))
    assert not Arena.fits(memory, *SHAPE)
    Arena(memory, *SHAPE)
    assert Arena.fits(memory, *SHAPE)
    assert not Arena.fits(memory, 5, 2, 1 << 20)
    assert not Arena.fits(memory, 4, 3, 1 << 20)
    assert not Arena.fits(memory, 4, 2, 1 << 21)
    assert not Arena.fits(mmap.mmap(-1, 4096), *SHAPE)


def test_a_client_without_limit_costs_less_than_16_kib() -> None:
    assert Arena.size(1001, 1, 0) - Arena.size(1, 1, 0) < 1000 * 16 * 1024


def test_a_stop_is_told_until_it_is_cleared() -> None:
    arena = new_arena()
    with pytest.raises(QueueError, match="no slot"):
        arena.set_stop("binlog_purged", "text", "hint")
    arena.beat(3, os.getpid())
    assert arena.stop() is None
    arena.set_stop("binlog_purged", "read: é" * 200, "hint")
    told = arena.stop()
    assert told is not None
    assert told["code"] == "binlog_purged"
    assert ("read: é" * 200).startswith(told["text"])
    assert len(told["text"].encode()) in (510, 511)
    arena.clear_stop()
    assert arena.stop() is None


def test_a_process_that_is_started_again_is_not_running_yet() -> None:
    arena = new_arena()
    arena.beat(1, 4711)
    arena.mark_running(1)
    arena.beat(1, 4711)
    assert (arena.running(1), arena.pid(1), arena.restarts(1)) == (True, 4711, 0)
    arena.count_restart(1)
    arena.beat(1, 0)
    assert (arena.running(1), arena.pid(1), arena.restarts(1)) == (False, 0, 1)


def test_state_and_place_of_the_source_are_kept_apart() -> None:
    arena = new_arena()
    arena.source_state = "streaming"
    arena.set_source(host="db", file="b.000007", position=2**40, gtid_set="0-1-5", last_event=7, heard=8.5)
    arena.source_state = "reconnecting"
    assert arena.source_state == "reconnecting"
    assert arena.source() == {
        "host": "db", "file": "b.000007", "position": 2**40, "gtid_set": "0-1-5", "last_event": 7.0, "heard": 8.5,
    }  # fmt: skip


def test_a_drop_newest_limit_takes_room_for_its_ranges_from_the_pool(line: Line) -> None:
    slot, queue = line.client(1, discard=2, limit=10_000)
    assert [size for _, size in line.allocated] == [16384 * 24]
    line.write(12_000)
    line.broker.step(1 << 30)
    stats = line.arena.client_stats(slot)
    assert (stats["waiting"], stats["dropped"]["limit_newest"]) == (10_000, 2_000)
    came = 0
    while came < 10_000:
        first, ranges = queue.take(1000)
        assert first == came + 1
        came += sum(rows for _, _, rows in ranges)
        queue.confirm(came)
        line.broker.step(1)
    line.write(1)
    line.broker.step(1)
    assert queue.peek()[0] == 10_001


@pytest.mark.parametrize(("discard", "lag"), [(1, False), (2, False), (1, True), (2, True)])
def test_rows_that_no_limit_concerns_neither_count_nor_give_way(line: Line, discard: int, lag: bool) -> None:
    """1000 rows that an unlimited filter asked for wait, and then rows of a filter with a limit of 3."""
    slot, queue = line.client(1)
    here = line.arena.committed
    limited = [("shop", "*", 1, 0, 0, 1, OPEN), ("shop", "*", 2, discard, 3, here, OPEN)]
    line.broker.set_filters(slot, limited)
    kept, more = (1000, 5) if lag else (100, 5)
    line.write(kept)
    for _ in range(more):
        line.update()
    line.write(kept)
    line.broker.step(1 << 30)
    stats = line.arena.client_stats(slot)
    reason = "limit_oldest" if discard == 1 else "limit_newest"
    assert (stats["waiting"], stats["lagging"]) == (2 * kept + 3, lag)
    assert stats["dropped"][reason] == sum(stats["dropped"].values()) == 2
    frames = [position for position, _ in line.rows_frames()]
    limited_frames = frames[kept : kept + 5]
    lost = limited_frames[:2] if discard == 1 else limited_frames[3:]
    came: list[int] = []
    while len(came) < 2 * kept + 3:
        first, ranges = queue.take(70)
        assert ranges, f"{len(came)} rows came"
        came += [frame for frame, _, _ in ranges]
        queue.confirm(first - 1 + len(ranges))
        line.broker.step(1)
    assert came == [frame for frame in frames if frame not in lost]
    assert line.arena.client_stats(slot)["waiting"] == 0


@pytest.mark.parametrize("waiting", [50, 1000])  # in the ring, and longer than it
def test_a_row_that_finds_its_limit_reached_displaces_one_however_many_wait(line: Line, waiting: int) -> None:
    slot, queue = line.client(1)
    here = line.arena.committed
    inserts, updates = ("shop", "*", 1, 1, waiting, here, OPEN), ("shop", "*", 2, 1, 3, here, OPEN)
    line.broker.set_filters(slot, [inserts, updates])
    line.write(waiting)
    line.broker.step(1 << 30)

    def displaced() -> int:
        line.broker.step(1 << 30)
        stats = line.arena.client_stats(slot)
        assert stats["waiting"] == waiting
        assert stats["dropped"]["limit_oldest"] == sum(stats["dropped"].values())
        return int(stats["dropped"]["limit_oldest"])

    line.update()
    assert displaced() == 1
    for _ in range(4):
        line.update()
    assert displaced() == 5
    here = line.arena.committed
    lower = ("shop", "*", 1, 1, 10, here, OPEN)
    line.broker.set_filters(slot, [(*inserts[:6], here), (*updates[:6], here), lower])
    assert displaced() == 5
    line.write(1, rows=7)
    line.write(30)
    assert displaced() == 42
    frames = [position for position, _ in line.rows_frames()]
    came: list[int] = []
    while ranges := queue.take(100)[1]:
        came += [frame for frame, _, rows in ranges for _ in range(rows)]
        queue.confirm(2**62)
        line.broker.step(1 << 30)
    assert len(came) == waiting and sorted(set(came)) == [frame for frame in frames if frame >= came[0]]
    line.write(15)
    line.broker.step(1 << 30)
    assert line.arena.client_stats(slot)["waiting"] == 10


def test_a_limit_that_the_pool_cannot_hold_is_refused_and_changes_nothing(line: Line) -> None:
    slot, _ = line.client(1, discard=2, limit=10)
    line.client(2, discard=2, limit=10_000)
    for limit in (40_000, 20_000):  # larger than the pool; larger than what is left of it
        with pytest.raises(QueueError, match="client 'client 1'"):
            line.broker.set_filters(slot, [("shop", "*", 7, 2, limit, 1, OPEN)])
    line.write(20)
    line.broker.step(1 << 30)
    assert line.arena.client_stats(slot)["waiting"] == 10


def test_memory_that_cannot_be_had_is_told_and_changes_nothing(tmp_path: Path) -> None:
    line = Line(tmp_path)

    def refuse(offset: int, size: int) -> None:
        raise OSError(28, "no space")

    slot, _ = line.client(1, discard=2, limit=10)
    line.broker = Broker(line.arena, tmp_path / "journal", refuse)
    line.broker.set_filters(slot, [("shop", "*", 7, 2, 10, 1, OPEN)])
    with pytest.raises(OSError):
        line.broker.set_filters(slot, [("shop", "*", 7, 2, 10_000, 1, OPEN)])
    line.write(20)
    line.broker.step(1 << 30)
    assert line.arena.client_stats(slot)["waiting"] == 10


def test_a_drop_oldest_limit_of_any_size_needs_no_memory(line: Line) -> None:
    slot, queue = line.client(1, discard=1, limit=1_000_000)
    line.write(1_500)
    line.broker.step(1 << 30)
    assert line.allocated == []
    assert line.arena.client_stats(slot)["waiting"] == 1_500
    assert drained(line, queue) == 1_500


def test_a_block_has_another_client_only_after_its_server_has_released_it(line: Line) -> None:
    slot, _ = line.client(1)
    line.write(1, rows=5)
    line.broker.step(1 << 30)
    ours, theirs = socket.socketpair()
    server = Server(line.arena, str(line.folder / "journal"))
    session = Session(server, 1 << 16)
    session.identify(1, slot, 7, 0, "192.0.2.1")
    theirs.sendall(classic.encode_request(classic.Command.POLL, client_id=1, token=7))
    session.exchange(ours.fileno())
    stats = line.arena.client_stats(slot)
    assert (stats["connected"], stats["address"], stats["served"], stats["max_waiting"]) == (True, "192.0.2.1", 1, 5)
    assert stats["last_seen"] > 0
    assert len(line.arena.client_deliveries(slot)) == 1
    line.broker.remove_client(slot)
    assert line.arena.client_slots() == []
    assert [line.client(id)[0] for id in (2, 3, 4)] == [1, 2, 3]
    server.release_forgotten(0)  # another worker's
    with pytest.raises(QueueError, match="try again"):
        line.client(5)
    server.release_forgotten(1)
    assert line.client(5)[0] == slot
    stats = line.arena.client_stats(slot)
    assert (stats["connected"], stats["address"], stats["served"], stats["max_waiting"]) == (False, "", 0, 0)
    assert stats["last_seen"] == 0
    assert line.arena.client_deliveries(slot) == []
    ours.close()
    theirs.close()


def test_another_generation_of_the_journal_empties_the_arena(line: Line, tmp_path: Path) -> None:
    line.client(1)
    line.write(3)
    line.broker.step(1 << 30)
    Broker(line.arena, line.folder / "journal", print)
    assert line.arena.client_slots() == [0]
    other = JournalWriter(tmp_path / "other", 1 << 20)
    other.source(4, "binlog.000001", "", "test")
    Broker(line.arena, tmp_path / "other", print)
    assert line.arena.client_slots() == []
    assert line.arena.broker_scan == 0


def test_a_checkpoint_waits_for_the_journal_to_be_on_disk(line: Line) -> None:
    line.client(1)
    line.write(1)
    line.broker.step(1 << 30)
    assert line.broker.checkpoint() is None
    line.arena.flushed = line.writer.flush()
    first = line.broker.checkpoint()
    assert first
    line.broker.stored()
    line.write(1)
    line.broker.step(1 << 30)
    assert line.broker.checkpoint() == (first[0], []), "as of when the first one was stored"
    line.broker.stored()
    assert line.broker.checkpoint() is None
    line.arena.flushed = line.writer.flush()
    second = line.broker.checkpoint()
    assert second
    assert second[0] == line.arena.committed
    assert [id for id, _ in second[1]] == [1]
    assert second[1] != first[1]


def test_a_checkpoint_has_the_clients_that_changed(line: Line) -> None:
    slots = [line.client(id)[0] for id in (1, 2, 3)]
    line.broker.set_filters(slots[1], [("shop", "nothing", 7, 0, 0, 1, OPEN)])
    line.broker.set_filters(slots[2], [("shop", "nothing", 7, 0, 0, 1, OPEN)])

    def changed() -> list[int]:
        line.broker.step(1 << 30)
        line.arena.flushed = line.writer.flush()
        found = line.broker.checkpoint()
        assert found
        assert found[0] == line.arena.committed
        return [id for id, _ in found[1]]

    assert changed() == [1, 2, 3]
    assert changed() == [1, 2, 3], "until it is stored"
    line.broker.stored()
    assert changed() == []
    line.write(3)
    assert changed() == [1]
    line.broker.set_filters(slots[2], [("shop", "other", 7, 0, 0, 1, OPEN)])
    assert changed() == [1, 3], "nothing is left out that was not stored"
    line.broker.stored()
    ClientQueue(line.arena, slots[0]).take(1)
    assert changed() == [1]
    line.broker.remove_client(slots[0])
    assert changed() == []


def test_a_client_that_did_not_change_is_restored_up_to_the_last_checkpoint(line: Line) -> None:
    line.client(1)
    line.arena.flushed = line.writer.flush()
    found = line.broker.checkpoint()
    assert found
    line.write(2)
    line.arena = new_arena()
    line.arena.attach_writer(line.writer)
    line.arena.flushed = here = line.writer.flush()
    line.broker = Broker(line.arena, line.folder / "journal", print)
    assert line.broker.add_client(1, "client 1", [("shop", "*", 7, 0, 0, 1, OPEN)], found[1][0][1], here) == 0
    line.broker.step(1 << 30)
    assert line.arena.client_stats(0)["waiting"] == 0, "what lies before the position is decided"
    line.write(1)
    line.broker.step(1 << 30)
    assert line.arena.client_stats(0)["waiting"] == 1


def old_checkpoint(format: int, broker: dict[str, int], server: dict[str, int], *ranges: list[int]) -> bytes:
    """As a relay before this one packed it: frame, first row and rows of each range, in flight and then waiting."""
    names = "scan matched queued tail offset slots epoch lag lag_number limit cut flush newest at at at at most"
    words = [broker.get(name, 0) for name in names.split()]
    names = "lo hi base ranges hint confirmed limit cut flush undecodable at served most repeats skipped skipped_at"
    words += [server.get(name, 0) for name in names.split()[: 13 if format == 2 else 16]]
    packed = [word for each in ranges for frame in each for word in (frame, 1 << 32)]
    return struct.pack(f"<{3 + len(words) + len(packed)}Q", format, *map(len, ranges), *words, *packed)


@pytest.mark.parametrize("limit", [0, 1000])
def test_more_in_flight_than_there_is_room_for_waits_once_more(line: Line, limit: int) -> None:
    """As a relay with a larger area left it behind: 300 ranges in flight, 100 that wait."""
    line.write(400)
    frames = [position for position, _ in line.rows_frames()]
    broker = {"scan": line.arena.committed, "matched": 400, "queued": 400}
    if not limit:
        broker |= {"lag": frames[300], "lag_number": 300}
    server = {"hi": 300, "ranges": 300, "served": 300}
    packed = old_checkpoint(2, broker, server, frames[:300], frames[300:] if limit else [])
    slot = line.broker.add_client(1, "client 1", [("shop", "*", 7, 0, limit, 1, OPEN)], packed)
    line.broker.step(1 << 30)
    stats = line.arena.client_stats(slot)
    assert (stats["in_flight"], stats["waiting"], stats["matched"]) == (192, 208, 400)
    queue = ClientQueue(line.arena, slot)
    came = queue.in_flight()[1]
    while len(came) < 400:
        queue.confirm(len(came))
        line.broker.step(1 << 30)
        more = queue.take(100)[1]
        assert more, f"{len(came)} rows came"
        came += more
    assert came == [(frame, 0, 1) for frame in frames]


def test_a_queue_that_a_relay_before_this_one_left_goes_on(line: Line) -> None:
    """Inserts without a limit, updates with drop-newest: two in flight, six in the ring, four behind it."""
    for number in range(12):
        kind = 1 + number % 2
        line.writer.rows(line.table, kind, 100, 1, 1, b"\1\1\1"[: 1 + kind] + (b"\0" + bytes(4)) * kind)
        line.writer.commit(100, 1)
    frames = [position for position, _ in line.rows_frames()]
    broker = {"scan": line.arena.committed, "matched": 12, "queued": 10, "lag": frames[8], "lag_number": 8, "newest": 2}
    server = {"hi": 2, "ranges": 2, "confirmed": 0, "served": 2}
    packed = old_checkpoint(3, broker, server, frames[:2], frames[2:8])
    filters = [("shop", "*", 1, 0, 0, 1, OPEN), ("shop", "*", 2, 2, 4, 1, OPEN)]
    slot = line.broker.add_client(1, "client 1", filters, packed)
    line.broker.step(1 << 30)
    stats = line.arena.client_stats(slot)
    assert (stats["in_flight"], stats["waiting"], stats["matched"]) == (2, 8, 12)
    queue = ClientQueue(line.arena, slot)
    came = [frame for frame, _, _ in queue.in_flight()[1]]
    queue.confirm(2)
    assert queue.peek()[0] == 3
    came += [frame for frame, _, _ in queue.take(100)[1]]
    assert came == [*frames[:8], frames[8], frames[10]]


def test_rows_of_both_kinds_of_filters_that_a_relay_before_this_one_queued_come(line: Line) -> None:
    """It queued all of them, whatever the limits, and did not list which; the inserts among them, it listed."""
    filters = [("shop", "*", 1, 2, 30, 1, OPEN), ("shop", "*", 2, 1, 30, 1, OPEN), ("shop", "*", 2, 2, 4, 1, OPEN)]
    slot = line.broker.add_client(1, "client 1", filters)
    for _ in range(6):
        line.write(1)
        line.update()
    line.broker.step(1 << 30)
    line.arena.flushed = line.writer.flush()
    found = line.broker.checkpoint()
    assert found
    [(_, packed)] = found[1]
    *head, listed = struct.unpack("<3Q", packed[:24])
    assert (*head, listed) == (5, 0, 12)
    entries = [packed[at : at + 24] for at in range(len(packed) - 24 * listed, len(packed), 24)]
    older = struct.pack("<3Q", 4, 0, 6) + packed[24 : -24 * listed] + b"".join(entries[::2])
    line.arena = new_arena()
    line.arena.attach_writer(line.writer)
    line.broker = Broker(line.arena, line.folder / "journal", print)
    lower = [*filters[:1], *((*each[:4], 2, *each[5:]) for each in filters[1:])]
    slot = line.broker.add_client(1, "client 1", lower, older, found[0])
    line.broker.step(1 << 30)
    assert line.arena.client_stats(slot)["waiting"] == 12
    line.update()  # finds the limit reached
    line.broker.step(1 << 30)
    assert drained(line, ClientQueue(line.arena, slot)) == 12


@pytest.mark.parametrize("damage", [b"x", b"\1" + bytes(40)])
def test_a_damaged_checkpoint_is_refused(line: Line, damage: bytes) -> None:
    with pytest.raises(QueueError, match="checkpoint"):
        line.broker.add_client(1, "client 1", (), damage)
    assert line.arena.client_slots() == []


def test_only_servers_that_wait_for_rows_are_woken(line: Line) -> None:
    queues = [line.client(id)[1] for id in (1, 2, 3)]
    assert not queues[0].wait()
    assert not queues[2].wait()
    line.write(1)
    assert line.broker.step(1 << 30) == [1]  # clients 1 and 3 belong to server 1
    queues[0].stop_waiting()
    queues[2].stop_waiting()
    line.write(1)
    assert line.broker.step(1 << 30) == []
    assert queues[1].wait()


def test_a_broker_that_sleeps_is_told_when_a_ring_is_half_empty(line: Line) -> None:
    slot, queue = line.client(1)
    line.write(350)
    line.broker.step(1 << 30)
    assert line.arena.client_stats(slot)["lagging"]
    assert not line.broker.pending()
    line.arena.broker_waiting = True
    told = []
    for n in range(1, 300):
        queue.take(1)
        queue.confirm(n)
        told.append(queue.broker_must_wake())
    assert told.index(True) == 127
    assert line.broker.pending()
    line.broker.step(1 << 30)
    assert not line.arena.client_stats(slot)["lagging"]


def test_rows_go_from_a_broker_process_to_this_one(line: Line) -> None:
    """A forked broker wakes this process; its death leaves what it queued."""
    slot, queue = line.client(1)
    bell = os.eventfd(0)
    queue.wait()
    line.write(5, rows=3)
    pid = os.fork()
    if pid == 0:
        for _ in line.broker.step(1 << 30):
            os.eventfd_write(bell, 1)
        os._exit(0)
    assert select.select([bell], [], [], 20)[0]
    os.waitpid(pid, 0)
    assert sum(rows for _, _, rows in queue.peek()[1]) == 15
    assert line.arena.client_stats(slot)["matched"] == 15


def test_a_damaged_frame_stops_the_broker_and_what_stands_before_it_is_queued_once(line: Line) -> None:
    (plain, plain_queue), (limited, limited_queue) = line.client(1), line.client(3, discard=2, limit=8)
    assert not plain_queue.wait()
    line.write(10)
    with line.damaged(5):
        assert line.broker.step(1 << 30) == [1], "a server that waits is woken first"
        plain_queue.stop_waiting()
        line.stops()
        for slot in (plain, limited):
            stats = line.arena.client_stats(slot)
            assert (stats["matched"], stats["waiting"]) == (5, 5)
    line.broker.step(1 << 30)
    assert line.arena.client_stats(limited)["dropped"]["limit_newest"] == 2
    assert drained(line, plain_queue) == 10 and drained(line, limited_queue) == 8


def test_damage_among_rows_that_no_ring_holds_yet_stops_the_broker_and_loses_nothing(line: Line) -> None:
    """Others have all that was decided before."""
    (lags, slow), (level, quick) = line.client(1), line.client(2)
    line.write(700)
    line.broker.step(1 << 30)
    assert drained(line, quick) == 700 and line.arena.client_stats(lags)["lagging"]
    line.succeeded((lags, 0, 0), (level, 0, 0))
    ring = emptied(slow)
    with line.damaged(ring + 50):
        line.write(1)
        line.stops()
        assert sum(rows for _, _, rows in quick.take(10)[1]) == 1
        assert sum(rows for _, _, rows in slow.take(700)[1]) == 50
        slow.confirm(ring + 50)
        line.stops()
        assert slow.take(700)[1] == []
    line.broker.step(1 << 30)
    left = 0
    while ranges := slow.take(100)[1]:
        left += sum(rows for _, _, rows in ranges)
        slow.confirm(ring + 50 + left)
        line.broker.step(1 << 30)
    stats = line.arena.client_stats(lags)
    assert (left, stats["matched"], stats["waiting"], stats["confirmed"]) == (701 - ring - 50, 701, 0, 701)


def test_what_fails_while_a_frame_is_decided_is_decided_once_for_the_clients_before(line: Line) -> None:
    """A queue that drops its newest rows is filled first, from frames that may be damaged."""
    (before, early), (newest, late) = line.client(1), line.client(2)
    line.write(700)
    line.broker.step(1 << 30)
    assert drained(line, early) == 700 and line.arena.client_stats(newest)["lagging"]
    line.succeeded((before, 0, 0))
    here = line.arena.committed
    line.broker.set_filters(newest, [("shop", "*", 7, 0, 0, 1, here), ("shop", "*", 7, 2, 100, here, OPEN)])
    ring = emptied(late)
    line.write(3)
    with line.damaged(ring + 50):
        line.stops()
    line.broker.step(1 << 30)
    assert [line.arena.client_stats(slot)["matched"] for slot in (before, newest)] == [703, 703]
    assert line.arena.client_stats(before)["waiting"] == 3


def test_a_seek_that_meets_damage_is_refused_and_leaves_an_empty_queue(line: Line) -> None:
    slot, queue = line.client(1)
    line.write(10)
    line.broker.step(1 << 30)
    line.succeeded((slot, 0, 0))
    with line.damaged(5), pytest.raises(RelayError, match="damaged"):
        line.broker.seek(slot, line.broker.oldest(slot))
    stats = line.arena.client_stats(slot)
    assert (stats["matched"], stats["waiting"], stats["dropped"]["flush"]) == (15, 0, 15)
    line.write(1)
    line.broker.step(1 << 30)
    assert sum(rows for _, _, rows in queue.take(10)[1]) == 1


def test_the_module_starts_no_thread() -> None:
    program = "import relay._native, os; print(len(os.listdir('/proc/self/task')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
