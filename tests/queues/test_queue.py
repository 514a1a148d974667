"""The shared memory as Python sees it: words, processes, fatal errors, clients, limits that do not fit, wakes."""

from __future__ import annotations

import mmap
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from relay._native import Arena, Broker, QueueError, Server, Session
from relay.protocol import classic
from tests.support.queue_line import OPEN, SHAPE, Line, drained, new_arena


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


def test_the_module_starts_no_thread() -> None:
    program = "import relay._native, os; print(len(os.listdir('/proc/self/task')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
