"""Fuzzes the parsers written in Python: python -m tests.fuzz [TARGET...]

FUZZ_SECONDS=n for each target (default 60), or FUZZ_COUNT=n inputs; FUZZ_SEED=n (default: random). It begins with the
inputs in tests/fuzz/crashers/TARGET, and writes failing inputs there. scripts/fuzz.sh does the same for the native
parsers.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import traceback
from pathlib import Path

from tests.fuzz.guided import Failure, fuzz
from tests.fuzz.parsers import TARGETS

CRASHERS = Path(__file__).parent / "crashers"


def main(names: list[str]) -> int:
    """Run these targets, by default all. Returns the exit code."""
    seconds, count = float(os.environ.get("FUZZ_SECONDS", "60")), int(os.environ.get("FUZZ_COUNT", "0"))
    seed = int(os.environ.get("FUZZ_SEED", random.randrange(2**32)))
    failed = 0
    for name in names or TARGETS:
        kept = [path.read_bytes() for path in sorted((CRASHERS / name).glob("*"))]
        amount = f"{count}x" if count else f"{seconds:g} s"
        print(f"fuzz: {name}, seed {seed}, {len(kept)} kept inputs, {amount}", flush=True)
        try:
            tally = fuzz(TARGETS[name](), kept, seed, seconds=seconds, count=count)
        except Failure as failure:
            failed = 1
            path = CRASHERS / name / hashlib.sha256(failure.input).hexdigest()[:16]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(failure.input)
            traceback.print_exception(failure.__cause__)
            print(f"fuzz: {name} failed: {failure}; the input is {path}", file=sys.stderr)
        else:
            print(f"{tally.inputs} inputs, {tally.edges} edges, {tally.kept} kept")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
