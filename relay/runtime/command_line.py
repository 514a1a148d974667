"""Keep secrets of the command line out of the list of processes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Final

_ARG_START: Final = 45  # in /proc/self/stat, behind the name: where the arguments begin in memory (proc_pid_stat(5))


def rewrite(shown: Callable[[str], str]) -> None:
    """Replace each argument of this process, as other processes see it, by `shown` of it, which must not be longer.

    `sys.argv` stays as it is. Does nothing where there is no /proc.
    """
    try:
        before = Path("/proc/self/cmdline").read_bytes()
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return
    arguments = [argument.decode("utf-8", "surrogateescape") for argument in before.removesuffix(b"\0").split(b"\0")]
    after = b"".join(shown(argument).encode("utf-8", "surrogateescape") + b"\0" for argument in arguments)
    ctypes.memmove(int(fields[_ARG_START]), after.ljust(len(before), b"\0")[: len(before)], len(before))
