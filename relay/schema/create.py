"""What CREATE TABLE makes: columns spelled out, indexes with names, and what the server adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from relay.ddl.cursor import NotUnderstood
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import (
    ColumnSpec,
    CreateSequence,
    CreateTable,
    DataType,
    Generated,
    IndexKind,
    IndexPart,
    IndexSpec,
    Options,
)
from relay.ddl.tables import PRIMARY
from relay.ddl.types import GEOMETRIES, charset_of_collation
from relay.schema.columntype import BLOBS, TEXTS, spelled_out, width_in_digits, width_of
from relay.schema.table import Column, Index, Table, find, same_name

_LONGEST_KEYS: Final = {"myisam": 1000, "aria": 2300}
_LONGEST_KEY: Final = 3072  # bytes, of InnoDB's row formats DYNAMIC and COMPRESSED
_HASHING_ENGINES: Final = frozenset({"memory", "heap"})
_SIZED: Final = frozenset({"char", "varchar", "binary", "varbinary"})
_BYTES_AT_MOST: Final = 8  # of a value of most other types
_POINT_BYTES: Final = 25  # an index of a POINT has these, whatever it says
_PERIOD: Final = DataType("timestamp", 6)
_HASH: Final = DataType("bigint", 20, unsigned=True)
_SEQUENCE: Final = (
    "next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size", "cycle_option",
    "cycle_count",
)  # fmt: skip
_WITHOUT_LENGTH: Final = frozenset({*TEXTS, *BLOBS, *GEOMETRIES})


def created(statement: CreateTable, schema_charset: str, dialect: Dialect, *, shown: bool = False) -> Table:
    """The table that the statement makes; `schema_charset` is its schema's, empty if it is not known.

    `shown`: the statement is the server's answer to SHOW CREATE TABLE, with indexes in their own order. Raises
    `NotUnderstood` where what the server makes of it is not certain.
    """
    options = statement.options
    charset = charset_of(options, schema_charset, dialect)
    columns = [column_of(spec, charset, dialect) for spec in statement.columns]
    specs = [*own_indexes(statement.columns), *statement.indexes]
    schema, name = statement.table
    if options.sequence:
        return _sequence(schema, name, None, charset)
    versioned = options.versioned or any(spec.versioned for spec in statement.columns)
    table = Table(
        schema,
        name,
        tuple(columns),
        (),
        charset,
        engine=options.engine,
        versioned=versioned,
        periods=statement.periods,
    )
    return finished(table, add_indexes((), specs), dialect, sort=not shown)


def made_sequence(statement: CreateSequence, schema_charset: str) -> Table:
    """The table that holds a sequence. Raises `NotUnderstood`."""
    return _sequence(*statement.table, statement.type, schema_charset)


def _sequence(schema: str, name: str, kind: DataType | None, charset: str) -> Table:
    count = DataType("bigint", 21)
    number = count if kind is None else kind._replace(length=(width_in_digits(kind._replace(unsigned=False)) or 0) + 1)
    types = {
        "increment": count,
        "cache_size": count._replace(unsigned=True),
        "cycle_option": DataType("tinyint", 1, unsigned=True),
        "cycle_count": count,
    }
    columns = tuple(Column(each, types.get(each, number), False) for each in _SEQUENCE)
    return Table(schema, name, columns, (), charset, engine="sequence")


def charset_of(options: Options, otherwise: str, dialect: Dialect) -> str:
    """The character set that options of a table or schema name, `otherwise` if they name none."""
    if options.charset not in ("", "default"):
        return options.charset
    if options.collation and options.collation != "default":
        return charset_of_collation(options.collation, dialect) or otherwise
    return otherwise


def column_of(spec: ColumnSpec, charset: str, dialect: Dialect) -> Column:
    """A column as the server keeps it; `charset` is the table's. Raises `NotUnderstood`."""
    kind = spelled_out(spec.type, charset, dialect)
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


def own_indexes(specs: Iterable[ColumnSpec]) -> list[IndexSpec]:
    """The indexes that are part of columns' definitions."""
    found = []
    for spec in specs:
        part = (IndexPart(spec.name),)
        if spec.primary:
            found.append(IndexSpec(IndexKind.PRIMARY, PRIMARY, part))
        if spec.unique:
            found.append(IndexSpec(IndexKind.UNIQUE, "", part))
    return found


def add_indexes(indexes: Sequence[Index], specs: Iterable[IndexSpec]) -> tuple[Index, ...]:
    """The indexes, and those that are defined anew, with the names that the server gives."""
    found = list(indexes)
    for spec in specs:
        name = spec.name or _name_for(spec, found)
        found.append(Index(spec.kind, name, spec.parts, spec.hashed, spec.overlaps))
    return tuple(found)


def _name_for(spec: IndexSpec, taken: Sequence[Index]) -> str:
    """As its first column; where an index has that name, with _2, _3 and so on."""
    first = spec.parts[0].name or "functional_index"
    base = f"{first}_2" if same_name(first, PRIMARY) else first
    names = [base, *(f"{first}_{number}" for number in range(2, 100))]
    return next((name for name in names if not any(same_name(name, index.name) for index in taken)), "")


def finished(table: Table, indexes: Iterable[Index], dialect: Dialect, *, sort: bool = True) -> Table:
    """The table with these indexes, and all that follows from them. Raises `NotUnderstood`.

    `sort`: the server sorts them. MariaDB does not always do so when a table is altered; the key is not certain where
    it depends on that.
    """
    indexes = tuple(indexes)
    primary = next((index for index in indexes if index.kind is IndexKind.PRIMARY), None)
    keys = [part.name for part in primary.parts] if primary else []
    keys += [name for period in table.periods for name in (period.start, period.end)]
    columns = [
        msgspec.structs.replace(column, nullable=False) if any(same_name(column.name, key) for key in keys) else column
        for column in table.columns
        if not column.implicit
    ]
    if table.versioned and not any(column.generated is Generated.ROW_START for column in columns):
        columns += [
            Column("row_start", _PERIOD, False, Generated.ROW_START, "period"),
            Column("row_end", _PERIOD, False, Generated.ROW_END, "period"),
        ]
    whole = tuple(_with_true_lengths(index, columns) for index in indexes)
    if dialect.mariadb:
        whole = tuple(_with_hash(index, table.engine, columns) for index in whole)
    ordered = tuple(sorted(whole, key=_order(columns)))
    if sort:
        whole = ordered
    if dialect.mariadb:
        columns += _hashes(whole, columns)
    made = msgspec.structs.replace(table, columns=tuple(columns), indexes=whole)
    return msgspec.structs.replace(made, key=key_of(made, whole, dialect))


def key_of(table: Table, indexes: Sequence[Index], dialect: Dialect) -> frozenset[str]:
    """The columns of the primary key, or of the unique index that the server takes for one with these indexes.

    That is the first one of whole columns that are never NULL; to MariaDB only if it is the first of all.
    """
    primary = [index for index in indexes if index.kind is IndexKind.PRIMARY]
    unique = [index for index in (indexes[:1] if dialect.mariadb else indexes) if _tells_apart(index, table.columns)]
    for index in (*primary, *unique):
        return frozenset(part.name for part in index.parts) | _bounds(table, index)
    return frozenset()


def _tells_apart(index: Index, columns: Sequence[Column]) -> bool:
    found = [find(columns, part.name) if part.name else None for part in index.parts]
    return (
        index.kind is IndexKind.UNIQUE
        and not index.hashed
        and all(column and column.nullable is False and column.generated is not Generated.VIRTUAL for column in found)
        and not any(part.length for part in index.parts)
    )


def _bounds(table: Table, index: Index) -> frozenset[str]:
    """Bounds of periods that are part of the key: the end of a row's time, and what must not overlap."""
    found = {period.name: period for period in table.periods}.get(index.overlaps)
    names = {found.start, found.end} if found else set[str]()
    if table.versioned:
        names |= {column.name for column in table.columns if column.generated is Generated.ROW_END}
    return frozenset(names)


def _order(columns: Sequence[Column]) -> Callable[[Index], tuple[bool, ...]]:
    """How the server sorts indexes, which decides about what counts as the primary key."""

    def order(index: Index) -> tuple[bool, ...]:
        if index.kind is IndexKind.OTHER:
            return (True,)
        found = [find(columns, part.name) if part.name else None for part in index.parts]
        nullable = any(column is None or column.nullable is not False for column in found)
        return False, nullable, index.kind is not IndexKind.PRIMARY, any(part.length for part in index.parts)

    return order


def _with_true_lengths(index: Index, columns: Sequence[Column]) -> Index:
    """A part that is as long as its column is all of it; names are those of the columns."""
    parts = []
    for part in index.parts:
        column = find(columns, part.name) if part.name else None
        if part.name and column is None:
            raise NotUnderstood(f"index {index.name} has a column {part.name} that is not there")
        length = 0 if column is None else _true_length(part, column.type)
        parts.append(part._replace(name=column.name if column else "", length=length))
    return msgspec.structs.replace(index, parts=tuple(parts))


def _true_length(part: IndexPart, kind: DataType) -> int:
    if kind.name == "point":
        return _POINT_BYTES
    if kind.name in _SIZED:
        return part.length if part.length < (kind.length or 0) else 0
    return part.length if kind.name in _WITHOUT_LENGTH else 0


def _with_hash(index: Index, engine: str, columns: Sequence[Column]) -> Index:
    """MariaDB keeps a hash for a unique key that is too long for its engine, or was just made as one of hashes."""
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
    """The columns of hashes: one is NULL where a part of its key may be."""
    hashed = [index for index in indexes if index.hashed]
    found = []
    for number, index in enumerate(hashed, 1):
        parts = [find(columns, part.name) for part in index.parts]
        nullable = any(column is None or column.nullable is not False for column in parts)
        found.append(Column(f"DB_ROW_HASH_{number}", _HASH, nullable, Generated.VIRTUAL, "hash"))
    return found
