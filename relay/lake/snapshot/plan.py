"""The plan for reading a table: its current columns, the version of its rows, and its key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from pymysql.connections import Connection

from relay.base.errors import RelayError, StopCode
from relay.ddl.syntax import Generated, IndexKind, TableName
from relay.journal.frames import Column, Definition
from relay.lake.documents import Field, Table, TableVersion
from relay.lake.snapshot.keys import KeyPart
from relay.lake.snapshot.select import Selected, can_become, quoted, selected
from relay.lake.types import arrow_type, evolve, fields_of
from relay.schema import source_tables
from relay.schema import table as schema
from relay.schema.matching import definition
from relay.source.connect import query
from relay.source.facts import ServerFacts

_SYSTEM: Final = ("mysql", "information_schema", "performance_schema", "sys")


class Plan(NamedTuple):
    """How a table is read.

    `columns` are in the binlog's order, and `selects` has one entry for each; `version` is that of the files. `key` is
    empty if the table has no key, or one on a prefix of a column: rows cannot be read in its order. `source` is the
    table as SQL, including the history rows of a system-versioned table, as in the binlog.
    """

    table: Table
    version: TableVersion
    columns: Sequence[schema.Column]
    selects: Sequence[Selected]
    key: Sequence[KeyPart]
    source: str

    def reads_like(self, other: Plan) -> bool:
        """Whether both plans read the same definition.

        The versions do not suffice: a text's character set is not part of them, but text read with another is wrong.
        """
        return self._replace(selects=()) == other._replace(selects=())

    @property
    def key_names(self) -> list[str]:
        """The key in the form of `Snapshot.key`."""
        return [part.column.name + (" DESC" if part.descending else "") for part in self.key]

    def arrays(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Convert the results of `selects`, arrays of binary, to the arrays of the version's fields.

        Raises `pyarrow.ArrowInvalid` if a value does not fit its column's type.
        """
        values: list[pa.Array] = []
        beside: dict[str, pa.Array | None] = {}
        own = [field for field in self.version.fields if not field.side]
        for field, select, column in zip(own, self.selects, columns, strict=True):
            value, side = select.convert(column)
            values.append(value)
            beside[field.column] = side
        for field in self.version.fields[len(own) :]:
            kind, side = arrow_type(field.type), beside[field.column]
            values.append(pa.nulls(len(values[0]), kind) if side is None else side.cast(kind))
        return values


def tables(connection: Connection[Any], wanted: Callable[[str, str], bool]) -> list[Table]:
    """Return the source's tables that the account may see, by name, without the system schemas."""
    rows = query(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        f" WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA NOT IN {_SYSTEM}"
        " ORDER BY TABLE_SCHEMA, TABLE_NAME",
        "list the tables",
    )
    return [Table(str(schema), str(table)) for schema, table in rows if wanted(str(schema), str(table))]


def plan(
    connection: Connection[Any],
    server: ServerFacts,
    table: Table,
    versions: Sequence[TableVersion],
    keeps: Callable[[str], bool],
) -> Plan:
    """Plan the reading of a table as it is now, without the columns for which `keeps` returns False.

    `versions` are those in the lake; `connection` is one that `relay.schema.source_tables.prepare` has set up. Raises
    `RelayError`: source_denied if the account may not read the table or it is gone, unsupported_column if its
    definition is not understood; `SourceLost`.
    """
    found = source_tables.query_state(connection, server, TableName(table.schema, table.table))
    if not isinstance(found, schema.Table):
        raise unreadable_error(table, found)
    key, primary = _key(found), found.key
    if not all(map(keeps, primary)):  # the rest of a key does not identify rows
        key, primary = [], frozenset()
    columns = [column for column in found.columns if keeps(column.name)]
    kept = msgspec.structs.replace(found, columns=tuple(columns), key=primary)
    described = definition(kept, source_tables.dialect_of(server))
    version = _version(table, columns, described, versions)
    own = [field for field in version.fields if not field.side]
    return Plan(
        table,
        version,
        columns,
        [selected(column, field) for column, field in zip(columns, own, strict=True)],
        key,
        f"{quoted(table.schema)}.{quoted(table.table)}" + (" FOR SYSTEM_TIME ALL" if found.versioned else ""),
    )


def unreadable_error(table: Table, found: schema.State = schema.ABSENT) -> RelayError:
    """Return the error for a table without a usable definition; `found` is the source's reply."""
    if isinstance(found, schema.Unknown) and found.cause != source_tables.DENIED:
        return RelayError(
            StopCode.UNSUPPORTED_COLUMN,
            "snapshot",
            f"its definition is unknown: {found.cause}",
            position=str(table),
            hint="exclude the table (ExcludeTables)",
        )
    return RelayError(
        StopCode.SOURCE_DENIED,
        "snapshot",
        "the table is gone, or the account is not allowed to read it",
        position=str(table),
        hint=f"GRANT SELECT ON {quoted(table.schema)}.{quoted(table.table)} to the account; `relay check` names it",
    )


def _key(table: schema.Table) -> list[KeyPart]:
    """Return the primary key; empty if a part of it is only a prefix of a column."""
    index = next((index for index in table.indexes or () if index.kind is IndexKind.PRIMARY), None)
    if index is None or any(part.length for part in index.parts):
        return []
    by_name = {column.name: column for column in table.columns}
    parts = [KeyPart(by_name[part.name], part.descending) for part in index.parts]
    # History rows are identified by their end.
    return parts + [
        KeyPart(column)
        for column in table.columns
        if column.implicit == "period" and column.generated is Generated.ROW_END
    ]


def _version(
    table: Table, columns: Sequence[schema.Column], described: Definition, versions: Sequence[TableVersion]
) -> TableVersion:
    """Return the newest version if it fits rows of these columns, else the version that follows it."""
    fields, key = fields_of(described)
    if versions:
        newest = versions[-1].fields
        own = [field for field in newest if not field.side]
        if (
            [field.column for field in own] == [column.name for column in columns]
            and {(field.column, field.side) for field in fields} <= {(field.column, field.side) for field in newest}
            and all(map(_fits, columns, described.columns, own))
        ):
            return versions[-1]
    return evolve(versions, table, fields, key)


def _fits(column: schema.Column, described: Column, field: Field) -> bool:
    """Whether the field is equivalent to the column's own: labels and lengths may be spelled differently."""
    [own, *_], _ = fields_of(Definition("", "", 0, 0, 0, True, [described]))
    return field.type == own.type or (column.type.name in ("enum", "set") and can_become(column, field.type))
