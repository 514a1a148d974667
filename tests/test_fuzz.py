"""The byte-level fuzzer drives every native parser; a longer run is `make fuzz`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from examples.dbserver import KINDS

ROOT = Path(__file__).parent.parent


@pytest.mark.timeout(600)  # it compiles the core with sanitizers first
def test_no_fuzz_target_fails_on_kept_crashers_and_some_thousand_new_inputs() -> None:
    environment = os.environ | {"FUZZ_COUNT": "2000", "FUZZ_SEED": "1"}
    done = subprocess.run([ROOT / "scripts" / "fuzz.sh"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    targets = {path.stem for path in (ROOT / "tests" / "fuzz").glob("*.cpp")} - {"driver"}
    assert {line.split()[1].rstrip(",") for line in done.stdout.splitlines() if line.startswith("fuzz: ")} == targets


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
