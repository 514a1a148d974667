"""Kills a process right before its n-th change to a lake in a folder: SIGKILL, as by the kernel's OOM killer.

Changes are all operations that readers of the lake can notice: a file created, flushed to disk, linked, renamed or
removed, a folder created or flushed. A writer that is killed before each in turn has died at every distinct moment.

    for at in itertools.count(1):
        if not killed(lake, at, work): break        # work is run in a fork of this process
        ...                                         # the lake is as before, or as after

    python -m tests.support.lake_kill LAKE N ARGUMENT...     # `relay ARGUMENT...`, killed before its N-th change
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import forks

_BY_PATH = {"os.link": 1, "os.rename": 1, "os.remove": 0, "os.mkdir": 0, "open": 0}  # the path's index
_FSYNC = "lakekill.fsync"


def arm(lake: Path, at: int) -> None:
    """Has this process killed right before its `at`-th change to `lake`."""
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

    os.fsync = audited_fsync  # Python has no audit event for it
    sys.addaudithook(hook)


def _writes(mode: object) -> bool:
    return isinstance(mode, str) and bool(set(mode) & set("wxa+"))


def killed(lake: Path, at: int, work: Callable[[], object]) -> bool:
    """Runs `work` in a fork that dies before its `at`-th change to `lake`. False: the work ended before."""
    return forks.killed(lambda: arm(lake, at), work)


def main() -> None:
    """Runs `relay` with the arguments after the folder and the number."""
    from relay.cli import main as relay

    _, lake, at, *sys.argv[1:] = sys.argv
    arm(Path(lake), int(at))
    relay()


if __name__ == "__main__":
    main()
