"""The effect of CREATE TABLE: columns as stored, indexes with names, and everything that the server adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import (
    ColumnSpec,
    CreateTable,
    DataType,
    Generated,
    IndexKind,
    IndexPart,
    IndexSpec,
    Options,
    TableName,
)
from relay.ddl.tables import PRIMARY
from relay.ddl.types import GEOMETRIES, charset_of_collation
from relay.schema.columntype import BLOBS, TEXTS, stored_type, width_in_digits, width_of
from relay.schema.table import Column, Index, Table, find, is_among, same_name

_LONGEST_KEYS: Final = {"myisam": 1000, "aria": 2300}
_LONGEST_KEY: Final = 3072  # bytes, of InnoDB's row formats DYNAMIC and COMPRESSED
_HASHING_ENGINES: Final = frozenset({"memory", "heap"})
_SIZED: Final = frozenset({"char", "varchar", "binary", "varbinary"})
_BYTES_AT_MOST: Final = 8  # of a value of most other types
_POINT_BYTES: Final = 25  # the length of an index on a POINT, whatever the statement says
_PERIOD: Final = DataType("timestamp", 6)
_HASH: Final = DataType("bigint", 20, unsigned=True)
_SEQUENCE: Final = (
    "next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size", "cycle_option",
    "cycle_count",
)  # fmt: skip
_WITHOUT_LENGTH: Final = frozenset({*TEXTS, *BLOBS, *GEOMETRIES})


def created_table(statement: CreateTable, schema_charset: str, dialect: Dialect, *, shown: bool = False) -> Table:
    """Return the table that the statement creates; `schema_charset` is its schema's character set, empty if unknown.

    With `shown`, the statement comes from SHOW CREATE TABLE, with the indexes in their final order. Raises
    `NotUnderstood` if the result on the server is uncertain.
    """
    options = statement.options
    charset = charset_of(options, schema_charset, dialect)
    columns = [column_of(spec, charset, dialect) for spec in statement.columns]
    specs = [*column_indexes(statement.columns), *statement.indexes]
    if options.sequence:
        return sequence_table(statement.table, None, charset)
    versioned = options.versioned or any(spec.versioned for spec in statement.columns)
    table = Table(
        *statement.table, tuple(columns), (), charset,
        engine=options.engine, versioned=versioned, periods=statement.periods,
    )  # fmt: skip
    return with_indexes(table, add_indexes((), specs), dialect, sort=not shown)


def sequence_table(table: TableName, kind: DataType | None, charset: str) -> Table:
    """Return the table that holds a sequence; `kind` is the type of its numbers, None for the default."""
    count = DataType("bigint", 21)
    number = count if kind is None else kind._replace(length=width_in_digits(kind._replace(unsigned=False)) + 1)
    types = {
        "increment": count,
        "cache_size": count._replace(unsigned=True),
        "cycle_option": DataType("tinyint", 1, unsigned=True),
        "cycle_count": count,
    }
    columns = tuple(Column(each, types.get(each, number), False) for each in _SEQUENCE)
    return Table(*table, columns, (), charset, engine="sequence")


def charset_of(options: Options, otherwise: str, dialect: Dialect) -> str:
    """Return the character set in the options of a table or schema, `otherwise` if they have none."""
    if options.charset not in ("", "default"):
        return options.charset
    if options.collation and options.collation != "default":
        return charset_of_collation(options.collation, dialect) or otherwise
    return otherwise


def column_of(spec: ColumnSpec, charset: str, dialect: Dialect) -> Column:
    """Return the column as the server stores it; `charset` is the table's. Raises `NotUnderstood`."""
    kind = stored_type(spec.type, charset, dialect)
    return Column(spec.name, kind, _nullable(spec, dialect), spec.generated, "", spec.invisible)


def _nullable(spec: ColumnSpec, dialect: Dialect) -> bool | None:
    if spec.primary or spec.auto_increment or spec.generated in (Generated.ROW_START, Generated.ROW_END):
        return False
    if spec.nullable is not None:
        return spec.nullable
    if spec.type.name == "timestamp" and spec.generated is Generated.NO:
        # NOT NULL, unless explicit_defaults_for_timestamp is on.
        return dialect.explicit_timestamps
    return True


def column_indexes(specs: Iterable[ColumnSpec]) -> list[IndexSpec]:
    """Return the indexes in the definitions of columns."""
    found = []
    for spec in specs:
        part = (IndexPart(spec.name),)
        if spec.primary:
            found.append(IndexSpec(IndexKind.PRIMARY, PRIMARY, part))
        if spec.unique:
            found.append(IndexSpec(IndexKind.UNIQUE, "", part))
    return found


def add_indexes(indexes: Sequence[Index], specs: Iterable[IndexSpec]) -> tuple[Index, ...]:
    """Return the existing and the new indexes, with the names that the server gives them."""
    found = list(indexes)
    for spec in specs:
        name = spec.name or _name_for(spec, found)
        found.append(Index(spec.kind, name, spec.parts, spec.hashed, spec.overlaps))
    return tuple(found)


def _name_for(spec: IndexSpec, taken: Sequence[Index]) -> str:
    """Return the server's name for an index: that of its first column, with _2, _3 and so on if it is taken."""
    first = spec.parts[0].name or "functional_index"
    base = f"{first}_2" if same_name(first, PRIMARY) else first
    names = [base, *(f"{first}_{number}" for number in range(2, 100))]
    return next((name for name in names if not is_among(name, (index.name for index in taken))), "")


def with_indexes(table: Table, indexes: Iterable[Index], dialect: Dialect, *, sort: bool = True) -> Table:
    """Return the table with these indexes, the columns that the server adds, and the key. Raises `NotUnderstood`.

    With `sort`, the server sorts the indexes. MariaDB does not always do so when a table is altered; the key is
    uncertain if it depends on the order.
    """
    indexes = tuple(indexes)
    primary = next((index for index in indexes if index.kind is IndexKind.PRIMARY), None)
    keys = [part.name for part in primary.parts] if primary else []
    keys += [name for period in table.periods for name in (period.start, period.end)]
    columns = [
        msgspec.structs.replace(column, nullable=False) if is_among(column.name, keys) else column
        for column in table.columns
        if not column.implicit
    ]
    if table.versioned and not any(column.generated is Generated.ROW_START for column in columns):
        columns += [
            Column("row_start", _PERIOD, False, Generated.ROW_START, "period"),
            Column("row_end", _PERIOD, False, Generated.ROW_END, "period"),
        ]
    whole = tuple(_normalized(index, columns) for index in indexes)
    if dialect.mariadb:
        whole = tuple(_with_hash(index, table.engine, columns) for index in whole)
    if sort:
        whole = tuple(sorted(whole, key=lambda index: _sort_key(index, columns)))
    if dialect.mariadb:
        columns += _hashes(whole, columns)
    made = msgspec.structs.replace(table, columns=tuple(columns), indexes=whole)
    return msgspec.structs.replace(made, key=_key(made, whole, dialect))


def _key(table: Table, indexes: Sequence[Index], dialect: Dialect) -> frozenset[str]:
    """Return the columns of the primary key, or of the unique index that the server uses as the key.

    That is the first unique index of whole columns that are never NULL; on MariaDB, only if it is the first index of
    all.
    """
    primary = [index for index in indexes if index.kind is IndexKind.PRIMARY]
    considered = indexes[:1] if dialect.mariadb else indexes
    for index in (*primary, *(index for index in considered if _is_key_candidate(index, table.columns))):
        return frozenset(part.name for part in index.parts) | _bounds(table, index)
    return frozenset()


def _is_key_candidate(index: Index, columns: Sequence[Column]) -> bool:
    found = [find(columns, part.name) for part in index.parts]
    return (
        index.kind is IndexKind.UNIQUE
        and not index.hashed
        and all(column and column.nullable is False and column.generated is not Generated.VIRTUAL for column in found)
        and not any(part.length for part in index.parts)
    )


def _bounds(table: Table, index: Index) -> frozenset[str]:
    """Columns that belong to the key too: the end of system versioning, and the period that must not overlap."""
    found = {period.name: period for period in table.periods}.get(index.overlaps)
    names = {found.start, found.end} if found else set[str]()
    if table.versioned:
        names |= {column.name for column in table.columns if column.generated is Generated.ROW_END}
    return frozenset(names)


def _sort_key(index: Index, columns: Sequence[Column]) -> tuple[bool, ...]:
    """Return the sort key for the server's order of indexes, which decides about the index that serves as the key."""
    if index.kind is IndexKind.OTHER:
        return (True,)
    has_prefix = any(part.length for part in index.parts)
    return False, _is_nullable(index, columns), index.kind is not IndexKind.PRIMARY, has_prefix


def _is_nullable(index: Index, columns: Sequence[Column]) -> bool:
    """Whether a part of the index may be NULL."""
    found = [find(columns, part.name) for part in index.parts]
    return any(column is None or column.nullable is not False for column in found)


def _normalized(index: Index, columns: Sequence[Column]) -> Index:
    """Return the index with the columns' spelling of names; a part as long as its column becomes the whole column."""
    parts = []
    for part in index.parts:
        column = find(columns, part.name)
        if part.name and column is None:
            raise NotUnderstood(f"index {index.name} has a column {part.name} that is not there")
        length = 0 if column is None else _stored_length(part, column.type)
        parts.append(part._replace(name=column.name if column else "", length=length))
    return msgspec.structs.replace(index, parts=tuple(parts))


def _stored_length(part: IndexPart, kind: DataType) -> int:
    """Return the length of an index part as the server stores it: 0 for a whole column."""
    if kind.name == "point":
        return _POINT_BYTES
    if kind.name in _SIZED:
        return part.length if part.length < (kind.length or 0) else 0
    return part.length if kind.name in _WITHOUT_LENGTH else 0


def _with_hash(index: Index, engine: str, columns: Sequence[Column]) -> Index:
    """Return the index, marked if it is hashed.

    That is a unique one that is too long for the engine or has USING HASH (MariaDB).
    """
    longest = _LONGEST_KEYS.get(engine, _LONGEST_KEY)
    parts = [(part, find(columns, part.name)) for part in index.parts]
    hashed = index.kind is IndexKind.UNIQUE and engine not in _HASHING_ENGINES and (
        index.hashed
        or any(column and column.type.name in _WITHOUT_LENGTH and not part.length for part, column in parts)
        or sum(_bytes(part, column) for part, column in parts if column) > longest
    )  # fmt: skip
    return msgspec.structs.replace(index, hashed=hashed)


def _bytes(part: IndexPart, column: Column) -> int:
    kind = column.type
    if kind.name in _SIZED:
        return (part.length or kind.length or 0) * width_of(kind.charset)
    return part.length * width_of(kind.charset) if part.length else _BYTES_AT_MOST


def _hashes(indexes: Iterable[Index], columns: Sequence[Column]) -> list[Column]:
    """Return the columns of hashes: a hash is nullable if a part of its key is."""
    return [
        Column(f"DB_ROW_HASH_{number}", _HASH, _is_nullable(index, columns), Generated.VIRTUAL, "hash")
        for number, index in enumerate((index for index in indexes if index.hashed), 1)
    ]
