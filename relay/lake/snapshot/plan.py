"""What is fetched of a table: its columns as they stand, the version that their rows are written in, and its key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from pymysql.connections import Connection

from relay.binlog.connect import query
from relay.binlog.facts import ServerFacts
from relay.ddl.syntax import Generated, IndexKind, TableName
from relay.errors import RelayError, StopCode
from relay.journal.frames import Column, Definition
from relay.lake.documents import Field, Table, TableVersion
from relay.lake.snapshot.keys import KeyPart
from relay.lake.snapshot.select import Selected, can_become, quoted, selected
from relay.lake.types import arrow_type, evolve, fields_of
from relay.schema import look
from relay.schema import table as schema
from relay.schema.matching import definition

_SYSTEM: Final = ("mysql", "information_schema", "performance_schema", "sys")


class Plan(NamedTuple):
    """How a table is fetched.

    `selects` has an entry a column, in the binlog's order; `version` is that of the rows' files. `key` is empty if the
    table has none, and if it is on a part of a column: then rows cannot be asked for in its order. `source` is the
    table as SQL, all its rows of the past too where it keeps them, as the binlog does.
    """

    table: Table
    version: TableVersion
    selects: Sequence[Selected]
    key: Sequence[KeyPart]
    source: str

    @property
    def key_names(self) -> list[str]:
        """The key as `Snapshot.key` has it."""
        return [part.column.name + (" DESC" if part.descending else "") for part in self.key]

    def arrays(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The arrays of the version's fields out of the results of `selects`, each of binary.

        Raises `pyarrow.ArrowInvalid` if a value is none of its column's type.
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
    """The tables of the source that the account may see, by name, but for the server's own."""
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
    """How to fetch a table as it stands, columns that `keeps` refuses left out; `versions` are those that the lake has.

    `connection` is one to ask for definitions (`relay.schema.look.prepare`).
    Raises `RelayError` (source_denied) if the account may not read the table or it is gone, (unsupported_column) if its
    definition is not understood; `SourceLost`.
    """
    found = look.state(connection, server, TableName(table.schema, table.table))
    if not isinstance(found, schema.Table):
        raise not_to_be_read(table, found)
    key, primary = _key(found), found.key
    if not all(map(keeps, primary)):  # what remains of a key does not tell rows apart
        key, primary = [], frozenset()
    columns = [column for column in found.columns if keeps(column.name)]
    kept = msgspec.structs.replace(found, columns=tuple(columns), key=primary)
    described = definition(kept, look.dialect(server))
    version = _version(table, columns, described, versions)
    own = [field for field in version.fields if not field.side]
    return Plan(
        table,
        version,
        [selected(column, field) for column, field in zip(columns, own, strict=True)],
        key,
        f"{quoted(table.schema)}.{quoted(table.table)}" + (" FOR SYSTEM_TIME ALL" if found.versioned else ""),
    )


def not_to_be_read(table: Table, found: schema.State = schema.ABSENT) -> RelayError:
    """The error for a table without a definition; `found` is what the source says of it."""
    if isinstance(found, schema.Unknown) and found.cause != look.DENIED:
        return RelayError(
            StopCode.UNSUPPORTED_COLUMN,
            "snapshot",
            f"its definition is not understood: {found.cause}",
            position=str(table),
            hint="leave the table out (ExcludeTables)",
        )
    return RelayError(
        StopCode.SOURCE_DENIED,
        "snapshot",
        "the table is gone, or the account may not read it",
        position=str(table),
        hint=f"GRANT SELECT ON {quoted(table.schema)}.{quoted(table.table)} to the account; `relay check` names it",
    )


def _key(table: schema.Table) -> list[KeyPart]:
    """The primary key; nothing if a part of it is the beginning of a column only."""
    index = next((index for index in table.indexes or () if index.kind is IndexKind.PRIMARY), None)
    if index is None or any(part.length for part in index.parts):
        return []
    by_name = {column.name: column for column in table.columns}
    parts = [KeyPart(by_name[part.name], part.descending) for part in index.parts]
    # Rows of the past are told apart by when they ended.
    return parts + [
        KeyPart(column)
        for column in table.columns
        if column.implicit == "period" and column.generated is Generated.ROW_END
    ]


def _version(
    table: Table, columns: Sequence[schema.Column], described: Definition, versions: Sequence[TableVersion]
) -> TableVersion:
    """The newest version, if rows of these columns can be written in it; else the one that follows it."""
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
    """Whether the field is what the column's own would be: labels and lengths may be told in another way."""
    [own, *_], _ = fields_of(Definition("", "", 0, 0, 0, True, [described]))
    return field.type == own.type or (column.type.name in ("enum", "set") and can_become(column, field.type))
