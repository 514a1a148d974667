"""When the reader lets the stream collect: a busy source's many small sendings, and nothing else."""

from __future__ import annotations

import pytest

from relay.binlog.pauses import BUSY, LONGEST, PAUSE, Pauses

SMALL, MUCH = 500, 1 << 20


def pauses(rate: float, seconds: float, received: int = SMALL, transactions: int = 1) -> list[float]:
    """What it says of receives that come `rate` times a second, so many transactions each."""
    told = Pauses(100.0, 5)
    count = int(rate * seconds)
    return [told.after(100.0 + (n + 1) / rate, received, 5 + (n + 1) * transactions) for n in range(count)]


def test_a_busy_source_is_left_to_collect() -> None:
    said = pauses(5 * BUSY, 0.1)
    assert not said[0], "one receive says nothing yet"
    assert said[len(said) // 2 :] == pytest.approx([5 * PAUSE] * (len(said) - len(said) // 2))


def test_the_busier_it_is_the_longer_it_collects_up_to_an_end() -> None:
    assert [pauses(rate * BUSY, 0.1)[-1] for rate in (1.1, 3, 50)] == pytest.approx([1.1 * PAUSE, 3 * PAUSE, LONGEST])


def test_it_is_busy_by_its_transactions_however_few_receives_they_come_in() -> None:
    assert pauses(100, 0.1, transactions=BUSY // 50)[-1] == pytest.approx(2 * PAUSE)


def test_below_that_every_transaction_is_fetched_at_once() -> None:
    assert not any(pauses(BUSY * 0.9, 0.5))


def test_a_source_that_sends_much_at_a_time_is_not_held_up() -> None:
    assert not any(pauses(5 * BUSY, 0.1, received=MUCH))


def test_after_a_busy_time_the_first_to_come_is_followed_by_no_pause() -> None:
    told = Pauses(0.0, 0)
    assert told.after(0.01, SMALL, BUSY) == LONGEST
    assert told.after(0.5, SMALL, BUSY + 1) == 0.0
