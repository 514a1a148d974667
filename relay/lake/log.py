"""The log of a lake: who commits what, and what all commits together say.

A commit is one document, created exclusively under the next number; docs/lake.md describes the format and its rules.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from relay.binlog.place import Place as BinlogPlace
from relay.errors import ErrorCode, RelayError, StopCode
from relay.lake import paths
from relay.lake.documents import (
    FORMAT,
    Commit,
    DataFile,
    Gap,
    Known,
    LakeState,
    Marker,
    Place,
    Snapshot,
    Table,
    TableState,
    TableVersion,
    Writer,
)
from relay.lake.storage import Storage

CHECKPOINT_COMMITS: Final = 50
"""Fewest commits between two checkpoints."""
CHECKPOINT_FILES: Final = 1000
"""A checkpoint holds every file, so a commit's share of it must not grow with them: that many a commit."""
_LATEST: Final = f"{paths.LOG}/checkpoint.json"
_BLOCK: Final = 1 << 20


class Conflict(Exception):
    """Somebody else took the number. `commits` are those that were made since; the log's state has them already."""

    def __init__(self, commits: list[Commit]) -> None:
        super().__init__("others committed: " + ", ".join(f"{one.number} ({one.writer})" for one in commits[:3]))
        self.commits = commits


class _Checkpoint(msgspec.Struct, frozen=True):
    """A state, as `checkpoint-<number>.json`."""

    state: LakeState
    format: int = FORMAT


class _Latest(msgspec.Struct, frozen=True):
    """The numbers of the two newest checkpoints, as `checkpoint.json`: where a reader begins without a listing."""

    number: int
    previous: int = 0
    format: int = FORMAT


class _Format(msgspec.Struct, frozen=True):
    format: int = FORMAT


_Document = TypeVar("_Document", Commit, _Checkpoint, _Latest)


class LakeLog:
    """One process's view of a lake's log. Not for several threads at once."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._state = LakeState()
        self._loaded = False
        self._whole = False

    def state(self) -> LakeState:
        """All commits so far, folded. The same object every time, moved on by each call and by `commit`.

        The first call begins at the newest checkpoint; later ones ask for the next numbers only.
        """
        self._refresh()
        return self._state

    def commit(
        self,
        writer: Writer,
        *,
        place: Place | None = None,
        add: Sequence[DataFile] = (),
        remove: Sequence[str] = (),
        versions: Sequence[TableVersion] = (),
        markers: Sequence[Marker] = (),
        snapshots: Sequence[Snapshot] = (),
        gap: Gap | None = None,
    ) -> LakeState:
        """Commit on top of what `state` returned last, and return the new state.

        Raises Conflict if others committed since: look at what they did, and commit again or not.
        """
        if not self._whole:
            self._check_whole()
        commit = Commit(
            number=self._state.number + 1,
            writer=writer,
            at=time.time(),
            id=uuid.uuid4().hex,
            place=place,
            add=list(add),
            remove=list(remove),
            versions=list(versions),
            markers=list(markers),
            snapshots=list(snapshots),
            gap=gap,
        )
        if reason := _unfit(self._state, commit):
            raise RelayError(ErrorCode.UNEXPECTED, "commit to the lake", reason, position=self.storage.url())
        if not self.storage.create(paths.commit_name(commit.number), msgspec.json.encode(commit)):
            raise Conflict(self._refresh())
        self._loaded = True  # if it was not: the lake was empty
        fold(self._state, commit)
        if self._state.checkpoint == commit.number:
            self._write_checkpoint()
        return self._state

    def commits(self, after: int = 0) -> Iterator[Commit]:
        """The commits above number `after`, in order."""
        number = after
        while (commit := self._read_commit(number := number + 1)) is not None:
            yield commit

    def _refresh(self) -> list[Commit]:
        """Fold what is new, and return it."""
        if not self._loaded:
            self._begin()
            self._loaded = True
        new = []
        for commit in self.commits(self._state.number):
            if reason := _unfit(self._state, commit):
                raise _damaged(self.storage.url(paths.commit_name(commit.number)), reason)
            fold(self._state, commit)
            new.append(commit)
        return new

    def _begin(self) -> None:
        """Begin at the newest checkpoint that is to be had."""
        latest = self._read(_LATEST, _Latest)
        found = self._read(paths.checkpoint_name(latest.number), _Checkpoint) if latest else None
        if found is None:
            # None yet, or removed by hand or by a writer that has made a newer one meanwhile.
            names = self.storage.list(paths.LOG)
            numbers = [number for name in names if (number := paths.checkpoint_number(name)) is not None]
            for number in sorted(numbers, reverse=True):
                if (found := self._read(paths.checkpoint_name(number), _Checkpoint)) is not None:
                    break
        if found is not None:
            self._state = found.state

    def _check_whole(self) -> None:
        """Before the first commit: a document that somebody removed must not be made anew beneath the later ones."""
        newest = max((paths.commit_number(name) or 0 for name in self.storage.list(paths.LOG)), default=0)
        if newest > self._state.number:
            new = self._refresh()
            if newest > self._state.number:
                missing = paths.commit_name(self._state.number + 1)
                raise _damaged(self.storage.url(missing), f"it is missing, while commit {newest} is there")
            raise Conflict(new)
        self._whole = True

    def _read_commit(self, number: int) -> Commit | None:
        return self._read(paths.commit_name(number), Commit)

    def _read(self, name: str, kind: type[_Document]) -> _Document | None:
        """A document; None if it is not there."""
        try:
            data = self.storage.read(name)
        except FileNotFoundError:
            return None
        try:
            if (found := msgspec.json.decode(data, type=_Format).format) > FORMAT:
                raise RelayError(
                    ErrorCode.ENVIRONMENT,
                    "read the lake's log",
                    f"it is of format {found}, this release knows up to {FORMAT}",
                    position=self.storage.url(name),
                    hint="update binlog-relay here to the release that writes this lake",
                )
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            hint = "" if kind is Commit else "delete that file: it is made anew from the commits"
            raise _damaged(self.storage.url(name), error, hint) from error

    def _write_checkpoint(self) -> None:
        """Only a help for readers: those who find none, or an older one, fold more commits."""
        number = self._state.number
        before = self._read(_LATEST, _Latest) or _Latest(0)
        self.storage.create(paths.checkpoint_name(number), msgspec.json.encode(_Checkpoint(self._state)))
        self.storage.replace(_LATEST, msgspec.json.encode(_Latest(number, before.number)))
        if before.previous:  # the one between stays for readers who are just about to read it
            self.storage.delete(paths.checkpoint_name(before.previous))


def fold(state: LakeState, commit: Commit) -> None:
    """Move `state` on by the next commit."""
    for version in commit.versions:
        _table(state, version.table).versions.append(version)
    if commit.gap is not None:
        state.gaps.append(commit.gap)
        for table in state.tables.values():
            _unknown_from(table, commit.gap.seq)
    for marker in sorted(commit.markers, key=lambda marker: marker.seq):
        _mark(_table(state, marker.table), marker)
    for path in commit.remove:
        del state.tables[paths.table_key(paths.table_of(path))].files[path]
    for file in commit.add:
        _add(_table(state, file.table), file, commit)
    state.files += len(commit.add) - len(commit.remove)
    for snapshot in commit.snapshots:
        # Rows read before a marker may be those that it took away: the table is to be read anew.
        if snapshot.lowest >= (table := _table(state, snapshot.table)).reset:
            table.snapshot = snapshot
    if commit.place is not None:
        state.place = commit.place
    if state.place is not None and (commit.place is not None or commit.snapshots):
        for table in state.tables.values():
            _complete(state, table, state.place, moved=commit.place is not None)
    state.number = commit.number
    if state.number - state.checkpoint >= max(CHECKPOINT_COMMITS, state.files // CHECKPOINT_FILES):
        state.checkpoint = state.number


def _table(state: LakeState, table: Table) -> TableState:
    key = paths.table_key(table)
    if key not in state.tables:
        state.tables[key] = TableState(table)
    return state.tables[key]


def _mark(table: TableState, marker: Marker) -> None:
    if marker.kind == "reset":
        _unknown_from(table, marker.seq)
    else:
        # Empty or gone: there is no row that the lake does not know.
        table.reset, table.complete_from, table.before, table.snapshot = marker.seq, marker.seq, None, None
    table.last_marker = marker.kind


def _unknown_from(table: TableState, seq: int) -> None:
    if table.complete_from is not None:
        table.before = Known(table.reset, table.complete_from, seq - 1)
    table.reset, table.complete_from, table.snapshot = seq, None, None


def _add(table: TableState, file: DataFile, commit: Commit) -> None:
    table.files[file.path] = file
    table.sides.extend(side for side in file.sides if side not in table.sides)
    if commit.writer == "snapshot":
        table.snapshot_number = commit.number


def _complete(state: LakeState, table: TableState, place: Place, *, moved: bool) -> None:
    """Complete, once the export has passed the end of the snapshot.

    Places of two sources cannot be compared, and what was read from the one may hold transactions that the other never
    had. When the export goes on from another source than was read, what was read counts no more.
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
    elif snapshot.done and BinlogPlace(snapshot.end_file, snapshot.end_offset) <= BinlogPlace(place.file, place.offset):
        table.complete_from, table.before = place.seq, None


def _unfit(state: LakeState, commit: Commit) -> str:
    """Why `commit` cannot follow `state`; "" if it can."""
    if commit.number != state.number + 1:
        return f"it says that it is commit {commit.number}, not {state.number + 1}"
    if commit.place and state.place and commit.place.seq < state.place.seq:
        return f"its place, {commit.place.seq}, is before that of an earlier commit, {state.place.seq}"
    new: dict[Table, list[TableVersion]] = {}
    for version in commit.versions:
        before = [*_known_versions(state, version.table), *new.get(version.table, [])]
        if version.version != len(before) + 1 or (before and version.generation < before[-1].generation):
            return f"version {version.version} of {version.table} does not follow the {len(before)} before"
        new.setdefault(version.table, []).append(version)
    for marker in commit.markers:
        if (known := state.tables.get(paths.table_key(marker.table))) and marker.seq <= known.reset:
            return f"its {marker.kind} of {marker.table} at {marker.seq} is not after the last at {known.reset}"
    for path in commit.remove:
        if path not in _known_files(state, paths.table_of(path)):
            return f"it removes {path}, which no commit added"
    added = set[str]()
    for file in commit.add:
        if not 1 <= file.version <= len(_known_versions(state, file.table)) + len(new.get(file.table, ())):
            return f"{file.path} is of version {file.version} of {file.table}, which is not known"
        if paths.table_of(file.path) != file.table:
            return f"{file.path} is not where files of {file.table} are"
        if file.path in added or file.path in _known_files(state, file.table):
            return f"{file.path} was added before"
        added.add(file.path)
    for snapshot in commit.snapshots:
        if not snapshot.identity or (snapshot.done and not snapshot.end_file):
            return f"the snapshot of {snapshot.table} does not say where it was read"
    return ""


def _known_versions(state: LakeState, table: Table) -> list[TableVersion]:
    known = state.tables.get(paths.table_key(table))
    return known.versions if known else []


def _known_files(state: LakeState, table: Table) -> dict[str, DataFile]:
    known = state.tables.get(paths.table_key(table))
    return known.files if known else {}


def _damaged(path: str, cause: str | BaseException, hint: str = "") -> RelayError:
    return RelayError(StopCode.LAKE_DAMAGED, "read the lake's log", cause, position=path, hint=hint)


def verify(storage: Storage, state: LakeState) -> list[str]:
    """What is wrong with the files that count, a line each: missing ones, sizes, SHA-256. Reads all of them."""
    files = [file for table in state.tables.values() for file in table.files.values()]
    return [f"{file.path}: {wrong}" for file in files if (wrong := fault(storage, file))]


def fault(storage: Storage, file: DataFile) -> str:
    """What is wrong with a file that counts: missing, size, SHA-256; "" if nothing is. Reads all of it."""
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
