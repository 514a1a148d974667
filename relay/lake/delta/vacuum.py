"""Deletes files of an open table that its newest version does not have, once readers of older versions are done."""

from __future__ import annotations

import time
from typing import Final

from relay.lake.delta import vectors
from relay.lake.delta.log import RETENTION_SECONDS, DeltaLog

LEAST_SECONDS: Final = 30.0
"""How long a file stays at least, even if the table takes too much space."""

_MOST_SHARE: Final = 1.0  # of the table's bytes, for files that its newest version does not have
_FREE_BYTES: Final = 4 << 20  # they may have at least


class Vacuum:
    """The unreferenced files of a table, in the order in which they became so. Not thread-safe.

    Files that a process before this one left count from this one's start.
    """

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._unreferenced: dict[str, tuple[float, int]] = {}  # by name: since when (Unix seconds), and bytes
        self._known = self._referenced()
        now = time.time()
        for name in log.storage.walk(log.folder):  # with what a kill left unfinished
            short = name.removeprefix(f"{log.folder}/")
            if short not in self._known and not short.startswith("_delta_log/"):
                since = log.removed[short].deletion_timestamp / 1000 if short in log.removed else now
                self._unreferenced[short] = since, log.storage.size(name) or 0

    def run(self) -> int:
        """Note what the last commits have replaced, and delete what is due. Returns the number of deleted files."""
        referenced, now = self._referenced(), time.time()
        for name, size in self._known.items():
            if name not in referenced:
                self._unreferenced[name] = now, size
        self._known = referenced
        most = max(_FREE_BYTES, _MOST_SHARE * sum(add.size for add in self._log.files.values()))
        excess = sum(size for _, size in self._unreferenced.values()) - most
        deleted = 0
        for name, (since, size) in sorted(self._unreferenced.items(), key=lambda each: each[1]):
            if now - since < (LEAST_SECONDS if excess > 0 else RETENTION_SECONDS):
                break
            self._log.storage.delete(self._log.path(name))
            self._log.removed.pop(name, None)
            del self._unreferenced[name]
            excess -= size
            deleted += 1
        return deleted

    def _referenced(self) -> dict[str, int]:
        """Return the files of the newest version, and their bytes."""
        found = {add.path: add.size for add in self._log.files.values()}
        for add in self._log.files.values():
            if (vector := add.deletion_vector) and (name := vectors.name_of(vector)):
                found[name] = found.get(name, 0) + vector.size_in_bytes
        return found
