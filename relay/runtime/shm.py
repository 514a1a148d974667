"""The block of `multiprocessing.shared_memory` that holds the arena, and how it survives the supervisor's death.

The block belongs to one DataDir: its name is in DataDir/arena. A supervisor that finds the block of a killed
predecessor continues with it, so that rows confirmed in the last second are not handed out twice either. After a
failure of the host there is no block, and the broker rebuilds the queues from its checkpoints.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Final

from relay.base.errors import ErrorCode, RelayError

_NAME: Final = re.compile(r"\w+")


class Block(SharedMemory):
    """A block that outlives its creator. Its mapping lasts as long as the process, because many views refer to it."""

    def __init__(self, name: str | None = None, create: bool = False, size: int = 0) -> None:
        # The resource tracker, a process of its own, would unlink the block when this process dies. The block must
        # outlive a killed supervisor.
        if sys.version_info >= (3, 13):
            super().__init__(name, create, size, track=False)
        else:
            with _untracked():
                super().__init__(name, create, size)

    @property
    def view(self) -> memoryview:
        """The whole block, writable."""
        assert self.buf is not None
        return self.buf

    def __del__(self) -> None:
        """Do nothing: the parent's method would unmap the block."""


@contextmanager
def _untracked() -> Iterator[None]:
    """Keep the resource tracker from hearing of a block, and so from starting."""
    register = resource_tracker.register
    resource_tracker.register = lambda *_: None
    try:
        yield
    finally:
        resource_tracker.register = register


def allocate(block: Block, offset: int, size: int) -> None:
    """Allocate the pages. Without this, a full /dev/shm would cause a SIGBUS at the first access."""
    fd = os.open(f"/dev/shm/{block.name}", os.O_RDWR)
    try:
        os.posix_fallocate(fd, offset, size)
    except OSError as error:
        position = f"/dev/shm, {size} bytes"
        hint = "enlarge /dev/shm (docker run --shm-size), or lower MaxClients and QueueMemory in [Relay]"
        raise RelayError(
            ErrorCode.ENVIRONMENT, "allocate shared memory", error, position=position, hint=hint
        ) from error
    finally:
        os.close(fd)


def beside(block: Block) -> Path:
    """Return the folder for files that belong to what the block holds, and end with it."""
    return Path(f"/dev/shm/{block.name}.files")


def wipe(block: Block) -> None:
    """Reset the block to zeros, free its pages, and remove the files beside it. No process may use it meanwhile."""
    path = f"/dev/shm/{block.name}"
    os.truncate(path, 0)
    os.truncate(path, block.size)
    shutil.rmtree(beside(block), ignore_errors=True)


def find(data_dir: Path) -> Block | None:
    """Return the block that a killed supervisor of this DataDir has left, if it still exists."""
    try:
        name = (data_dir / "arena").read_text().strip()
        return Block(name) if _NAME.fullmatch(name) else None  # after a power failure the file may hold zeros
    except (FileNotFoundError, ValueError):
        return None
    except PermissionError as error:
        position = str(data_dir / "arena")
        hint = "a killed relay of another user left it: start and stop the relay once as that user"
        raise RelayError(ErrorCode.ENVIRONMENT, "open shared memory", error, position=position, hint=hint) from error


def create(data_dir: Path, size: int) -> Block:
    """Create a block of zeros, and record it in DataDir. Its pages are not allocated yet."""
    block = Block(create=True, size=size)
    note = data_dir / "arena.new"
    note.write_text(block.name + "\n")
    note.replace(data_dir / "arena")
    return block


def discard(data_dir: Path, block: Block) -> None:
    """Remove the block and the files beside it, after an orderly stop or because it cannot be used."""
    (data_dir / "arena").unlink(missing_ok=True)
    Path(f"/dev/shm/{block.name}").unlink(missing_ok=True)
    shutil.rmtree(beside(block), ignore_errors=True)
