"""Kill a process right before its n-th change to a lake in a folder: SIGKILL, as the kernel's OOM killer does it.

Changes are what makes one moment differ from the next for whoever looks at the lake: a file begun, flushed to disk,
linked, renamed or removed, a folder made or flushed. Killed before each in turn, a writer has died everywhere.

    for at in itertools.count(1):
        if not killed(lake, at, work): break        # work is run in a fork of this process
        ...                                         # the lake is as before, or as after

    python -m tests.lakekill LAKE N ARGUMENT...     # `relay ARGUMENT...`, killed before its N-th change to LAKE
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import forks

_BY_PATH = {"os.link": 1, "os.rename": 1, "os.remove": 0, "os.mkdir": 0, "open": 0}  # which argument is the path
_FSYNC = "lakekill.fsync"


def arm(lake: Path, at: int) -> None:
    """From now on this process lives until right before its `at`-th change to `lake`."""
    root = str(lake.absolute())
    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event == _FSYNC:
            path = os.readlink(f"/proc/self/fd/{arguments[0]}")
        elif event in _BY_PATH and not (event == "open" and not _writes(arguments[1])):
            path = os.fsdecode(arguments[_BY_PATH[event]]) if isinstance(arguments[0], str | bytes | Path) else ""
        else:
            return
        if path == root or path.startswith(f"{root}/"):
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)

    fsync = os.fsync

    def audited_fsync(fd: Any) -> None:
        sys.audit(_FSYNC, fd)
        fsync(fd)

    os.fsync = audited_fsync  # it is no audit event of Python's own
    sys.addaudithook(hook)


def _writes(mode: object) -> bool:
    return isinstance(mode, str) and bool(set(mode) & set("wxa+"))


def killed(lake: Path, at: int, work: Callable[[], object]) -> bool:
    """Run `work` in a fork that dies before its `at`-th change to `lake`. False: it came to its end before."""
    return forks.killed(lambda: arm(lake, at), work)


def main() -> None:
    """`relay` with what stands after the folder and the number on the command line."""
    from relay.cli import main as relay

    _, lake, at, *sys.argv[1:] = sys.argv
    arm(Path(lake), int(at))
    relay()


if __name__ == "__main__":
    main()
