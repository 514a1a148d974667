"""Conversions with pyarrow of values of one type of the lake to another's, as relay.spark.schema.convert makes them.

They convert one value at a time, which is slow, but only files of a table's older generations need it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from struct import pack, unpack
from typing import TYPE_CHECKING, Any, Final

from relay.lake.types import arrow_type, decimal_digits, widens

if TYPE_CHECKING:
    import pyarrow

_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_UP)
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE: Final = r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})@)?)?"
_TIME: Final = r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?"
_JUST_DATE: Final = re.compile(_DATE.replace("@", r"(?:[ T].*)?"), re.ASCII | re.DOTALL)
_DATE_AND_TIME: Final = re.compile(_DATE.replace("@", _TIME), re.ASCII)
_BOOLEANS: Final = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(
    ("f", "false", "n", "no", "0"), False
)
_SPACE: Final = "".join(map(chr, range(33)))


def converted(values: pyarrow.Array, old: str, new: str) -> tuple[pyarrow.Array, pyarrow.Array]:
    """Convert values of the lake's type `old` to `new`; return also the texts of values that become NULL."""
    import pyarrow as pa

    kind = arrow_type(new)
    nothing = pa.nulls(len(values), pa.string())
    if old == new:
        return values, nothing
    if {old, new} == {"timestamp", "timestamp_ntz"}:
        return values.cast(pa.int64()).cast(kind), nothing
    if (old, new) in (("date", "timestamp_ntz"), ("string", "binary")):
        return values.cast(kind), nothing
    if _is_number(old) and _is_number(new) and widens(old, new):
        return values.cast(kind), nothing
    texts = _texts(values, old)
    if new == "string" and old != "binary":
        return pa.array(texts, kind), nothing
    convert = _converter(old, new)
    if convert is None:
        return pa.nulls(len(values), kind), pa.array(texts, pa.string())
    made = [None if value is None else convert(value) for value in _python_values(values, old)]
    lost = [text if value is None else None for value, text in zip(made, texts, strict=True)]
    return _array(made, new), pa.array(lost, pa.string())


def _python_values(values: pyarrow.Array, kind: str) -> list[Any]:
    """Values as Python's; moments as microseconds since the epoch, since Python has none before the year 1."""
    import pyarrow as pa

    if kind in ("timestamp", "timestamp_ntz"):
        values = values.cast(pa.int64())
    found: list[Any] = values.to_pylist()
    return found


def _array(values: list[Any], kind: str) -> pyarrow.Array:
    import pyarrow as pa

    if kind in ("date", "timestamp", "timestamp_ntz"):
        # From texts, since Python's dates have a smaller range. For a timestamp, the texts are in UTC.
        times = pa.array(values, pa.string()).cast(pa.date32() if kind == "date" else pa.timestamp("us"))
        return times if kind != "timestamp" else times.cast(pa.int64()).cast(arrow_type(kind))
    return pa.array(values, arrow_type(kind))


def _converter(old: str, new: str) -> Callable[[Any], Any] | None:
    """Return the function that converts one value, or returns None if it does not fit.

    None if no value can be converted.
    """
    if old == "binary" and new == "string":
        return _decoded
    if old == "string":
        return _parser(new)
    if (old, new) == ("timestamp_ntz", "date"):
        return _midnight
    if _is_number(old) and _is_number(new):
        return lambda value: _number(value, old, new)
    return None


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _midnight(microseconds: int) -> str | None:
    import pyarrow as pa

    days, rest = divmod(microseconds, 86_400_000_000)
    return None if rest else str(pa.scalar(days, pa.int32()).cast(pa.date32()).cast(pa.string()))


def _is_number(kind: str) -> bool:
    return kind in _BITS or kind in ("boolean", "float", "double") or decimal_digits(kind) is not None


def _number(value: Any, old: str, new: str) -> Any:
    """Convert a number to another type, None unless it converts back unchanged."""
    exact = Decimal(value) if isinstance(value, int | float) else value
    if new == "boolean":
        return bool(exact) if exact in (0, 1) else None
    if new in _BITS:
        bound = 1 << (_BITS[new] - 1)
        return int(exact) if exact == int(exact) and -bound <= exact < bound else None
    if new in ("float", "double"):
        made = _single(float(value)) if new == "float" else float(value)
        return made if _converts_back(made, exact, old) else None
    # As in Spark, the digits of a floating-point number are those that distinguish it from its neighbours.
    fixed = _rounded(Decimal(repr(value)) if isinstance(value, float) else exact, new)
    if fixed is None or not isinstance(value, float):
        return fixed if fixed == exact else None
    return fixed if (_single(float(fixed)) if old == "float" else float(fixed)) == value else None


def _converts_back(made: float, exact: Decimal, old: str) -> bool:
    """Whether a floating-point number converts back to `exact` in the original type."""
    if decimal_digits(old) is None:
        return Decimal(made) == exact
    return _rounded(Decimal(repr(made)), old) == exact


def _single(value: float) -> float:
    """Return the nearest 32-bit number."""
    try:
        return float(unpack("f", pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _rounded(value: Decimal, kind: str) -> Decimal | None:
    """Round to a type's digits; None if the number has more digits before the point."""
    whole, scale = decimal_digits(kind) or (0, 0)
    try:
        made = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    except InvalidOperation:
        return None
    return made if made.adjusted() < whole or not made else None


def _parser(new: str) -> Callable[[str], Any] | None:
    if new == "boolean":
        return lambda text: _BOOLEANS.get(text.strip(_SPACE).lower())
    if new in _BITS:
        bound = 1 << (_BITS[new] - 1)
        return lambda text: _within(text.strip(_SPACE), bound)
    if new in ("float", "double"):
        narrow = _single if new == "float" else float
        return lambda text: narrow(float(text)) if _DECIMAL.fullmatch(text.strip(_SPACE)) else None
    if decimal_digits(new) is not None:
        return lambda text: _rounded(Decimal(text), new) if _DECIMAL.fullmatch(text := text.strip(_SPACE)) else None
    if new == "date":
        return lambda text: _moment(_JUST_DATE.fullmatch(text.strip(_SPACE)), whole=False)
    if new in ("timestamp", "timestamp_ntz"):
        return lambda text: _moment(_DATE_AND_TIME.fullmatch(text.strip(_SPACE)), whole=True)
    return None


def _within(text: str, bound: int) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    return value if -bound <= (value := int(text)) < bound else None


def _moment(found: re.Match[str] | None, *, whole: bool) -> str | None:
    """Return the text of a date, with its time if `whole`, for pyarrow; None for a date that no calendar has."""
    import pyarrow as pa

    if found is None:
        return None
    year, month, day, *time = (part or "" for part in found.groups())
    date = f"{year}-{month or '1':>02}-{day or '1':>02}"
    text = date
    if whole:
        hour, minute, second, fraction = (*time, "", "", "", "")[:4]
        text = f"{date} {hour or '0':>02}:{minute or '0':>02}:{second or '0':>02}.{fraction[:6]:<06}"
    try:
        pa.scalar(text).cast(pa.timestamp("us") if whole else pa.date32())
    except pa.ArrowInvalid:
        return None
    return text


def _texts(values: pyarrow.Array, kind: str) -> list[str | None]:
    """Values as texts, spelled as Spark does; times in UTC, bytes in hexadecimal digits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == "date":
        return list(values.cast(pa.string()).to_pylist())
    if kind in ("timestamp", "timestamp_ntz"):
        texts = values.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
        return list(pc.replace_substring_regex(texts, r"\.?0*$", "").to_pylist())
    format_value = _formatter(kind)
    return [None if value is None else format_value(value) for value in values.to_pylist()]


def _formatter(kind: str) -> Callable[[Any], str]:
    if kind == "boolean":
        return lambda value: str(int(value))
    if kind in ("float", "double"):
        return lambda value: _floating(value, kind)
    if decimal_digits(kind) is not None:
        return lambda value: f"{value:f}"
    if kind == "binary":
        return lambda value: value.hex().upper()
    if kind == "array<string>":
        return lambda value: ",".join(item for item in value if item is not None)
    if kind == "array<binary>":
        return lambda value: ",".join(item.hex().upper() for item in value if item is not None)
    return str


def _floating(value: float, kind: str) -> str:
    """Return a floating-point number as Java prints it: 1.0, 0.001, 1.0E-4, 1.0E7.

    Java before 19 prints a digit more of some.
    """
    shortest = Decimal(repr(value) if kind == "double" else _shortest_single(value))
    sign, digits, exponent = shortest.as_tuple()
    assert isinstance(exponent, int)
    if not value:
        return "-0.0" if sign else "0.0"
    if 1e-3 <= abs(value) < 1e7:
        text = f"{shortest:f}"
        return text if "." in text else f"{text}.0"
    figures = "".join(map(str, digits)).rstrip("0") or "0"
    return f"{'-' * sign}{figures[0]}.{figures[1:] or '0'}E{len(digits) - 1 + exponent}"


def _shortest_single(value: float) -> str:
    """Return the fewest digits that distinguish a 32-bit number from its neighbours."""
    return next(text for digits in range(1, 10) if _single(float(text := f"{value:.{digits}g}")) == value)
