"""The columns of the lake's files: maps a table's definition to Spark types and a Parquet schema, and widens both.

Pure functions: the name and type of a column depend on nothing else, so a column has the same name in every version.

A table's column keeps its name unless it could be mistaken for a name of the lake. Spark compares names without case,
and so do these rules. These names get a `_` at their end: names of META_FIELDS and of the partitions (`cdc_schema`,
`cdc_table`, `cdc_date`), all that end in `__text`, `__raw` or `__srid`, and all that differ from one of these only by
such underscores. A name that Spark cannot distinguish from that of an earlier column gets as many as necessary. The
rule depends on the name alone, so a column that is added later never renames another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from relay.binlog.events.column_types import TEXTUAL, Type
from relay.journal.frames import Column, Definition
from relay.lake.documents import Field, Table, TableVersion

if TYPE_CHECKING:
    import pyarrow as pa

META_FIELDS: Final = (
    Field("_change_type", "string", ""),
    Field("_commit_version", "bigint", ""),
    Field("_commit_timestamp", "timestamp", ""),
    Field("_seq", "bigint", ""),
    Field("_file", "string", ""),
    Field("_pos", "bigint", ""),
    Field("_gtid", "string", ""),
    Field("_schema_version", "int", ""),
)
"""The columns that every file has after the table's columns and their side columns, in this order."""

PARTITIONS: Final = ("cdc_schema", "cdc_table", "cdc_date")
"""The columns that a reader derives from the names of folders."""

MAX_PRECISION: Final = 38
"""Digits of the longest decimal that Spark and readers of Parquet support."""

_RESERVED: Final = re.compile(
    rf"(?:{'|'.join([*(re.escape(field.name) for field in META_FIELDS), *PARTITIONS])}|.*__(?:text|raw|srid))_*",
    re.IGNORECASE | re.DOTALL,
)
_SIDE_TYPES: Final = {"text": "string", "raw": "binary", "srid": "int"}
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_SIZES: Final = {Type.TINY: 0, Type.SHORT: 1, Type.INT24: 2, Type.LONG: 2, Type.LONGLONG: 3}
_UNSIGNED: Final = {
    Type.TINY: "smallint", Type.SHORT: "int", Type.INT24: "int", Type.LONG: "bigint", Type.LONGLONG: "decimal(20,0)",
}  # fmt: skip
_PLAIN: Final = {
    Type.FLOAT: "float", Type.DOUBLE: "double", Type.YEAR: "smallint", Type.DATE: "date", Type.NEWDATE: "date",
    Type.TIME: "bigint", Type.TIME2: "bigint", Type.DATETIME: "timestamp_ntz", Type.DATETIME2: "timestamp_ntz",
    Type.TIMESTAMP: "timestamp", Type.TIMESTAMP2: "timestamp", Type.JSON: "string", Type.GEOMETRY: "binary",
    Type.VECTOR: "binary",
}  # fmt: skip
_MOMENTS: Final = frozenset({"date", "timestamp_ntz", "timestamp"})
_TEXT_AS_BYTES: Final = frozenset({"uuid", "inet4", "inet6"})
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_WIDTH: Final = re.compile(r"(?<=int|ear)\(\d+\)")
"""The display width of an integer or a YEAR."""
_VECTOR: Final = re.compile(r"vector\((\d+)\)")
_DIGITS_OF_INTEGERS: Final = 10
"""The digits that a decimal needs before its point so that readers accept Parquet's 32-bit integers for it.

The 64 bits of a BIGINT need 20.
"""
_DIGITS_OF_BIGINT: Final = 20
_WIDENINGS: Final = frozenset({
    ("tinyint", "double"), ("smallint", "double"), ("int", "double"), ("float", "double"), ("date", "timestamp_ntz"),
    ("timestamp", "timestamp_ntz"), ("string", "binary"), ("array<string>", "array<binary>"),
})  # fmt: skip


def fields_of(definition: Definition) -> tuple[list[Field], list[str]]:
    """Return the fields of a table's columns in the order of the files, side columns last, and the key's names."""
    own: list[Field] = []
    sides: list[Field] = []
    key: list[str] = []
    taken: set[str] = set()
    for column in definition.columns:
        name = f"{column.name}_" if _RESERVED.fullmatch(column.name) else column.name
        while folded(name) in taken:
            name += "_"
        taken.add(folded(name))
        kind = _type_of(column)
        own.append(Field(name, kind, column.name, column.sql_type))
        if column.primary:
            key.append(name)
        side = _side_of(column, kind)
        if side:
            sides.append(Field(f"{name}__{side}", _SIDE_TYPES[side], column.name, column.sql_type, side))
    return own + sides, key


def folded(name: str) -> str:
    """Fold the case of a name, at least as Spark does when it compares names."""
    return name.upper().lower()


def _type_of(column: Column) -> str:
    kind = column.type
    if kind in _SIZES:
        return _UNSIGNED[Type(kind)] if column.unsigned else _INTEGERS[_SIZES[Type(kind)]]
    if kind in _PLAIN:
        return _PLAIN[Type(kind)]
    if kind == Type.NEWDECIMAL:
        precision, scale = column.meta >> 8, column.meta & 0xFF
        return f"decimal({precision},{scale})" if precision <= MAX_PRECISION else "string"
    if kind == Type.BIT:
        return "boolean" if column.meta == 1 else "binary"
    if kind in (Type.ENUM, Type.SET):
        if not column.labels:  # a definition that is not proven
            return "int" if kind == Type.ENUM else "decimal(20,0)"
        label = "binary" if column.charset == "binary" else "string"
        return label if kind == Type.ENUM else f"array<{label}>"
    return "string" if _is_text(column) or column.sql_type in _TEXT_AS_BYTES else "binary"


def _is_text(column: Column) -> bool:
    return column.type in TEXTUAL and column.charset not in ("", "binary")


def _side_of(column: Column, kind: str) -> Literal["", "text", "raw", "srid"]:
    if kind in _MOMENTS:
        return "text"
    if column.type == Type.ENUM and "" in column.labels:
        return "text"
    if column.type == Type.GEOMETRY:
        return "srid"
    return "raw" if _is_text(column) else ""


def widens(old: str, new: str) -> bool:
    """Whether files with a column of type `old` are read and filtered correctly as `new`.

    That is: by Spark, with its vectorised reader and without, and by pyarrow. Only tested pairs are allowed. The
    relation is transitive.
    """
    if old == new or (old, new) in _WIDENINGS:
        return True
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(old) < _INTEGERS.index(new)
    to = decimal_digits(new)
    if to is None:
        return False
    whole, scale = to
    if old in _INTEGERS:
        return whole >= (_DIGITS_OF_BIGINT if old == "bigint" else _DIGITS_OF_INTEGERS)
    of = decimal_digits(old)
    if of is None or whole < of[0] or scale < of[1]:
        return False
    # Spark pushes a filter on decimals of the same scale down to the file, and fails for a number with more bytes than
    # the file's decimals have.
    return scale > of[1] or _bytes(sum(of)) == _bytes(whole + scale)


def _bytes(precision: int) -> int:
    """Return the bytes of a decimal in a Parquet file."""
    return (int("9" * precision).bit_length() + 8) // 8


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Return the digits of a decimal before and after the point; None for other types."""
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _fits_within(kind: str, wide: str) -> bool:
    """Whether values of a column that was narrowed to `kind` look the same in its earlier, wider type."""
    scales = [
        0 if each in _INTEGERS else digits[1] if (digits := decimal_digits(each)) else None for each in (kind, wide)
    ]
    return scales[0] is not None and scales[0] == scales[1] and widens(kind, wide)


def evolve(versions: Sequence[TableVersion], table: Table, fields: Sequence[Field], key: Sequence[str]) -> TableVersion:
    """Return the version for files with these fields.

    It is the newest of `versions` if that has the same fields, or its successor.

    A changed display width of an integer makes no new version. A successor stays in the generation if each of its
    columns has a type as which the generation's files can be read, or fits the type that it has there. Columns that
    differ from earlier ones only in case keep the earlier name. A changed key alone makes a new version too.
    """
    fields, key = _spelled_as_before(versions, fields, key)
    if not versions:
        return TableVersion(table, 1, 1, fields, key)
    newest = versions[-1]
    if key == newest.key and list(map(_without_spelling, fields)) == list(map(_without_spelling, newest.fields)):
        return newest
    known = _widest(version for version in versions if version.generation == newest.generation)
    fits = all(
        widens(known[field.name], field.type) or _fits_within(field.type, known[field.name])
        for field in fields
        if field.name in known
    )
    return TableVersion(table, newest.generation + (not fits), newest.version + 1, fields, key)


def _without_spelling(field: Field) -> Field:
    """Return the field with its source type spelled in one way.

    Statements and table maps spell some types differently.
    """
    kind = _WIDTH.sub("", field.source_type).replace("geometrycollection", "geomcollection")
    kind = _VECTOR.sub(lambda found: f"varbinary({4 * int(found[1])})", kind)  # as in MariaDB's table maps
    return msgspec.structs.replace(field, source_type=kind)


def _spelled_as_before(
    versions: Sequence[TableVersion], fields: Sequence[Field], key: Sequence[str]
) -> tuple[list[Field], list[str]]:
    known = {folded(field.name): field.name for version in reversed(versions) for field in version.fields}
    spelled = {field.name: known.get(folded(field.name), field.name) for field in fields}
    renamed = [msgspec.structs.replace(field, name=spelled[field.name]) for field in fields]
    return renamed, [spelled[name] for name in key]


def _widest(versions: Iterable[TableVersion]) -> dict[str, str]:
    """Return the type as which all files of a generation can be read, by field name."""
    types: dict[str, str] = {}
    for version in versions:
        for field in version.fields:
            if field.name not in types or widens(types[field.name], field.type):
                types[field.name] = field.type
    return types


def generation_schema(versions: Sequence[TableVersion], sides: Iterable[str]) -> list[Field]:
    """Return the fields for reading the files of a generation, without META_FIELDS; `versions` are oldest first.

    First the fields of the newest version, then those that only older ones have, each with its widest type; last the
    side columns named in `sides`. A file that lacks one has NULL there.
    """
    types = _widest(versions)
    found: dict[str, Field] = {}
    for version in reversed(versions):
        for field in version.fields:
            found.setdefault(field.name, field)
    fields = [msgspec.structs.replace(field, type=types[field.name]) for field in found.values()]
    wanted = set(sides)
    return [field for field in fields if not field.side] + [
        field for field in fields if field.side and field.name in wanted
    ]


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type for Spark's type `name`. Raises `ValueError` for a type that no Field has."""
    import pyarrow as pa

    if digits := decimal_digits(name):
        return pa.decimal128(sum(digits), digits[1])
    plain = {
        "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
        "float": pa.float32(), "double": pa.float64(), "date": pa.date32(), "timestamp_ntz": pa.timestamp("us"),
        "timestamp": pa.timestamp("us", tz="UTC"), "string": pa.string(), "binary": pa.binary(),
        "array<string>": pa.list_(pa.string()), "array<binary>": pa.list_(pa.binary()),
    }  # fmt: skip
    if name not in plain:
        raise ValueError(f"not a type of the lake: {name}")
    return plain[name]


def file_schema(version: TableVersion) -> pa.Schema:
    """Return the Arrow schema of a file of that version: its fields, then META_FIELDS. All are nullable.

    Texts with few distinct values (labels of an ENUM, `_change_type`, `_file`, `_gtid`) are dictionaries; Parquet and
    its readers have them as plain texts.
    """
    import pyarrow as pa

    def column(field: Field) -> tuple[str, pa.DataType]:
        kind = arrow_type(field.type)
        return field.name, pa.dictionary(pa.int32(), kind) if _has_few_values(field) else kind

    return pa.schema([column(field) for field in (*version.fields, *META_FIELDS)])


def _has_few_values(field: Field) -> bool:
    if field.column:
        return not field.side and field.type in ("string", "binary") and field.source_type.startswith("enum")
    return field.type == "string"
