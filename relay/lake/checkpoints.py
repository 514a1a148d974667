"""Checkpoints of a lake's log: the state after a commit, so that neither readers nor the log need all commits.

    _log/checkpoint.json                     the numbers of the two newest checkpoints
    _log/checkpoint-<number>.json            the state after that commit, without its files, and the names of parts
    _log/files-<number>-<id>.parquet      a part: files that count, one row each

A part is never changed. The next checkpoint names it again while it is full and all of its files still count, so a
checkpoint costs what has changed, in a lake of any size. The two newest checkpoints and their parts always exist.
Commits up to the older of the two are deleted once they are two days old.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Sequence
from typing import Final

import msgspec

from relay.lake import paths
from relay.lake.document_files import damaged, read_document
from relay.lake.documents import FORMAT, Checkpoint, DataFile, LakeState, LatestCheckpoints, Part
from relay.lake.storage import Storage

PART_FILES: Final = 8192
"""Files in a full part."""

KEEP_SECONDS: Final = 48 * 3600.0
"""How long a commit stays, at least, although checkpoints have what it says."""

_DELETIONS: Final = 1000  # commits that one checkpoint deletes at most: a lake of format 1 may have very many
_LATEST: Final = f"{paths.LOG}/checkpoint.json"


class Checkpoints:
    """One process's view of a lake's checkpoints. Not thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[str, list[DataFile]] = {}  # by path: the parts that this process has read or written

    def latest(self) -> LatestCheckpoints:
        """Return the numbers of the two newest checkpoints."""
        return read_document(self._storage, _LATEST, LatestCheckpoints) or LatestCheckpoints()

    def load(self) -> LakeState:
        """Return the state of the newest checkpoint; that of an empty lake if there is none.

        Raises RelayError (lake_damaged) if no checkpoint can be read although commits were deleted.
        """
        while True:
            latest = self.latest()
            for number in (latest.number, latest.previous):
                if number and (state := self._read(number)) is not None:
                    return state
            if self.latest() == latest:  # otherwise newer ones were made meanwhile, and these deleted
                return self._search()

    def write(self, state: LakeState) -> None:
        """Write the checkpoint of a state, and delete what is no longer needed.

        A kill leaves the log as it was, and perhaps a document that no other names (`delete_leftovers`).
        """
        before = self.latest()
        root = self._document(before.number)
        usable = root.parts if root else []
        parts = self._write_parts(state, usable)
        bare = {key: msgspec.structs.replace(table, files={}) for key, table in state.tables.items()}
        checkpoint = Checkpoint(msgspec.structs.replace(state, tables=bare), parts, FORMAT)
        self._storage.create(paths.checkpoint_name(state.number), msgspec.json.encode(checkpoint))
        first = self._delete_commits(before)
        latest = LatestCheckpoints(state.number, before.number, first, FORMAT)
        self._storage.replace(_LATEST, msgspec.json.encode(latest))
        if before.previous:  # keep the one between for readers that are about to read it
            self._delete(before.previous, {part.path for part in (*parts, *usable)})

    def in_use(self) -> set[str]:
        """Return the paths of the two newest checkpoints and of their parts."""
        latest = self.latest()
        numbers = [number for number in (latest.number, latest.previous) if number]
        roots = {paths.checkpoint_name(number): self._document(number) for number in numbers}
        return {*roots, *(part.path for root in roots.values() if root for part in root.parts)}

    def _document(self, number: int) -> Checkpoint | None:
        return read_document(self._storage, paths.checkpoint_name(number), Checkpoint) if number else None

    def _read(self, number: int) -> LakeState | None:
        """Return the state of a checkpoint, None if it or one of its parts does not exist."""
        root = self._document(number)
        if root is None:
            return None
        known = {}
        for part in root.parts:
            if (files := self._files_of(part)) is None:
                return None
            known[part.path] = files
            for file in files:
                root.state.tables[paths.table_key(file.table)].files[file.path] = file
        self._known = known
        return root.state

    def _search(self) -> LakeState:
        """Find the newest checkpoint by a listing: there is none yet, or one was removed by hand."""
        names = self._storage.list(paths.LOG)
        for number in sorted(filter(None, map(paths.checkpoint_number, names)), reverse=True):
            if (state := self._read(number)) is not None:
                return state
        oldest = min(filter(None, map(paths.commit_number, names)), default=1)
        if oldest > 1:
            raise damaged(
                self._storage.url(paths.LOG),
                f"it has no checkpoint, and the commits before {oldest} were deleted",
                "restore a file checkpoint-*.json, and the files that it names, from a backup",
            )
        return LakeState()

    def _files_of(self, part: Part) -> list[DataFile] | None:
        """Return the files of a part, None if the part does not exist."""
        if (known := self._known.get(part.path)) is not None:
            return known
        from relay.lake import parts  # imports pyarrow, which a lake without checkpoints does not need

        try:
            data = self._storage.read(part.path)
        except FileNotFoundError:
            return None
        if len(data) != part.bytes or hashlib.sha256(data).hexdigest() != part.sha256:
            raise damaged(self._storage.url(part.path), "its bytes are not those that were written")
        return parts.decoded(data)

    def _write_parts(self, state: LakeState, usable: Sequence[Part]) -> list[Part]:
        """Write the files of a state as parts, except those that full parts of the newest checkpoint have."""
        from relay.lake.parts import encoded

        rest = {path: file for table in state.tables.values() for path, file in table.files.items()}
        parts = []
        known = {}
        for part in usable:
            if part.files < PART_FILES or (files := self._files_of(part)) is None:
                continue
            if all(rest.get(file.path) == file for file in files):
                parts.append(part)
                known[part.path] = files
                for file in files:
                    del rest[file.path]
        left = list(rest.values())
        for begin in range(0, len(left), PART_FILES):
            files = left[begin : begin + PART_FILES]
            data = encoded(files)
            path = paths.files_name(state.number, uuid.uuid4().hex[:12])
            self._storage.replace(path, data)
            parts.append(Part(path, len(files), len(data), hashlib.sha256(data).hexdigest()))
            known[path] = files
        self._known = known
        return parts

    def _delete_commits(self, before: LatestCheckpoints) -> int:
        """Delete old commits up to `before.previous`; return the number of the first that may exist."""
        first, oldest = before.first, time.time() - KEEP_SECONDS
        while first <= before.previous and first < before.first + _DELETIONS:
            name = paths.commit_name(first)
            if (modified := self._storage.modified(name)) is not None:
                if modified >= oldest:
                    break
                self._storage.delete(name)
            first += 1
        return first

    def _delete(self, number: int, used: set[str]) -> None:
        """Delete a checkpoint, and its parts except the used ones."""
        root = self._document(number)
        self._storage.delete(paths.checkpoint_name(number))
        for part in root.parts if root else ():
            if part.path not in used:
                self._storage.delete(part.path)
