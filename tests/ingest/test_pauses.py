"""When the reader lets the stream collect: for many small packets of a busy source, and nothing else."""

from __future__ import annotations

import pytest

from relay.ingest.pauses import BUSY, LONGEST, PAUSE, Pauses


def pauses(rate: float, seconds: float) -> list[float]:
    """What it says after each of so many transactions a second."""
    told = Pauses(100.0, 5)
    said = []
    for n in range(1, int(rate * seconds) + 1):
        told.update(100.0 + n / rate, 5 + n)
        said.append(told.seconds)
    return said


def test_a_busy_source_is_left_to_collect() -> None:
    said = pauses(5 * BUSY, 0.1)
    assert not said[0], "one transaction says nothing yet"
    assert said[len(said) // 2 :] == pytest.approx([5 * PAUSE] * (len(said) - len(said) // 2))


def test_the_busier_it_is_the_longer_it_collects_up_to_an_end() -> None:
    assert [pauses(rate * BUSY, 0.1)[-1] for rate in (1.1, 3, 50)] == pytest.approx([1.1 * PAUSE, 3 * PAUSE, LONGEST])


def test_below_that_every_transaction_is_fetched_at_once() -> None:
    assert not any(pauses(BUSY * 0.9, 0.5))


def test_after_a_busy_time_there_is_none() -> None:
    told = Pauses(0.0, 0)
    told.update(0.01, BUSY)
    assert told.seconds == LONGEST
    told.update(0.5, BUSY + 1)
    assert told.seconds == 0.0
