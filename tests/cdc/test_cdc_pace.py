"""How a process of the CDC port divides its time among streams, under a clock of the tests."""

from __future__ import annotations

from relay.cdc.pace import NEAR_BYTES, Share, Turns


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Stream:
    """Has so much of the journal before it; a turn takes its time, and is followed by another."""

    def __init__(self, turns: Turns, clock: Clock, lag: int, seconds: float, most: int = 1 << 30) -> None:
        self.taken = 0
        self._turns, self._clock, self._lag, self._seconds, self._most = turns, clock, lag, seconds, most
        turns.add(self)

    def lag(self) -> int:
        return self._lag

    def turn(self) -> None:
        self.taken += 1
        self._clock.now += self._seconds
        if self.taken < self._most:
            self._turns.add(self)


def test_a_stream_that_keeps_up_waits_for_one_turn_of_those_that_do_not() -> None:
    clock = Clock()
    turns = Turns(clock)
    far = [Stream(turns, clock, NEAR_BYTES + 1, 1.0) for _ in range(1000)]
    turns.take(10)
    near = Stream(turns, clock, 0, 0.001, most=1)
    turns.take(1)
    assert near.taken == 1
    assert sum(stream.taken for stream in far) <= 11


def test_those_who_keep_up_and_those_who_do_not_have_half_of_the_time_each() -> None:
    clock = Clock()
    turns = Turns(clock)
    near = [Stream(turns, clock, NEAR_BYTES, 0.01) for _ in range(100)]
    far = [Stream(turns, clock, NEAR_BYTES + 1, 0.05) for _ in range(10)]
    for _ in range(1000):
        turns.take(0.1)
    of_near, of_far = (0.01 * sum(s.taken for s in near), 0.05 * sum(s.taken for s in far))
    assert abs(of_near - of_far) <= 0.05
    for streams in (near, far):  # and all of a kind the same
        assert max(s.taken for s in streams) - min(s.taken for s in streams) <= 1


def test_whoever_is_alone_has_all_of_the_time_and_owes_nothing_for_it() -> None:
    clock = Clock()
    turns = Turns(clock)
    far = Stream(turns, clock, NEAR_BYTES + 1, 1.0)
    turns.take(1000)
    assert far.taken == 1000
    near = Stream(turns, clock, 0, 1.0)
    turns.take(100)
    assert abs(near.taken - 50) <= 1


def test_turns_end_when_nobody_waits() -> None:
    clock = Clock()
    turns = Turns(clock)
    streams = [Stream(turns, clock, lag, 0.0, most=3) for lag in (0, NEAR_BYTES + 1)]
    turns.take(1)
    assert [stream.taken for stream in streams] == [3, 3]
    assert not turns


def test_work_has_its_share_of_the_time_however_long_it_is_kept_waiting() -> None:
    clock, used = Clock(), Clock()
    share = Share(50, clock, used)
    assert share.due()
    with share:
        clock.now += 10  # others had the processor
        used.now += 0.01
    assert share.due()
    with share:
        clock.now += 0.1
        used.now += 0.1
    assert not share.due()
    clock.now += 4.8
    assert not share.due()
    clock.now += 0.2
    assert share.due()
