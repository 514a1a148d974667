"""The log of a lake: writes commits, and folds all commits into a state.

A commit is one document, created exclusively under the next number; docs/lake.md describes the format and its rules.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.binlog.events.position import BinlogPosition
from relay.lake import paths
from relay.lake.checkpoints import Checkpoints
from relay.lake.document_files import damaged, read_document
from relay.lake.documents import (
    FORMAT,
    Commit,
    DataFile,
    ExportPosition,
    Gap,
    Known,
    LakeState,
    Marker,
    Snapshot,
    Table,
    TableState,
    TableVersion,
    Writer,
)
from relay.lake.storage import Storage

CHECKPOINT_COMMITS: Final = 50
"""The commits between two checkpoints."""

_CHECK_SECONDS: Final = 60.0  # between two checks whether commits that a reader needs next were deleted
_BLOCK: Final = 1 << 20


class Conflict(Exception):
    """Another writer took the commit number. The log's state includes its commits already."""


class LakeLog:
    """One process's view of a lake's log. Not thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._checkpoints = Checkpoints(storage)
        self._state = LakeState()
        self._loaded = False
        self._checked_at = 0.0  # monotonic: when it was last known that the commits after the state exist
        self._complete_checked = False

    def state(self) -> LakeState:
        """Return the result of all commits so far.

        It is the same object every time; each call and each `commit` advances it. The first call begins at the newest
        checkpoint; later ones ask only for the next numbers.
        """
        self._refresh()
        return self._state

    def commit(
        self,
        writer: Writer,
        *,
        place: ExportPosition | None = None,
        add: Sequence[DataFile] = (),
        remove: Sequence[str] = (),
        versions: Sequence[TableVersion] = (),
        markers: Sequence[Marker] = (),
        snapshots: Sequence[Snapshot] = (),
        gap: Gap | None = None,
    ) -> LakeState:
        """Commit on top of the state that `state` returned last, and return the new state.

        Raises Conflict if others have committed since: the caller examines their commits, and commits again or not.
        """
        if not self._complete_checked:
            self._check_complete()
        commit = Commit(
            number=self._state.number + 1,
            writer=writer,
            at=time.time(),
            id=uuid.uuid4().hex,
            format=FORMAT,
            place=place,
            add=list(add),
            remove=list(remove),
            versions=list(versions),
            markers=list(markers),
            snapshots=list(snapshots),
            gap=gap,
        )
        if reason := _rejection(self._state, commit):
            raise RelayError(ErrorCode.UNEXPECTED, "commit to the lake", reason, position=self.storage.url())
        name = paths.commit_name(commit.number)
        if not self.storage.create(name, msgspec.json.encode(commit)):
            self._refresh()
            raise Conflict
        self._require_newest(name)
        self._loaded = True  # if it was False, the lake was empty
        fold(self._state, commit)
        if self._state.checkpoint == commit.number:
            self._checkpoints.write(self._state)
        return self._state

    def rewrite_newest(self) -> None:
        """Write the newest commit again, so that it is on disk: its writer may have died of a failed sync."""
        if number := self.state().number:
            name = paths.commit_name(number)
            with suppress(FileNotFoundError):  # only a checkpoint has it
                self.storage.replace(name, self.storage.read(name))

    def commits(self, after: int = 0) -> Iterator[Commit]:
        """Yield the commits above number `after`, in order.

        Raises RelayError (usage) if the next ones were deleted. Their results are in the checkpoints.
        """
        if (first := self.commit_at(after + 1)) is None:
            if (latest := self._checkpoints.latest()).previous > after:
                cause = f"those up to {latest.first - 1} were deleted"
                raise RelayError(
                    ErrorCode.USAGE, f"read the commits after {after}", cause, position=self.storage.url(),
                    hint="read the state: it has their results",
                )  # fmt: skip
            return
        yield first
        yield from self._following(after + 1)

    def commit_at(self, number: int) -> Commit | None:
        """Return the commit with that number; None if it was deleted, or does not exist yet."""
        return read_document(self.storage, paths.commit_name(number), Commit)

    def files_in_use(self) -> set[str]:
        """Return the paths of the two newest checkpoints and of their parts."""
        return self._checkpoints.in_use()

    def _following(self, number: int) -> Iterator[Commit]:
        while (commit := self.commit_at(number := number + 1)) is not None:
            yield commit

    def _refresh(self) -> None:
        """Fold new commits."""
        if not self._loaded or self._is_overtaken():
            _replace(self._state, self._checkpoints.load())
            self._loaded = True
            self._checked_at = time.monotonic()
        for commit in self._following(self._state.number):
            if reason := _rejection(self._state, commit):
                raise damaged(self.storage.url(paths.commit_name(commit.number)), reason)
            fold(self._state, commit)

    def _is_overtaken(self) -> bool:
        """Whether the commits that follow this process's state may have been deleted."""
        if time.monotonic() - self._checked_at < _CHECK_SECONDS:
            return False
        self._checked_at = time.monotonic()
        return self._checkpoints.latest().previous > self._state.number

    def _require_newest(self, name: str) -> None:
        """Check that the commit just created is the newest, and does not have the name of one that was deleted.

        A process that was stopped for days between reading the log and committing can create such a commit.
        """
        self._checked_at = time.monotonic()
        if self._checkpoints.latest().previous > self._state.number:
            self.storage.delete(name)
            raise RelayError(
                StopCode.LAKE_CONFLICT, "commit to the lake",
                f"this process last read the log at commit {self._state.number}, and later ones were deleted since",
                position=self.storage.url(name),
                hint="start it again, or `relay resume`: it continues at the newest commit",
            )  # fmt: skip

    def _check_complete(self) -> None:
        """Check before the first commit that no document is missing: its number must not be given to a new commit."""
        newest = max((paths.commit_number(name) or 0 for name in self.storage.list(paths.LOG)), default=0)
        if newest > self._state.number:
            self._refresh()
            if newest > self._state.number:
                missing = paths.commit_name(self._state.number + 1)
                raise damaged(self.storage.url(missing), f"it is missing, but commit {newest} exists")
            raise Conflict
        self._complete_checked = True


def _replace(state: LakeState, by: LakeState) -> None:
    """Give `state` the contents of another one. `state.tables` stays the same object: callers hold it."""
    tables = state.tables
    tables.clear()
    tables.update(by.tables)
    for name in LakeState.__struct_fields__:
        setattr(state, name, getattr(by, name))
    state.tables = tables


def fold(state: LakeState, commit: Commit) -> None:
    """Advance `state` by the next commit."""
    for version in commit.versions:
        _table(state, version.table).versions.append(version)
    if commit.gap is not None:
        state.gaps.append(commit.gap)
        for table in state.tables.values():
            _mark_incomplete(table, commit.gap.seq)
    for marker in sorted(commit.markers, key=lambda marker: marker.seq):
        _apply_marker(_table(state, marker.table), marker)
    for path in commit.remove:
        del state.tables[paths.table_key(paths.table_of(path))].files[path]
    for file in commit.add:
        _add(_table(state, file.table), file, commit)
    state.files += len(commit.add) - len(commit.remove)
    for snapshot in commit.snapshots:
        # A marker may have deleted rows that were read before it: the table must be read again.
        if snapshot.lowest >= (table := _table(state, snapshot.table)).reset:
            table.snapshot = snapshot
    if commit.place is not None:
        state.place = commit.place
    if state.place is not None and (commit.place is not None or commit.snapshots):
        for table in state.tables.values():
            _complete_if_passed(state, table, state.place, moved=commit.place is not None)
    state.number = commit.number
    if state.number - state.checkpoint >= CHECKPOINT_COMMITS:
        state.checkpoint = state.number


def _table(state: LakeState, table: Table) -> TableState:
    key = paths.table_key(table)
    if key not in state.tables:
        state.tables[key] = TableState(table)
    return state.tables[key]


def _apply_marker(table: TableState, marker: Marker) -> None:
    if marker.kind == "reset":
        _mark_incomplete(table, marker.seq)
    else:
        # The table is empty or gone: the lake has every row.
        table.reset, table.complete_from, table.before, table.snapshot = marker.seq, marker.seq, None, None
    table.last_marker = marker.kind


def _mark_incomplete(table: TableState, seq: int) -> None:
    if table.complete_from is not None:
        table.before = Known(table.reset, table.complete_from, seq - 1)
    table.reset, table.complete_from, table.snapshot = seq, None, None


def _add(table: TableState, file: DataFile, commit: Commit) -> None:
    table.files[file.path] = file
    table.sides.extend(side for side in file.sides if side not in table.sides)
    if commit.writer == "snapshot":
        table.snapshot_number = commit.number


def _complete_if_passed(state: LakeState, table: TableState, place: ExportPosition, *, moved: bool) -> None:
    """Mark a table complete once the export has passed the end of its snapshot.

    Positions of two sources cannot be compared, and rows read from one may hold transactions that the other never had.
    If the export resumes from a source other than the one that was read, those rows no longer count.
    """
    snapshot = table.snapshot
    if snapshot is None or table.complete_from is not None:
        return
    if snapshot.identity != place.identity:
        if moved:
            table.snapshot = None
            rows = [file.path for file in table.files.values() if file.kind == "snapshot" and file.last >= table.reset]
            for path in rows:
                del table.files[path]
            state.files -= len(rows)
    elif snapshot.done and BinlogPosition(snapshot.end_file, snapshot.end_offset) <= BinlogPosition(
        place.file, place.offset
    ):
        table.complete_from, table.before = place.seq, None


def _rejection(state: LakeState, commit: Commit) -> str:
    """Why `commit` cannot follow `state`; "" if it can."""
    if commit.number != state.number + 1:
        return f"it declares commit {commit.number} instead of {state.number + 1}"
    if commit.place and state.place and commit.place.seq < state.place.seq:
        return f"its position, {commit.place.seq}, is before that of an earlier commit, {state.place.seq}"
    new: dict[Table, list[TableVersion]] = {}
    for version in commit.versions:
        before = [*versions_of(state.tables, version.table), *new.get(version.table, [])]
        if version.version != len(before) + 1 or (before and version.generation < before[-1].generation):
            return f"version {version.version} of {version.table} does not follow the {len(before)} versions before"
        new.setdefault(version.table, []).append(version)
    for marker in commit.markers:
        if (known := state.tables.get(paths.table_key(marker.table))) and marker.seq <= known.reset:
            return f"its {marker.kind} of {marker.table} at {marker.seq} is not after the last at {known.reset}"
    for path in commit.remove:
        if path not in _known_files(state, paths.table_of(path)):
            return f"it removes {path}, which no commit added"
    added = set[str]()
    for file in commit.add:
        if not 1 <= file.version <= len(versions_of(state.tables, file.table)) + len(new.get(file.table, ())):
            return f"{file.path} is of version {file.version} of {file.table}, which is unknown"
        if paths.table_of(file.path) != file.table:
            return f"{file.path} is not in the folder of {file.table}"
        if file.path in added or file.path in _known_files(state, file.table):
            return f"{file.path} was already added"
        added.add(file.path)
    for snapshot in commit.snapshots:
        if not snapshot.identity or (snapshot.done and not snapshot.end_file):
            return f"the snapshot of {snapshot.table} does not have its position"
    return ""


def versions_of(tables: Mapping[str, TableState], table: Table) -> list[TableVersion]:
    """Return the versions of a table, by `LakeState.tables`; empty for an unknown table."""
    known = tables.get(paths.table_key(table))
    return known.versions if known else []


def _known_files(state: LakeState, table: Table) -> dict[str, DataFile]:
    known = state.tables.get(paths.table_key(table))
    return known.files if known else {}


def verify(storage: Storage, state: LakeState) -> list[str]:
    """Check all files that count: existence, size, SHA-256. Returns one line for each faulty file. Reads every file."""
    files = [file for table in state.tables.values() for file in table.files.values()]
    return [f"{file.path}: {wrong}" for file in files if (wrong := fault(storage, file))]


def fault(storage: Storage, file: DataFile) -> str:
    """Check one file: existence, size, SHA-256. Returns the fault, "" if there is none. Reads the whole file."""
    size = storage.size(file.path)
    if size is None:
        return "missing"
    if size != file.bytes:
        return f"{size} bytes, the log has {file.bytes}"
    digest = hashlib.sha256()
    with storage.open(file.path) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return "" if digest.hexdigest() == file.sha256 else f"SHA-256 {digest.hexdigest()}, the log has {file.sha256}"
