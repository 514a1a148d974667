"""Lock files: one process at a time locks a file and writes its pid into it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from relay.base.errors import RelayError


@contextmanager
def locked(path: Path, error: Callable[[str], RelayError]) -> Iterator[None]:
    """Lock the file for this process and write its pid into it.

    If another process has the lock, raises what `error` returns for that process's pid. The kernel releases the lock
    when its owner dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", opener=_private) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise error(file.read().strip()) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
        file.truncate(0)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
