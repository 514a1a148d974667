"""Filters that are in force and not stored yet, in files beside the arena: they outlive all that the arena outlives.

What they match counts in a queue at once. A broker that continues with that queue needs the same filters, even if its
predecessor and the state writer died before they were stored.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from relay.base.errors import ErrorCode, RelayError
from relay.queues.state import Filter

_decode: Final[Callable[[bytes], list[Filter]]] = msgspec.msgpack.Decoder(list[Filter]).decode


class UnstoredFilters:
    """A file for each client, in a folder that the first file makes. A new file replaces the former one whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, client_id: int, filters: list[Filter]) -> None:
        """Keep all filters of a client. Raises `RelayError` if there is no room."""
        made = self._folder / "new"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            made.write_bytes(msgspec.msgpack.encode(filters))
            made.replace(self._folder / str(client_id))
        except OSError as error:
            hint = "enlarge /dev/shm (docker run --shm-size)"
            raise RelayError(
                ErrorCode.ENVIRONMENT, "keep filters in shared memory", error, position=str(self._folder), hint=hint
            ) from error

    def remove(self, client_id: int) -> None:
        """Forget what is kept of a client."""
        (self._folder / str(client_id)).unlink(missing_ok=True)

    def all(self) -> dict[int, list[Filter]]:
        """Return the filters by client id."""
        if not self._folder.exists():
            return {}
        return {int(file.name): _decode(file.read_bytes()) for file in self._folder.iterdir() if file.name != "new"}
