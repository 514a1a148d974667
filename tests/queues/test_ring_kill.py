"""The client queue survives a kill between any two of its stores, and this test notices every known defect."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.queues.ring_mutants import MUTANTS, compile_kill_test
from tests.support.built_once import built_once
from tests.support.chance import seeds
from tests.support.waiting import patience

FAST = ("30", "30")  # rounds, passages
LONG = ("600", "120")


def run(program: Path, seed: int, extent: tuple[str, str], mutant: int = 0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, str(seed), *extent, str(mutant)], capture_output=True, text=True, check=False, timeout=patience(900)
    )


@pytest.fixture(scope="module")
def mutants() -> Path:
    return built_once("mutants", lambda folder: compile_kill_test(folder, "-O1", mutants=True))


def test_queues_survive_kills_at_every_store(mutants: Path) -> None:
    done = run(mutants, 1, FAST)
    assert done.returncode == 0, done.stderr
    assert "all right" in done.stdout


@pytest.mark.parametrize("number", range(1, len(MUTANTS) + 1), ids=[m.name.replace(" ", "_") for m in MUTANTS])
def test_a_broken_queue_is_noticed(mutants: Path, number: int) -> None:
    for seed in range(1, 7):  # a race that the schedule of one run does not meet, another's does
        done = run(mutants, seed, FAST, number)
        if done.returncode == 1:
            break
    assert done.returncode == 1, f"not noticed: {MUTANTS[number - 1].name}\n{done.stdout}"
    assert "ring_kill: " in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", seeds(4, 2))
def test_queues_survive_thousands_of_kills(tmp_path: Path, seed: int) -> None:
    done = run(compile_kill_test(tmp_path, "-O2"), seed, LONG)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_kills_upset_no_sanitizer(tmp_path: Path) -> None:
    flags = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    done = run(compile_kill_test(tmp_path, *flags), 1, ("60", "40"))
    assert done.returncode == 0, done.stderr
