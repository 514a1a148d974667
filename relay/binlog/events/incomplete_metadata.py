"""What table maps lack even with binlog_row_metadata = FULL. Only the source's schema has it.

On MariaDB: types that look like BINARY (UUID, INET4, INET6), and the digits of temporal types in the formats before
10.1, which determine the length of their values. On every server: the display of numbers, which is ZEROFILL and the
digits of FLOAT(M,D) and DOUBLE(M,D).
"""

from __future__ import annotations

from typing import Final

import msgspec

from relay.base.errors import RelayError, StopCode
from relay.binlog.events.column_types import NUMERIC, OLD_TEMPORAL, MapColumn, Type
from relay.binlog.events.table_maps import TableMap
from relay.ddl.dialect import Dialect
from relay.journal.frames import Column, Definition

_LIKE_BINARY: Final = frozenset({"uuid", "inet4", "inet6"})
_LIKE_BINARY_SINCE: Final = {4: 101_000, 16: 100_500}
"""MariaDB's first release with such a type, by its size: INET4, and INET6 before UUID."""
_FLOATS: Final = frozenset({Type.FLOAT, Type.DOUBLE})


def may_lack_type(table_map: TableMap, dialect: Dialect) -> bool:
    """Whether a column may have one of MariaDB's types that table maps describe only in part."""
    return dialect.mariadb and any(
        column.type in OLD_TEMPORAL or _may_be_like_binary(column, dialect.version) for column in table_map.columns
    )


def _may_be_like_binary(column: MapColumn, version: int) -> bool:
    if column.type != Type.STRING or column.collation not in (None, 63):
        return False
    return version >= _LIKE_BINARY_SINCE.get(column.meta, version + 1)


def may_lack_display(table_map: TableMap) -> bool:
    """Whether a column may have a display of numbers that table maps lack. ZEROFILL makes a column unsigned."""
    return any(column.type in _FLOATS or (column.unsigned and _is_number(column)) for column in table_map.columns)


def has_display(definition: Definition) -> bool:
    """Whether a column has a display of numbers that table maps lack."""
    return any(_has_display(column) for column in definition.columns)


def completed(described: Definition, known: Definition) -> Definition:
    """Return the definition from a table map, completed from `known`, a definition of the same columns."""
    columns = []
    for column, other in zip(described.columns, known.columns, strict=True):
        if column.type in OLD_TEMPORAL:
            column = msgspec.structs.replace(column, meta=other.meta, sql_type=other.sql_type)
        elif other.sql_type in _LIKE_BINARY or _has_display(other):
            column = msgspec.structs.replace(column, sql_type=other.sql_type)
        columns.append(column)
    return msgspec.structs.replace(described, columns=columns)


def with_lengths(described: Definition, known: Definition) -> Definition:
    """Return the definition from a table map, with the lengths of values from `known`, and nothing else."""
    columns = [
        msgspec.structs.replace(column, meta=other.meta) if column.type in OLD_TEMPORAL else column
        for column, other in zip(described.columns, known.columns, strict=True)
    ]
    return msgspec.structs.replace(described, columns=columns)


def require_lengths(definition: Definition, cause: str, position: str = "") -> None:
    """Check a definition that comes from MariaDB's table map alone; `cause`: why there is no other.

    Raises `RelayError` (unsupported_column) if the length of a column's values is uncertain.
    """
    for column in definition.columns:
        if column.type in OLD_TEMPORAL:
            raise RelayError(
                StopCode.UNSUPPORTED_COLUMN,
                "read a table map",
                f"column {column.name} of {definition.schema}.{definition.table} has MariaDB's format from before 10.1,"
                f" and the number of its fractional digits is uncertain: {cause}",
                position=position,
                hint="exclude the table (ExcludeTables) until its rows have the newer format; ALTER TABLE ... FORCE"
                " converts it if mysql56_temporal_format is ON",
            )


def _is_number(column: MapColumn) -> bool:
    return column.type in NUMERIC and column.type != Type.YEAR  # its signedness bit has no meaning


def _has_display(column: Column) -> bool:
    return "zerofill" in column.sql_type or (column.type in _FLOATS and "," in column.sql_type)
