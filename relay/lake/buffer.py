"""The buffer of the export: rows by table, version and date, new versions, and markers, until they are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from relay.base.errors import RelayError, StopCode
from relay.journal.frames import Definition
from relay.lake import paths, types
from relay.lake.arrow import pyarrow
from relay.lake.documents import DataFile, Field, Marker, Table, TableState, TableVersion
from relay.lake.log import versions_of
from relay.lake.markers import Where, marker_row
from relay.lake.storage import Storage
from relay.lake.writer import seal

if TYPE_CHECKING:
    from relay._native import ChangeColumns

_MOST_DEFINITIONS: Final = 4096
_UNPROVEN: Final = (
    "set binlog_row_metadata = FULL on the source; for rows in the journal, exclude the table from the export,"
    " or export columns as @1, @2, ... with `OnUnproven = positional` in [Relay]"
)


class _Group(NamedTuple):
    version: TableVersion
    date: str
    batches: list[pyarrow.RecordBatch]


class PendingCommit:
    """The pending commit: rows, versions and markers on top of the log's `tables`.

    Nothing is written before `seal`.
    """

    def __init__(self, tables: Mapping[str, TableState], positional: bool = False) -> None:
        """With `positional`, rows whose definition is not proven are exported with columns @1, @2, ..."""
        self._tables = tables
        self._positional = positional
        self._versions: dict[str, list[TableVersion]] = {}  # by table: the log's versions, then the new ones
        self._groups: dict[tuple[str, int, str], _Group] = {}
        self.versions: list[TableVersion] = []
        self.markers: list[Marker] = []
        self.files: list[DataFile] = []
        self.rows = 0  # not yet in `files`
        self.bytes = 0  # size of these rows

    def __bool__(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._groups or self.files or self.markers or self.versions)

    def add(self, columns: Iterable[ChangeColumns], timestamp: int) -> None:
        """Add what the reader has read, in its order.

        `timestamp` is that of the last row, in Unix seconds. Raises `RelayError` (schema_unproven).
        """
        for each in columns:
            definition = _definition(each.definition)
            table = Table(definition.schema, definition.table)
            if not (definition.proven or self._positional):
                cause = "the names and types of its columns are unproven"
                raise RelayError(
                    StopCode.SCHEMA_UNPROVEN, "export to the lake", cause, position=str(table), hint=_UNPROVEN
                )
            version = self.define(definition, each.first - 1, timestamp)
            self._append(version, each.date, pyarrow.record_batch(each))

    def define(self, definition: Definition, seq: int, timestamp: int) -> TableVersion:
        """Return the version for rows of this definition that come after `seq`."""
        table = Table(definition.schema, definition.table)
        before = self._known_versions(table)[-1:]
        version = self._version(table, *types.fields_of(definition))
        if before and version.key and _key_of(version) != _key_of(before[0]):
            self._reset(table, seq, timestamp, "its key changed")
        elif before and version.generation != before[0].generation:
            self._reset(table, seq, timestamp, "its types changed")
        return version

    def knows(self, table: Table) -> bool:
        """Whether the columns of the table are known."""
        return bool(self._known_versions(table))

    def _reset(self, table: Table, seq: int, timestamp: int, why: str) -> None:
        """Reset a table as of `seq`: earlier rows have other types, or another key that may not identify them.

        The statements that do this reset the table too. But an index that serves as the key can change without such a
        statement, and types that no table map contains (MariaDB's UUID and INET) may have been uncertain before.
        """
        state = self.tables()[paths.table_key(table)]
        begun = state.complete_from is not None or state.snapshot is not None
        if begun and seq > state.reset and all(marker.table != table for marker in self.markers):
            self.markers.append(Marker(table, "reset", seq, timestamp, why))

    def tables(self) -> dict[str, TableState]:
        """Return the log's tables with the pending versions and markers applied."""
        tables = dict(self._tables)
        for key, versions in self._versions.items():
            state = tables.get(key) or TableState(versions[0].table)
            tables[key] = msgspec.structs.replace(state, versions=versions)
        for marker in self.markers:
            key = paths.table_key(marker.table)
            state = tables.get(key) or TableState(marker.table)
            tables[key] = msgspec.structs.replace(state, reset=marker.seq, last_marker=marker.kind)
        return tables

    def add_markers(self, markers: Sequence[Marker], where: Where) -> None:
        """Add the markers of one statement; each gets a row in its table's files if the table's columns are known."""
        for marker in markers:
            self.markers.append(marker)
            if versions := self._known_versions(marker.table):
                date = datetime.fromtimestamp(where.timestamp, UTC).strftime("%Y-%m-%d")
                schema = types.file_schema(versions[-1])
                self._append(versions[-1], date, marker_row(schema, marker.kind, where, versions[-1].version))

    def seal(self, storage: Storage, chunk: str, alive: Callable[[], None]) -> None:
        """Write the buffered rows to `files`; `alive` is called after each file."""
        for group in self._groups.values():
            self.files.append(seal(storage, group.version, group.date, "changes", group.batches, chunk))
            alive()
        self._groups.clear()
        self.rows = self.bytes = 0

    def rebase(self, tables: Mapping[str, TableState]) -> bool:
        """Build on the log's new `tables`. Returns False if they have other versions than this commit builds on.

        A version that another writer has committed identically is no longer new.
        """
        self.versions = [each for each in self.versions if each not in versions_of(tables, each.table)]
        self._tables = tables
        for versions in self._versions.values():
            logged = versions_of(tables, versions[0].table)
            if versions[: len(logged)] != logged:
                return False
        return True

    def _version(self, table: Table, fields: Sequence[Field], key: Sequence[str]) -> TableVersion:
        known = self._known_versions(table)
        version = types.evolve(known, table, fields, key)
        if not known or version is not known[-1]:
            known.append(version)
            self.versions.append(version)
        self._versions[paths.table_key(table)] = known
        return version

    def _known_versions(self, table: Table) -> list[TableVersion]:
        key = paths.table_key(table)
        return self._versions[key] if key in self._versions else list(versions_of(self._tables, table))

    def _append(self, version: TableVersion, date: str, batch: pyarrow.RecordBatch) -> None:
        key = (paths.table_key(version.table), version.version, date)
        self._groups.setdefault(key, _Group(version, date, [])).batches.append(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes


def _key_of(version: TableVersion) -> list[tuple[str, str]]:
    """Return the fields that identify a row: those of the key and their side columns."""
    named = {field.column for field in version.fields if field.name in version.key and not field.side}
    return [(field.name, field.side) for field in version.fields if field.column in named]


@lru_cache(_MOST_DEFINITIONS)
def _definition(packed: bytes) -> Definition:
    return msgspec.msgpack.decode(packed, type=Definition)
