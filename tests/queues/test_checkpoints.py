"""Checkpoints of clients: when they are due, what they hold, and how a broker goes on from them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from relay._native import Broker, ClientQueue, JournalWriter, QueueError
from tests.support.queue_line import OPEN, Line, drained, new_arena


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
    assert line.broker.checkpoint() is None
    line.arena.flushed = line.writer.flush()
    line.write(1)
    line.broker.step(1 << 30)
    second = line.broker.checkpoint()
    assert second, "although there are always rows that are not on disk"
    assert second[0] == line.arena.flushed
    assert [id for id, _ in second[1]] == [1]
    assert second[1] != first[1]


def test_a_checkpoint_has_the_clients_that_changed(line: Line) -> None:
    slots = [line.client(id)[0] for id in (1, 2, 3)]
    line.broker.set_filters(slots[1], [("shop", "nothing", 7, 0, 0, 1, OPEN)])
    line.broker.set_filters(slots[2], [("shop", "nothing", 7, 0, 0, 1, OPEN)])

    def changed() -> list[int] | None:
        line.broker.step(1 << 30)
        line.arena.flushed = line.writer.flush()
        found = line.broker.checkpoint()
        if found is None:
            return None
        assert found[0] == line.arena.committed
        return [id for id, _ in found[1]]

    assert changed() == [1, 2, 3]
    assert changed() == [1, 2, 3], "until it is stored"
    line.broker.stored()
    assert changed() is None
    line.write(3)
    assert changed() == [1]
    line.broker.set_filters(slots[2], [("shop", "other", 7, 0, 0, 1, OPEN)])
    assert changed() == [1, 3], "nothing is left out that was not stored"
    line.broker.stored()
    ClientQueue(line.arena, slots[0]).take(1)
    assert changed() == [1]
    line.broker.remove_client(slots[0])
    assert changed() is None


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
