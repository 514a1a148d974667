"""The journal keeps what it must keep, and what clients need, up to its cap."""

import mmap
from pathlib import Path
from typing import NamedTuple

import pytest

from relay._native import Arena
from relay.base.log import logger
from relay.journal import maintenance
from relay.journal.retention import Cut, Limits, decide
from tests.support.journal_builder import Made
from tests.support.waiting import until

NOW = 1_000_000.0


class File(NamedTuple):
    base: int
    end: int
    modified: float


def files(count: int, age: float = 0) -> list[File]:
    """Files of 100 bytes, the last one changed just now, the others `age` seconds before."""
    return [File(n * 100, n * 100 + 100, NOW if n == count - 1 else NOW - age) for n in range(count)]


NOBODY = 2**64 - 1  # exports


def test_nothing_goes_before_its_age_or_below_its_size() -> None:
    assert decide(files(5, age=10), 500, NOBODY, NOW, Limits(100, 60, 10_000)).delete_before == 0
    assert decide(files(5, age=99), 500, NOBODY, NOW, Limits(1000, 60, 10_000)).delete_before == 0


def test_what_is_old_and_beyond_its_size_goes() -> None:
    assert decide(files(5, age=99), 500, NOBODY, NOW, Limits(300, 60, 10_000)) == Cut(200, 0, False)


def test_what_a_client_needs_stays() -> None:
    assert decide(files(5, age=99), 150, NOBODY, NOW, Limits(100, 60, 10_000)) == Cut(100, 0, False)


def test_the_cap_takes_what_nobody_needs_whatever_its_age() -> None:
    assert decide(files(5), 500, NOBODY, NOW, Limits(10_000, 60, 300)).delete_before == 200


def test_the_cap_asks_before_it_takes_from_a_client() -> None:
    cut = decide(files(5), 100, NOBODY, NOW, Limits(100, 60, 350))
    assert (cut.delete_before, cut.request) == (100, 200)
    assert cut.near


def test_all_that_is_beyond_the_cap_is_asked_for_at_once() -> None:
    assert decide(files(9), 100, NOBODY, NOW, Limits(100, 60, 350)) == Cut(100, 600, True)
    assert decide(files(9), 0, NOBODY, NOW, Limits(100, 60, 1)) == Cut(0, 800, True)


def test_that_the_cap_is_near_is_announced_only_if_somebody_loses() -> None:
    assert decide(files(5), 50, NOBODY, NOW, Limits(100, 60, 520)).near
    assert not decide(files(5), 450, NOBODY, NOW, Limits(100, 60, 520)).near


def test_the_file_that_is_written_never_goes() -> None:
    assert decide(files(1, age=99), 100, NOBODY, NOW, Limits(0, 0, 1)) == Cut(0, 0, False)
    assert decide([], 0, NOBODY, NOW, Limits(0, 0, 1)) == Cut(0, 0, False)


def test_what_the_lake_still_needs_is_kept_until_the_cap_is_reached() -> None:
    assert decide(files(5, age=99), 500, 150, NOW, Limits(100, 60, 10_000)) == Cut(100, 0, False)
    assert decide(files(5, age=99), 500, 0, NOW, Limits(100, 60, 10_000)).delete_before == 0
    assert decide(files(5), 500, 50, NOW, Limits(10_000, 60, 300)) == Cut(200, 0, True)
    assert decide(files(5), 500, 50, NOW, Limits(100, 60, 520)).near


def test_for_the_cap_clients_are_asked_also_where_the_lake_needs_it() -> None:
    assert decide(files(5), 100, 0, NOW, Limits(100, 60, 350)) == Cut(100, 200, True)


@pytest.fixture
def arena(monkeypatch: pytest.MonkeyPatch) -> Arena:
    monkeypatch.setattr(maintenance, "SECONDS", 0.01)
    shape = (4, 1, 0)
    return Arena(mmap.mmap(-1, Arena.size(*shape)), *shape)


@pytest.fixture
def made(tmp_path: Path, arena: Arena) -> Made:
    """A journal of several segments that no client needs."""
    made = Made(tmp_path)
    for number in range(5000):
        made.inserted(number)
    assert len(made.writer.segments()) > 3
    arena.needed = made.writer.committed()
    return made


def keeper(made: Made, arena: Arena) -> maintenance.Maintenance:
    """Maintenance that keeps nothing for its age or size."""
    return maintenance.Maintenance(made.writer, arena, Limits(0, -3600, 1 << 40), logger("reader"))


def dropped(made: Made, first: int) -> bool:
    until(lambda: made.writer.first() >= first, pause=0.01)
    return made.writer.first() == first


@pytest.mark.parametrize("word", ["exported", "logged"])
def test_the_keeper_waits_for_the_export_and_for_the_log(made: Made, arena: Arena, word: str) -> None:
    assert arena.exported == arena.logged == NOBODY
    bases = [segment.base for segment in made.writer.segments()]
    setattr(arena, word, bases[1] + 1)
    with keeper(made, arena):
        assert dropped(made, bases[1])
        setattr(arena, word, bases[3])
        assert dropped(made, bases[3])
        setattr(arena, word, NOBODY)
        assert dropped(made, bases[-1])


def test_the_keeper_deletes_only_what_is_counted(made: Made, arena: Arena) -> None:
    bases = [segment.base for segment in made.writer.segments()]
    kept = keeper(made, arena)
    kept.uncounted = lambda: bases[2] - 1
    with kept:
        assert dropped(made, bases[1])
        kept.uncounted = lambda: bases[2]
        assert dropped(made, bases[2])
        kept.uncounted = lambda: maintenance.ALL_COUNTED
        assert dropped(made, bases[-1])
