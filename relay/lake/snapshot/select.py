"""The SQL expression for each column, and the conversion of the server's text to the value that the binlog has."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from relay.ddl.syntax import Bytes
from relay.ddl.types import GEOMETRIES
from relay.lake.documents import Field
from relay.lake.snapshot import values
from relay.lake.types import arrow_type
from relay.schema.table import Column

_MOMENTS: Final = frozenset({"date", "datetime", "timestamp"})
_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_FLOATS: Final = frozenset({"float", "double"})
_LAKE_TYPES: Final[dict[str, str]] = {
    **dict.fromkeys(_INTEGERS, r"tinyint|smallint|int|bigint|decimal\(20,0\)"),
    "decimal": r"decimal\(\d+,\d+\)|string",
    "float": "float|double",
    "double": "double",
    "date": "date",
    "time": "bigint",
    "datetime": "timestamp_ntz",
    "timestamp": "timestamp",
    "bit": "boolean|binary",
    "enum": "string|binary|int",
    "set": r"array<string>|array<binary>|decimal\(20,0\)",
}
"""The lake types that values of a column can be converted to, by the server's type name. Others: text or bytes."""

Convert = Callable[[pa.Array], Sequence[pa.Array | None]]


class Selected(NamedTuple):
    """A column as SQL, and the conversion of its binary array to two arrays: the values and the side column.

    The side array is None if nothing has to be kept beside the value.
    """

    expression: str
    convert: Convert


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def can_become(column: Column, kind: str) -> bool:
    """Whether values of the column can be converted to that type of the lake."""
    return re.fullmatch(_LAKE_TYPES.get(column.type.name, "string|binary"), kind) is not None


def selected(column: Column, field: Field) -> Selected:
    """How to read a column whose value has this field in the lake."""
    kind, name, data_type = arrow_type(field.type), quoted(column.name), column.type.name
    charset = column.type.charset or _UNNAMED
    if column.implicit == "hash":  # the server does not return it
        return Selected("NULL", lambda got: (values.numbers(got, kind), None))
    number = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if data_type in _MOMENTS:
        return Selected(name, lambda got: values.moments(got, kind))
    if data_type in GEOMETRIES:
        return Selected(name, values.shapes)
    if data_type == "time":
        digits = column.type.length or 0
        return Selected(name, lambda got: (values.durations(got, digits), None))
    if data_type in _FLOATS:
        # FLOAT is printed with six digits, FLOAT(M,D) and DOUBLE(M,D) with D digits. The product is a double, which is
        # printed with all its digits. Unlike a sum, it preserves -0.
        return Selected(f"{name} * 1e0", lambda got: (values.numbers(got, kind), None))
    if data_type == "decimal" or (number and data_type != "bit"):
        # `+ 0` removes the zeros of ZEROFILL and yields the number of ENUM and SET. A decimal kept as string stays as
        # printed.
        return Selected(f"{name} + 0" if number else name, lambda got: (values.numbers(got, kind), None))
    if {"", Bytes(b"")} & {*column.type.labels}:  # an empty label prints like a value without one
        marked = f"CONCAT(IF({name} + 0 = 0, '0', '1'), CAST({name} AS BINARY))"
        if data_type == "enum":
            return Selected(marked, lambda got: values.labels(got, charset, kind))
        return Selected(marked, lambda got: (values.marked_sets(got, charset, kind), None))
    if pa.types.is_boolean(kind):
        return Selected(name, lambda got: (values.booleans(got, kind), None))
    if pa.types.is_list(kind):
        return Selected(name, lambda got: (values.sets(got, charset, kind), None))
    if pa.types.is_string(kind):
        return Selected(name, lambda got: values.texts(got, charset))
    return Selected(name, lambda got: (got.cast(kind), None))


_UNNAMED: Final = "utf8mb4"
"""The character set of JSON and of types that print ASCII, whose definitions have none."""
