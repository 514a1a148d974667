"""A file beside state.db with the number of changes that are certainly on disk.

An older copy of state.db has fewer; so has one whose write-ahead log is lost or unreadable, and a new one that was
created because the old one was missing.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from relay._native import crc32c
from relay.base.errors import RelayError, StopCode

_NUMBER: Final = struct.Struct("<Q")


class StateLost(RelayError):
    """state.db is not the newest one that existed; `relay start --accept-gap` continues with it."""

    def __init__(self, state: Path, cause: str) -> None:
        hint = (
            "restore all of DataDir from a copy; else `relay start --accept-gap` continues with what state.db has:"
            " missing clients and filters start again, and clients get rows again that they got since"
        )
        super().__init__(StopCode.STATE_DAMAGED, "open state", cause, position=str(state), hint=hint)


class Mark:
    """The mark of one state.db. A damaged or missing mark counts as 0: it protects only against another state.db."""

    def __init__(self, state: Path) -> None:
        self._path = state.with_suffix(".mark")

    def known(self) -> int:
        """Return the number of changes that state.db has at least; 0 if unknown."""
        try:
            found = self._path.read_bytes()
        except FileNotFoundError:
            return 0
        packed, crc = found[: _NUMBER.size], found[_NUMBER.size :]
        return int(_NUMBER.unpack(packed)[0]) if crc == _checksum(packed) else 0

    def record(self, changes: int) -> None:
        """Record that this many changes were flushed. Do not wait until the record is on disk."""
        packed = _NUMBER.pack(changes)
        with suppress(OSError), self._path.open("r+b" if self._path.exists() else "wb", buffering=0) as file:
            file.write(packed + _checksum(packed))

    def delete(self) -> None:
        """Accept any state.db as the newest."""
        self._path.unlink(missing_ok=True)


def _checksum(packed: bytes) -> bytes:
    return crc32c(packed).to_bytes(4, "little")
