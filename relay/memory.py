"""The block of `multiprocessing.shared_memory` that holds the arena, and its way over the supervisor's death.

The block belongs to one DataDir: its name stands in DataDir/arena. A supervisor that finds the block of a predecessor
that was killed carries on with it, so that not even rows confirmed in the last second are handed out twice; after a
loss of the host there is none, and the broker rebuilds the queues from its checkpoints.
"""

from __future__ import annotations

import os
import re
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Final

from relay.errors import ErrorCode, RelayError

_NAME: Final = re.compile(r"\w+")


class Block(SharedMemory):
    """A block that outlives its maker, and whose mapping lasts as long as the process: views of it are everywhere."""

    def __init__(self, name: str | None = None, create: bool = False, size: int = 0) -> None:
        super().__init__(name, create, size)
        # The resource tracker would unlink the block when this process dies; it must outlive a killed supervisor.
        resource_tracker.unregister(f"/{self.name}", "shared_memory")

    @property
    def view(self) -> memoryview:
        """All of it, writable."""
        assert self.buf is not None
        return self.buf

    def __del__(self) -> None:
        """Nothing: the parent's would unmap."""


def allocate(block: Block, offset: int, size: int) -> None:
    """Makes the pages real. A map over pages that a full /dev/shm cannot give would be a SIGBUS at first touch."""
    fd = os.open(f"/dev/shm/{block.name}", os.O_RDWR)
    try:
        os.posix_fallocate(fd, offset, size)
    except OSError as error:
        raise RelayError(
            ErrorCode.ENVIRONMENT,
            "allocate shared memory",
            error,
            position=f"/dev/shm, {size} bytes",
            hint="make /dev/shm larger (docker run --shm-size), or lower MaxClients and QueueMemory in [Relay]",
        ) from error
    finally:
        os.close(fd)


def wipe(block: Block) -> None:
    """Have the block as it was made: zeros without pages. Nobody may look at it meanwhile."""
    path = f"/dev/shm/{block.name}"
    os.truncate(path, 0)
    os.truncate(path, block.size)


def find(data_dir: Path) -> Block | None:
    """The block that a killed supervisor of this DataDir left, if it is still there."""
    try:
        name = (data_dir / "arena").read_text().strip()
        return Block(name) if _NAME.fullmatch(name) else None  # a loss of power may leave zeros of the note
    except (FileNotFoundError, ValueError):
        return None
    except PermissionError as error:
        raise RelayError(
            ErrorCode.ENVIRONMENT,
            "open shared memory",
            error,
            position=str(data_dir / "arena"),
            hint="a relay that was killed left it as another user: start and stop it once more as that one",
        ) from error


def create(data_dir: Path, size: int) -> Block:
    """A new zeroed block, noted in DataDir before it is used. Its pages are not allocated yet."""
    block = Block(create=True, size=size)
    note = data_dir / "arena.new"
    note.write_text(block.name + "\n")
    note.replace(data_dir / "arena")
    return block


def discard(data_dir: Path, block: Block) -> None:
    """Ends the block after an orderly stop, or because it cannot be used."""
    (data_dir / "arena").unlink(missing_ok=True)
    Path(f"/dev/shm/{block.name}").unlink(missing_ok=True)
