"""Brings one open table to the state of the lake: which changes are missing, and whether the table is made anew."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.base.errors import RelayError, StopCode
from relay.lake.arrow import pyarrow
from relay.lake.columns import key_columns
from relay.lake.delta.actions import Action, MetaData, Protocol, Transaction
from relay.lake.delta.data_files import statistics_of
from relay.lake.delta.images import images
from relay.lake.delta.log import DeltaLog
from relay.lake.delta.merge import Merge
from relay.lake.delta.schema import schema_string
from relay.lake.delta.vacuum import Vacuum
from relay.lake.delta.windows import Window, windows
from relay.lake.documents import DataFile, Field, LakeState, Table, TableState
from relay.lake.reading import TableRows, is_last, key_rows
from relay.lake.storage import Storage
from relay.lake.tables import PRESENT, ROW_KINDS, Bounds, bounds_of, fields_in, is_relevant
from relay.lake.types import META_FIELDS

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.$-]")

APPLIED: Final = "binlog-relay"
"""The application whose transaction has the `_seq` up to which a table has all changes."""

_RESET: Final = "binlog-relay.reset"
_FIELDS: Final = "binlog-relay.fields"
_KEY: Final = "binlog-relay.key"
_SEQ: Final = "_seq"
_KIND: Final = "_change_type"
_META: Final = {field.name: field for field in META_FIELDS}
_MUCH_BYTES: Final = 4 << 20  # written: the memory for that is not needed again soon


class Merged(NamedTuple):
    """What a merge did: the rows of the changes, of the files that it wrote, and their bytes; and its seconds."""

    changes: int
    rows: int
    bytes: int
    seconds: float


def folder_of(table: Table) -> str:
    """Return the folder of an open table, relative to the lake: `delta/shop/orders`.

    Bytes of a name that an URL would encode are `~` and two hex digits: engines decode `%`, and Polars reads no others.
    """
    return "/".join(["delta", _safe(table.schema), _safe(table.table)])


def _safe(name: str) -> str:
    encoded = _UNSAFE.sub(lambda found: "".join(f"~{byte:02X}" for byte in found[0].encode()), name)
    return f"~2E{encoded[1:]}" if encoded.startswith(".") else encoded


class OpenTable:
    """One open table. Not thread-safe."""

    def __init__(self, storage: Storage, table: Table, alive: Callable[[], None] = lambda: None) -> None:
        """Read its log; `alive` is called during long work, and may raise.

        Raises RelayError: lake_conflict or lake_damaged.
        """
        self.table = table
        self.log = DeltaLog(storage, folder_of(table))
        self.alive = alive
        self._vacuum = Vacuum(self.log)
        self._seen: tuple[int, int, int] | None = None  # of the lake, when the table was last brought up to it

    @property
    def rows(self) -> int:
        """The number of live rows."""
        deleted = sum(add.deletion_vector.cardinality for add in self.log.files.values() if add.deletion_vector)
        return sum(statistics_of(add).num_records for add in self.log.files.values()) - deleted

    @property
    def bytes(self) -> int:
        """The bytes of its data files."""
        return sum(add.size for add in self.log.files.values())

    @property
    def applied(self) -> int:
        """The `_seq` up to which it has all changes."""
        return self.log.transactions.get(APPLIED, -1)

    def lacks(self, state: LakeState, known: TableState) -> bool:
        """Whether the table may lack changes of the lake.

        While the lake does not know the table's rows, for example during a snapshot, the last state stays.
        """
        if known.complete_from is None or state.place is None or not known.versions:
            return False
        return _mark(known) != self._seen and (self.log.version >= 0 or known.last_marker != "drop")

    def update(self, state: LakeState, known: TableState) -> Merged | None:
        """Bring the table to the end of the export, in one commit. Returns None if it has everything.

        Raises RelayError: lake_conflict if somebody else has written to the table, or lake_damaged.
        """
        if not self.lacks(state, known):
            return None
        begun = time.monotonic()
        merged = _Update(self, bounds_of(state, known), known).run()
        self._seen = _mark(known)
        self._vacuum.run()
        if merged and merged.bytes > _MUCH_BYTES:
            pyarrow.default_memory_pool().release_unused()
        return merged and merged._replace(seconds=time.monotonic() - begun)


def _mark(known: TableState) -> tuple[int, int, int]:
    """Return what differs if a table has changed."""
    return known.version.version, known.reset, max((file.last for file in known.files.values()), default=0)


class _Update:
    """The missing changes of a table, and the merge that adds them."""

    def __init__(self, table: OpenTable, bounds: Bounds, known: TableState) -> None:
        self._log = table.log
        self._alive = table.alive
        self._bounds = bounds
        self._known = known
        self._key = known.version.key
        self._fields = fields_in(known, known.version)
        self._identity = key_columns(self._fields, self._key) if self._key else [field.name for field in self._fields]
        before = self._log.meta_data
        self._before = msgspec.json.decode(before.configuration[_FIELDS], type=list[Field]) if before else None
        key = msgspec.json.decode(before.configuration[_KEY], type=list[str]) if before else None
        self._anew = key != self._key or self._log.transactions.get(_RESET) != bounds.reset
        self._start = bounds.reset - 1 if self._anew else table.applied

    def run(self) -> Merged | None:
        """Merge and commit."""
        bounds, known = self._bounds, self._known
        files = [file for file in known.files.values() if is_relevant(file, bounds) and file.last > self._start]
        if not self._anew:
            files = [file for file in files if file.kind == "changes"]
        merge = Merge(self._log, self._fields, self._identity, anew=self._anew)
        try:
            changes, actions = self._prepare(merge, files)
        except (OSError, pyarrow.ArrowInvalid) as error:
            merge.discard()
            folder = self._log.storage.url(self._log.folder)
            raise RelayError(
                StopCode.LAKE_DAMAGED, "read the lake's changes of an open table", error, position=folder,
                hint="restore the lake's file from a backup, then delete the table's folder",
            ) from error  # fmt: skip
        except BaseException:
            merge.discard()
            raise
        if actions:
            self._log.commit("CREATE TABLE" if self._log.version < 0 else "MERGE", actions)
        return Merged(changes, merge.rows_written, merge.bytes_written, 0.0) if actions else None

    def _prepare(self, merge: Merge, files: Sequence[DataFile]) -> tuple[int, list[Action]]:
        """Return the number of changes, and the actions of the commit; none if nothing has changed."""
        bounds = self._bounds
        actions: list[Action] = [Protocol()] if self._log.version < 0 else []
        if self._before != self._fields or self._anew:
            actions.append(self._meta_data())
            if self._before is not None and not self._anew and not _extends(self._before, self._fields):
                merge.rewrite(self._before)
        changes = self._merge_all(merge, files)
        if not changes and not actions:
            return 0, []
        merge.compact(self._alive)
        actions += merge.actions()
        now = int(time.time() * 1000)
        actions += [Transaction(APPLIED, bounds.until, now), Transaction(_RESET, bounds.reset, now)]
        return changes, actions

    def _merge_all(self, merge: Merge, files: Sequence[DataFile]) -> int:
        """Apply all rows of files, and return the number of changes."""
        fields = [*self._fields, _META[_SEQ], _META[_KIND]]
        rows = TableRows(self._log.storage, self._known, fields, self._start, self._bounds.until)
        snapshot = max((file.last for file in files if file.kind == "snapshot"), default=-1)
        changes = 0
        for window in windows(files, self._start, self._bounds.until):
            self._alive()
            read = self._read(rows, window)
            if not read.num_rows:
                continue
            if self._key:
                changed = self._last(read)
                merge.apply(changed)
            else:
                changed = self._counted(read, snapshot)
                merge.apply_counts(changed)
            changes += changed.num_rows
        return changes

    def _read(self, rows: TableRows, window: Window) -> pyarrow.Table:
        within = rows.within(window.start, window.end)
        batches = within.batches(sorted(window.files, key=_order), within.names)
        return pyarrow.Table.from_batches(batches, within.schema(within.names))

    def _last(self, rows: pyarrow.Table) -> pyarrow.Table:
        """Return the last row of each key, and whether it is `present`."""
        marks = pyarrow.Table.from_batches([key_rows(each, self._identity, self._bounds) for each in rows.to_batches()])
        rows = rows.append_column("present", marks["present"]).drop_columns([_SEQ, _KIND])
        return rows.filter(is_last(marks))

    def _counted(self, rows: pyarrow.Table, snapshot: int) -> pyarrow.Table:
        """Return different rows, and the `count` of each: how many more of them there are after these changes.

        A snapshot of a table without a key is all its rows at one `_seq`, and includes all changes up to that.
        """
        pc = pyarrow.compute
        seq, kind = rows[_SEQ], rows[_KIND]
        later = pc.greater(seq, max(snapshot, self._bounds.reset))
        counts = pc.or_(later, pc.and_(pc.equal(seq, snapshot), pc.equal(kind, "snapshot")))
        rows = rows.filter(pc.and_(counts, pc.is_in(kind, pyarrow.array(ROW_KINDS))))
        sign = pc.if_else(pc.is_in(rows[_KIND], pyarrow.array(PRESENT)), 1, -1)
        numbers = pyarrow.array(range(rows.num_rows), pyarrow.int64())
        table = pyarrow.table({"image": images(rows, self._identity), "sign": sign, "number": numbers})
        sums = table.group_by("image").aggregate([("sign", "sum"), ("number", "max")])
        sums = sums.filter(pc.not_equal(sums["sign_sum"], 0))
        return rows.drop_columns([_SEQ, _KIND]).take(sums["number_max"]).append_column("count", sums["sign_sum"])

    def _meta_data(self) -> MetaData:
        before = self._log.meta_data
        return MetaData(
            id=before.id if before else str(uuid.uuid4()),
            schema_string=schema_string(self._fields),
            created_time=before.created_time if before else int(time.time() * 1000),
            configuration={
                "delta.enableDeletionVectors": "true",
                _FIELDS: msgspec.json.encode(self._fields).decode(),
                _KEY: msgspec.json.encode(self._key).decode(),
            },
        )


def _extends(before: Sequence[Field], after: Sequence[Field]) -> bool:
    """Whether files with the fields `before` can be read with the fields `after`: those have more columns only."""
    types = {field.name: field.type for field in after}
    return all(types.get(field.name) == field.type for field in before)


def _order(file: DataFile) -> tuple[int, int, str]:
    return file.first, file.last, file.path
