"""Files that one process at a time holds, and that tell which one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from relay.errors import RelayError


@contextmanager
def held(path: Path, refusal: Callable[[str], RelayError]) -> Iterator[None]:
    """Holds the file for this process, whose pid is in it meanwhile.

    Raises what `refusal` makes of the holder's pid if another process has it. The kernel lets go of it when the holder
    dies, however it dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise refusal(file.read().strip()) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
        file.truncate(0)
