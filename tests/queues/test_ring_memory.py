"""The client queue is correct on a weak memory model, and the check notices each missing fence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.queues.ring_memory import FENCE, check, check_long, compile_check, long_scenarios, mutants, sources
from tests.queues.ring_mutants import NATIVE
from tests.support.built_once import built_once
from tests.support.chance import seeds


@pytest.fixture(scope="module")
def program() -> Path:
    return built_once("ring_memory", compile_check)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", long_scenarios())
def test_the_queue_survives_each_death_with_each_old_load(program: Path, scenario: str) -> None:
    is_right, told = check_long(program, scenario)
    assert is_right, told
    assert told.startswith(scenario) and "1 old loads, 1 deaths" in told


def test_every_execution_of_the_queue_is_right(program: Path) -> None:
    is_right, told = check(program)
    assert is_right, told
    assert "all right" in told and told.count("1 old loads, 1 deaths") == 2


@pytest.mark.parametrize("number", range(1, len(mutants()) + 1), ids=[m.replace(" ", "_") for m in mutants()])
def test_a_weaker_queue_is_noticed(program: Path, number: int) -> None:
    is_unnoticed, told = check(program, number)
    assert not is_unnoticed, told


def test_no_fence_and_no_order_escapes_the_check() -> None:
    seam = NATIVE / "base" / "words.hpp"
    for path in sources():
        text = path.read_text()
        if path != seam:
            assert not re.search(r"std::atomic|__atomic|__sync_|thread_fence", text), path.name
            assert "memory_order" not in re.sub(FENCE, "", text), path.name
    assert seam.read_text().count("std::atomic<uint64_t>") == 2
    assert seam.read_text().count("thread_fence") == 1


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", seeds(4, 2))
def test_many_executions_of_the_queue_are_right(program: Path, seed: int) -> None:
    is_right, told = check(program, executions=100_000, seed=seed)
    assert is_right, told
