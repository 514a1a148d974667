"""Sample values of every type of the lake."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from relay.lake.types import arrow_type

_DECIMALS = (
    "decimal(3,0)", "decimal(5,0)", "decimal(5,2)", "decimal(9,2)", "decimal(10,0)", "decimal(10,2)", "decimal(12,2)",
    "decimal(12,4)", "decimal(14,2)", "decimal(18,2)", "decimal(20,0)", "decimal(38,10)",
)  # fmt: skip


def digits(kind: str) -> list[Decimal]:
    """The limits of a decimal type, and numbers in between."""
    precision, scale = map(int, kind.removeprefix("decimal(").removesuffix(")").split(","))
    largest = (9,) * precision
    return [Decimal((sign, number, -scale)) for sign, number in ((0, largest), (1, largest), (0, (0,)), (1, (7,)))]


ROWS = 6  # rows in a column of samples
SAMPLES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, 127, 0, 5],
    "smallint": [-32768, 32767, 0, 5],
    "int": [-(2**31), 2**31 - 1, 0, 5],
    "bigint": [-(2**63), 2**63 - 1, 0, 5],
    "float": [0.5, -3.4028234663852886e38, 0.10000000149011612, 0.0],
    "double": [0.1, 1e300, -2.5, 0.0],
    "date": [date(1, 1, 1), date(1500, 2, 28), date(9999, 12, 31), date(2024, 2, 29)],
    "timestamp_ntz": [datetime(1, 1, 1), datetime(2024, 3, 10, 2, 30, 0, 5), datetime(9999, 12, 31, 23, 59, 59)],
    "timestamp": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 3, 10, 2, 30, 0, 5, tzinfo=UTC)],
    "string": ["é", "", "NULL"],
    "binary": [b"\xff\0", b"", b"a"],
    "array<string>": [["a", "é"], [], [""]],
    "array<binary>": [[b"\xff"], [], [b""]],
    **{kind: digits(kind) for kind in _DECIMALS},
}


def samples(kind: str) -> list[Any]:
    """Values of a type, including its limits."""
    return digits(kind) if kind.startswith("decimal") else SAMPLES[kind]


def padded(kind: str) -> pa.Array:
    """Samples of a type, followed by NULLs."""
    return pa.array((samples(kind) + [None] * ROWS)[:ROWS], arrow_type(kind))
