"""The byte-level fuzzer drives every native parser; a longer run is `make fuzz`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.timeout(600)  # it compiles the core with sanitizers first
def test_no_fuzz_target_fails_on_kept_crashers_and_some_thousand_new_inputs() -> None:
    environment = os.environ | {"FUZZ_COUNT": "2000", "FUZZ_SEED": "1"}
    done = subprocess.run([ROOT / "scripts" / "fuzz.sh"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    targets = {path.stem for path in (ROOT / "tests" / "fuzz").glob("*.cpp")} - {"driver"}
    assert {line.split()[1].rstrip(",") for line in done.stdout.splitlines() if line.startswith("fuzz: ")} == targets
