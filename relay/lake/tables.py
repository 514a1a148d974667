"""Tables of a lake: opens the lake, finds a table by its name, and says what the lake has of its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from relay.base.errors import ErrorCode, RelayError
from relay.lake.columns import generations_of
from relay.lake.documents import DataFile, Field, LakeState, Table, TableState, TableVersion
from relay.lake.log import LakeLog
from relay.lake.storage import Storage, open_storage
from relay.lake.types import generation_schema


class OpenLake(Protocol):
    """A lake's files, and what they are."""

    @property
    def storage(self) -> Storage:
        """The files."""

    def state(self) -> LakeState:
        """Return what the lake has."""


class FixedLake(NamedTuple):
    """A lake as it is now: what reads several tables of it sees them at one moment."""

    storage: Storage
    known: LakeState

    def state(self) -> LakeState:
        """Return what the lake had."""
        return self.known


Lake = str | os.PathLike[str] | OpenLake
"""A lake's path or URL, or its open log."""


PRESENT: Final = ("insert", "update_postimage", "snapshot")
"""The change types of a row that the table has afterwards."""

ROW_KINDS: Final = (*PRESENT, "update_preimage", "delete")
"""The change types of rows; all others are markers."""


class Bounds(NamedTuple):
    """What the lake has of a table: its state at `until`.

    It consists of changes above `reset` and of snapshot rows at or above it. `past`: that is not the end of the export.
    `stale`: rows have changed since in a way that only a snapshot can show.
    """

    reset: int
    until: int
    past: bool = False
    stale: bool = False


def open_lake(lake: Lake) -> OpenLake:
    """Open a lake, if it is not."""
    return LakeLog(open_storage(os.fspath(lake))) if isinstance(lake, (str, os.PathLike)) else lake


def open_log(lake: str | os.PathLike[str] | LakeLog) -> LakeLog:
    """Open the log of a lake."""
    return lake if isinstance(lake, LakeLog) else LakeLog(open_storage(os.fspath(lake)))


def find_table(state: LakeState, table: str | Table) -> TableState:
    """Find a table by its name, `schema.table`.

    Raises `RelayError` (usage) if there is none, or if several have that spelling.
    """
    found = [each for each in state.tables.values() if table in (each.table, str(each.table))]
    if len(found) == 1:
        return found[0]
    if found:
        cause = f"{len(found)} tables match {table}"
        hint = "give it as relay.lake.documents.Table(schema, table)"
    else:
        cause = f"the lake has no table {table}"
        known = sorted(str(each.table) for each in state.tables.values())
        hint = f"it has {', '.join(known[:10])}{' ...' if len(known) > 10 else ''}" if known else "it is empty"
    raise RelayError(ErrorCode.USAGE, "read the lake", cause, hint=hint)


def no_tables(operation: str, position: str) -> RelayError:
    """Return the error for a lake in which nothing is."""
    hint = "check the path: `relay export` or `[Lake] Path` has the path of the export"
    return RelayError(ErrorCode.USAGE, operation, "it has no tables", position=position, hint=hint)


def bounds_of(state: LakeState, table: TableState, as_of: int | None = None) -> Bounds:
    """Return what the lake has of a table, at the end of the export or at the number `as_of`.

    Raises `RelayError` (usage) if its rows are not known there.
    """
    check_end(state, table, as_of)
    complete, before = table.complete_from, table.before
    if complete is not None and state.place is not None and (as_of is None or as_of >= complete):
        return Bounds(table.reset, state.place.seq if as_of is None else as_of, past=as_of is not None)
    if before is not None and (as_of is None or before.complete_from <= as_of <= before.until):
        return Bounds(before.reset, before.until if as_of is None else as_of, past=True, stale=True)
    if as_of is not None and complete is not None:
        raise _unknown(table, as_of, f"the lake has all its rows from {complete} on", "give a later number")
    raise RelayError(
        ErrorCode.USAGE,
        f"read the state of {table.table}",
        "the lake lacks its rows from before the export" + (" yet" if table.snapshot is not None else ""),
        hint="run `relay snapshot`; the state is known when it is done",
    )


def check_end(state: LakeState, table: TableState, as_of: int | None) -> None:
    """Raise `RelayError` (usage) if `as_of` is beyond the end of the export."""
    if state.place is not None and as_of is not None and as_of > state.place.seq:
        raise _unknown(table, as_of, f"the lake ends at {state.place.seq}", "export more, or give an earlier number")


def _unknown(table: TableState, as_of: int, cause: str, hint: str) -> RelayError:
    return RelayError(ErrorCode.USAGE, f"read the state of {table.table} at {as_of}", cause, hint=hint)


def is_relevant(file: DataFile, bounds: Bounds) -> bool:
    """Whether the state within the bounds may depend on the file."""
    above = file.last > bounds.reset or (file.kind == "snapshot" and file.last == bounds.reset)
    return above and file.first <= bounds.until


def version_in(bounds: Bounds, table: TableState, counted: Sequence[DataFile]) -> TableVersion:
    """Return the version of a table at the end of the bounds; `counted` are the files that `is_relevant` accepts.

    For bounds before the end of the export it is the newest of these files: versions have no number.
    """
    if not bounds.past:
        return table.version
    return table.versions[max((file.version for file in counted), default=len(table.versions)) - 1]


def fields_in(table: TableState, version: TableVersion) -> list[Field]:
    """Return the fields of a version and its side columns with values, with the widest types in their generation."""
    versions = [each for each in generations_of(table)[version.generation] if each.version <= version.version]
    names = {field.name for field in version.fields}
    return [field for field in generation_schema(versions, table.sides) if field.name in names]
