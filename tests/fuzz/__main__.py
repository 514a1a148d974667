"""Fuzzes the parsers written in Python: python -m tests.fuzz [TARGET...]

FUZZ_SECONDS=n for each target (default 60), or FUZZ_COUNT=n inputs; FUZZ_SEED=n (default: random). It begins with the
inputs in tests/fuzz/crashers/TARGET, and keeps failing inputs there. It goes on behind a target that fails, and fails
at the end. scripts/fuzz.sh does the same for the native parsers.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import random
import signal
import sys
import traceback
from pathlib import Path
from typing import Final

from tests.fuzz.guided import LONGEST, Failure, fuzz
from tests.fuzz.parsers import TARGETS

CRASHERS = Path(__file__).parent / "crashers"
_SIZE: Final = 8  # bytes of the size before an input


def main(names: list[str]) -> int:
    """Run these targets, by default all. Returns the exit code."""
    if unknown := [name for name in names if name not in TARGETS]:
        print(f"fuzz: no target {', '.join(unknown)}; there are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    seconds, count = float(os.environ.get("FUZZ_SECONDS", "60")), int(os.environ.get("FUZZ_COUNT", "0"))
    seed = int(os.environ.get("FUZZ_SEED", random.randrange(2**32)))
    failed = []
    for name in names or TARGETS:
        kept = [path.read_bytes() for path in sorted((CRASHERS / name).glob("*"))]
        amount = f"{count}x" if count else f"{seconds:g} s"
        print(f"fuzz: {name}, seed {seed}, {len(kept)} kept inputs, {amount}", flush=True)
        with mmap.mmap(-1, _SIZE + LONGEST) as under_way:  # shared with the child
            how = _run(name, kept, seed, seconds, count, under_way)
            if how:
                failed.append(name)
                size = int.from_bytes(under_way[:_SIZE])
                path = _keep(name, under_way[_SIZE : _SIZE + size])
                print(f"fuzz: {name} {how}; the input is {path}", file=sys.stderr, flush=True)
    if failed:
        print(f"fuzz: failed: {' '.join(failed)}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _run(name: str, kept: list[bytes], seed: int, seconds: float, count: int, under_way: mmap.mmap) -> str:
    """Run a target in a child, since it may kill its process. Returns how it failed, "" if it did not."""

    def begins(content: bytes) -> None:
        under_way[: _SIZE + len(content)] = len(content).to_bytes(_SIZE) + content

    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return f"died of {signal.Signals(-code).name}" if code < 0 else "failed" if code else ""
    code = 1
    try:
        tally = fuzz(TARGETS[name](), kept, seed, seconds=seconds, count=count, begins=begins)
        print(f"{tally.inputs} inputs, {tally.edges} edges, {tally.kept} kept", flush=True)
        code = 0
    except Failure as failure:
        traceback.print_exception(failure.__cause__)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _keep(name: str, content: bytes) -> Path:
    path = CRASHERS / name / hashlib.sha256(content).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
