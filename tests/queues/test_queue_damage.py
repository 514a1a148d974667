"""A broker that meets damage stops by name, and loses and repeats nothing."""

from __future__ import annotations

import pytest

from relay.errors import RelayError
from tests.support.queue_line import OPEN, Line, drained, emptied


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
