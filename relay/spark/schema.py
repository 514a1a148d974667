"""Fields of the lake as Spark types, and conversions of columns between types.

Files of one generation are read with one schema. If a changed type makes that impossible, a new generation begins, and
values of older generations are converted here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

from relay.lake.documents import Field
from relay.lake.types import arrow_type

if TYPE_CHECKING:
    import pyarrow

_TYPES: Final[dict[str, t.DataType]] = {
    "boolean": t.BooleanType(),
    "tinyint": t.ByteType(),
    "smallint": t.ShortType(),
    "int": t.IntegerType(),
    "bigint": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "timestamp_ntz": t.TimestampNTZType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "array<string>": t.ArrayType(t.StringType()),
    "array<binary>": t.ArrayType(t.BinaryType()),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_NUMBERS: Final = frozenset({"boolean", "tinyint", "smallint", "int", "bigint", "float", "double"})
_BOUNDS: Final = {"int": 2.0**31, "bigint": 2.0**63}
_EPOCH: Final = "timestamp_ntz'1970-01-01'"


def spark_type(name: str) -> t.DataType:
    """Spark's type for the name in Field.type."""
    if digits := _DECIMAL.fullmatch(name):
        return t.DecimalType(int(digits[1]), int(digits[2]))
    return _TYPES[name]


def struct_type(fields: Iterable[Field]) -> t.StructType:
    """Return the schema of rows with these fields, all nullable."""
    return t.StructType([t.StructField(field.name, spark_type(field.type)) for field in fields])


def arrow_schema(schema: t.StructType) -> pyarrow.Schema:
    """Return the Arrow schema that Spark expects of a Python data source with this schema."""
    import pyarrow as pa

    def arrow(kind: t.DataType) -> pa.DataType:
        if isinstance(kind, t.ArrayType):
            return pa.list_(pa.field("element", arrow(kind.elementType), nullable=kind.containsNull))
        return arrow_type(kind.simpleString())

    return pa.schema([pa.field(field.name, arrow(field.dataType), nullable=field.nullable) for field in schema])


def col(name: str) -> Column:
    """Return a column by its name, which may have any characters."""
    return f.col(identifier(name))


def identifier(name: str) -> str:
    """Return a name in the quotes of Spark's SQL."""
    return f"`{name.replace('`', '``')}`"


def convert(values: Column, old: str, new: str) -> tuple[Column, Column | None]:
    """Convert values of type `old` to `new`; return also the texts of values that `new` cannot hold.

    Those values become NULL. A number, date or time fits only if it converts back unchanged. The second result is None
    if all values fit. Times without a zone are taken as UTC. In texts, binary values are hexadecimal digits.
    """
    if old == new:
        return values, None
    if old == "binary" and new == "string":
        fits = f.is_valid_utf8(values.cast(new))
        return f.when(fits, values.cast(new)), f.when(~fits, _text(values, old))
    if new == "string":
        return _text(values, old), None
    if old == "string" and new == "binary":
        return values.cast("binary"), None
    if old == "timestamp" and new == "timestamp_ntz":
        return _without_zone(values), None
    if old == "timestamp_ntz" and new == "timestamp":
        return _in_utc(values), None
    if old == "date" and new == "timestamp_ntz":
        return values.cast(new), None
    if old == "string" and new == "timestamp":
        converted = _in_utc(values.try_cast("timestamp_ntz"))
        back = values
    elif old == "string" and (_is_number(new) or new in ("date", "timestamp_ntz")):
        converted = values.try_cast(new)
        back = values
    elif (_is_number(old) and _is_number(new)) or (old, new) == ("timestamp_ntz", "date"):
        converted = values.try_cast(new)
        back = converted.try_cast(old)
    else:
        return f.lit(None).cast(spark_type(new)), _text(values, old)
    fits = converted.isNotNull() & back.eqNullSafe(values)
    if old in _BOUNDS and new in ("float", "double"):
        # A value rounded up beyond the largest integer converts back to that integer.
        fits &= converted.cast("double") < f.lit(_BOUNDS[old])
    return f.when(fits, converted), f.when(~fits, _text(values, old))


def _is_number(kind: str) -> bool:
    return kind in _NUMBERS or _DECIMAL.fullmatch(kind) is not None


def _text(values: Column, kind: str) -> Column:
    if kind == "binary":
        return f.hex(values)
    if kind == "array<string>":
        return f.array_join(values, ",")
    if kind == "array<binary>":
        return f.array_join(f.transform(values, f.hex), ",")
    if kind == "boolean":
        return values.cast("int").cast("string")
    if kind == "timestamp":
        return _without_zone(values).cast("string")
    return values.cast("string")


def _without_zone(moments: Column) -> Column:
    """Convert moments to times in UTC; a cast would use the session's zone."""
    seconds = f.unix_micros(moments).cast("decimal(20,0)") / f.lit(1_000_000).cast("decimal(7,0)")
    return f.expr(_EPOCH) + f.make_dt_interval(f.lit(0), f.lit(0), f.lit(0), seconds.cast("decimal(18,6)"))


def _in_utc(times: Column) -> Column:
    """Convert times in UTC to moments; a cast would use the session's zone."""
    seconds = (times - f.expr(_EPOCH)).cast("interval second").cast("decimal(18,6)")
    return f.timestamp_micros((seconds * 1_000_000).cast("bigint"))
