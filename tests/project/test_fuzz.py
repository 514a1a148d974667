"""The byte-level fuzzers drive every parser, native or not; a longer run is `make fuzz`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from examples.dbserver import KINDS
from tests.fuzz.guided import Failure, Target, fuzz
from tests.fuzz.parsers import TARGETS
from tests.support import ROOT


@pytest.mark.timeout(120)
def test_no_python_parser_fails_on_kept_crashers_and_some_new_inputs() -> None:
    environment = os.environ | {"FUZZ_COUNT": "200", "FUZZ_SEED": "1"}
    command = [sys.executable, "-m", "tests.fuzz"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert [line.split()[1].rstrip(",") for line in done.stdout.splitlines() if line.startswith("fuzz: ")] == [*TARGETS]


def test_kept_inputs_belong_to_a_target() -> None:
    folders = {path.name for path in (ROOT / "tests" / "fuzz" / "crashers").iterdir()}
    assert folders <= {path.stem for path in (ROOT / "tests" / "fuzz").glob("*.cpp")} | {*TARGETS}


def _maze(content: bytes) -> None:
    """A way that no chance finds, of steps that each are found."""
    for found, wanted in zip(content.ljust(3), b"maz", strict=False):
        if found != wanted:
            return
    raise ZeroDivisionError


def test_the_python_driver_is_led_by_what_it_reaches() -> None:
    target = Target(_maze, [b"...."], (__name__,))
    with pytest.raises(Failure) as found:
        fuzz(target, [], 1, count=200_000)
    assert found.value.input.startswith(b"maz") and isinstance(found.value.__cause__, ZeroDivisionError)
    with pytest.raises(Failure):
        fuzz(target, [found.value.input], 2, count=1)


def _endless(content: bytes) -> None:
    try:
        while content:
            pass
    except Exception:  # what swallows everything does not swallow the end of patience
        return


def test_an_input_that_takes_for_ever_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.guided.PATIENCE", 1)
    with pytest.raises(Failure, match="more than 1 s"):
        fuzz(Target(_endless, [b"x"], ()), [], 1, count=1)


def test_recorded_seeds_are_whole_and_small() -> None:
    packs = sorted((ROOT / "tests" / "fuzz" / "seeds").rglob("*.pack"))
    assert {(path.parent.name, path.stem) for path in packs} >= {
        (target, server) for target in ("ingest", "rows", "definitions") for server in KINDS
    }
    for pack in packs:
        data, at = pack.read_bytes(), 0
        while at < len(data):
            at += 4 + int.from_bytes(data[at : at + 4], "little")
        assert at == len(data) > 0, f"{pack} is cut short"
    assert sum(pack.stat().st_size for pack in packs) < 2_000_000
