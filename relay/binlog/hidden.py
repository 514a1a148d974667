"""What table maps leave unsaid even with binlog_row_metadata = FULL, so that only the source's schema tells it.

On MariaDB: types that look like BINARY (UUID, INET4, INET6), and the digits of temporal types in the formats of before
10.1, on which the length of their values depends. On every server: how numbers are printed, which is ZEROFILL and the
digits of FLOAT(M,D) and DOUBLE(M,D).
"""

from __future__ import annotations

from typing import Final

import msgspec

from relay.binlog.columntypes import NUMERIC, OLD_TEMPORAL, MapColumn, Type
from relay.binlog.tablemap import TableMap
from relay.errors import RelayError, StopCode
from relay.journal.frames import Column, Definition

_LIKE_BINARY: Final = frozenset({"uuid", "inet4", "inet6"})
_SIZES_OF_THESE: Final = frozenset({4, 16})
_FLOATS: Final = frozenset({Type.FLOAT, Type.DOUBLE})


def may_hide_a_type(table_map: TableMap) -> bool:
    """Whether a column may be of one of MariaDB's types that are not told in full."""
    return any(
        column.type in OLD_TEMPORAL
        or (column.type == Type.STRING and column.meta in _SIZES_OF_THESE and column.collation in (None, 63))
        for column in table_map.columns
    )


def may_hide_a_display(table_map: TableMap) -> bool:
    """Whether numbers of a column may be printed in a way that is not told. ZEROFILL makes a column unsigned."""
    return any(column.type in _FLOATS or (column.unsigned and _is_number(column)) for column in table_map.columns)


def has_a_display(definition: Definition) -> bool:
    """Whether numbers of a column are printed in a way that no table map tells."""
    return any(_has_a_display(column) for column in definition.columns)


def completed(told: Definition, known: Definition) -> Definition:
    """What a table map tells, and from `known`, a definition of the same columns, what it leaves unsaid."""
    columns = []
    for column, other in zip(told.columns, known.columns, strict=True):
        if column.type in OLD_TEMPORAL:
            column = msgspec.structs.replace(column, meta=other.meta, sql_type=other.sql_type)
        elif other.sql_type in _LIKE_BINARY or _has_a_display(other):
            column = msgspec.structs.replace(column, sql_type=other.sql_type)
        columns.append(column)
    return msgspec.structs.replace(told, columns=columns)


def sized(told: Definition, known: Definition) -> Definition:
    """What a table map tells, and of `known` no more than what values can be stepped over with."""
    columns = [
        msgspec.structs.replace(column, meta=other.meta) if column.type in OLD_TEMPORAL else column
        for column, other in zip(told.columns, known.columns, strict=True)
    ]
    return msgspec.structs.replace(told, columns=columns)


def require_lengths(definition: Definition, cause: str, position: str = "") -> None:
    """For MariaDB, where nothing but a table map tells what its rows are; `cause`: why.

    Raises `RelayError` (unsupported_column) if not even the lengths of their values are certain then.
    """
    for column in definition.columns:
        if column.type in OLD_TEMPORAL:
            raise RelayError(
                StopCode.UNSUPPORTED_COLUMN,
                "read a table map",
                f"column {column.name} of {definition.schema}.{definition.table} is in MariaDB's format of before 10.1,"
                f" and how many digits its fraction has is not certain: {cause}",
                position=position,
                hint="leave the table out (ExcludeTables) until its rows are of the newer format; ALTER TABLE ... FORCE"
                " converts it where mysql56_temporal_format is ON",
            )


def _is_number(column: MapColumn) -> bool:
    return column.type in NUMERIC and column.type != Type.YEAR  # whose bit of signedness says nothing


def _has_a_display(column: Column) -> bool:
    return "zerofill" in column.sql_type or (column.type in _FLOATS and "," in column.sql_type)
