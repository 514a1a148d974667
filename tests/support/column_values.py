"""Keys of every kind, random values of a column type, and types to which a column may change."""

from __future__ import annotations

import json
import random
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from tests.support.value_cases import Case

BITS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
LETTERS = {"": "aZ 9'\\%é€😀\n", "utf8mb3": "aZ 9'é€ß", "latin1": "aZ 9'éß"}
WIDER = {
    "TINYINT": "SMALLINT", "SMALLINT": "INT", "MEDIUMINT": "BIGINT", "INT": "BIGINT", "INT UNSIGNED": "BIGINT UNSIGNED",
    "SMALLINT UNSIGNED": "INT UNSIGNED", "FLOAT": "DOUBLE", "DECIMAL(10,2)": "DECIMAL(14,2)", "DATE": "DATETIME(6)",
    "VARCHAR(30)": "VARCHAR(3000)", "TINYTEXT": "MEDIUMTEXT", "TINYBLOB": "LONGBLOB",
}  # fmt: skip
OTHERS = {
    "INT": ["VARCHAR(40)", "SMALLINT", "DECIMAL(12,3)", "DATE"],
    "BIGINT": ["INT", "DOUBLE", "BIGINT UNSIGNED"],
    "DOUBLE": ["VARCHAR(60)", "FLOAT"],
    "DECIMAL(10,2)": ["DECIMAL(10,4)", "INT", "VARCHAR(20)"],
    "DATETIME(6)": ["DATE", "DATETIME(0)", "VARCHAR(40)"],
    "DATE": ["VARCHAR(20)"],
    "TIME(3)": ["VARCHAR(20)"],
    "VARCHAR(30)": ["VARBINARY(200)", "INT", "TEXT"],
    "VARCHAR(255) CHARACTER SET latin1": ["VARCHAR(255) CHARACTER SET utf8mb4", "VARCHAR(20)"],
    "BIT(1)": ["BIT(9)", "INT"],
    "ENUM('a','b')": ["ENUM('b','a')", "VARCHAR(10)"],
    "SET('a','it''s','c')": ["VARCHAR(20)"],
    "YEAR": ["INT"],
}


PLAIN = [
    Case("plain", sql, values)
    for sql, values in {
        "INT": ["1", "-7"], "VARCHAR(30)": ["'abc'", "'12'"], "DECIMAL(10,2)": ["1.25"], "FLOAT": ["0.5"],
        "DATE": ["'2024-02-29'"], "DATETIME(6)": ["'2024-02-29 01:02:03.5'"], "DOUBLE": ["1e10"], "BIGINT": ["5"],
    }.items()
]  # fmt: skip
"""Columns of a partitioned table, which cannot have all types."""


@dataclass(frozen=True)
class Key:
    """A kind of primary key: its columns as SQL, and their values in row n."""

    columns: tuple[tuple[str, str], ...]
    values: Callable[[int], Sequence[str]]


def _day(n: int) -> str:
    """Every seventh is a date that no calendar has. Each `n` below 390,000 has its own."""
    if n % 7:
        return f"'{date(2000, 1, 1) + timedelta(n)}'"
    part = n // 9000
    month, day = (part, 0) if part <= 12 else (0, part - 12)
    return f"'{1000 + n % 9000}-{month:02}-{day:02}'"


KEYS = {
    "integer": Key((("id", "INT"),), lambda n: [str(n - 50)]),
    "unsigned": Key((("id", "BIGINT UNSIGNED"),), lambda n: [str(2**64 - 1 - n)]),
    "pair": Key((("b", "VARCHAR(20)"), ("a", "INT")), lambda n: [f"'k{n // 3}'", str(n % 3)]),
    "text": Key((("id", "VARCHAR(40)"),), lambda n: [f"'Schlüssel {n}'"]),
    "bytes": Key((("id", "VARBINARY(20)"),), lambda n: [f"X'00{n:06X}FF00'"]),
    "decimal": Key((("id", "DECIMAL(30,4)"),), lambda n: [f"{'-' if n % 2 else ''}{n}.{n:04}"]),
    "day": Key((("id", "DATE"),), lambda n: [_day(n)]),
    "moment": Key((("id", "TIMESTAMP(6) NOT NULL DEFAULT '2000-01-01'"),), lambda n: [f"'2024-03-31 01:59:59.{n:06}'"]),
    "partitioned": Key((), lambda n: []),
    "none": Key((), lambda n: []),
}


def wider(sql: str) -> str | None:
    """A type that holds all values of the type; None if none is known here."""
    return WIDER.get(sql)


def others(chance: random.Random, sql: str) -> str | None:
    """A type that does not hold them all; None if none is known here."""
    return chance.choice(OTHERS[sql]) if sql in OTHERS else None


def random_value(chance: random.Random, sql: str) -> str | None:
    """A value of a column type, as SQL; None for a type that has only its listed values."""
    match = re.match(r"(\w+)(?:\((\d+)(?:,(\d+))?\))?", sql)
    assert match, sql
    base, size, scale = match[1], int(match[2] or 0), int(match[3] or 0)
    if base in BITS:
        bits = BITS[base]
        unsigned = "UNSIGNED" in sql or "ZEROFILL" in sql
        return str(chance.randrange(1 << bits) if unsigned else chance.randrange(-1 << bits - 1, 1 << bits - 1))
    positive = "" if "UNSIGNED" in sql or "ZEROFILL" in sql else chance.choice(("", "-"))
    match base:
        case "DECIMAL":
            return positive + _digits(chance, size - scale) + ("." + _digits(chance, scale) if scale else "")
        case "FLOAT" | "DOUBLE":
            largest = 999 if scale else 10.0 ** chance.randint(-20, 20)
            return f"{positive}{chance.random() * largest!r}"
        case "BIT":
            return str(chance.randrange(1 << size))
        case "CHAR" | "VARCHAR" | "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT":
            limit = min(40, size) if base.endswith("CHAR") else 40
            return _text(chance, sql, limit)
        case "BINARY" | "VARBINARY" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB":
            limit = min(40, size) if base.endswith("BINARY") else 40
            return f"X'{chance.randbytes(chance.randint(0, limit)).hex()}'"
        case "JSON":
            document = {"n": chance.randrange(-(10**12), 10**12), "t": [chance.random(), None, "é"]}
            return "'" + json.dumps(document) + "'"
        case "UUID":
            return f"'{uuid.UUID(int=chance.getrandbits(128))}'"
        case "INET4":
            return "'" + ".".join(str(chance.randrange(256)) for _ in range(4)) + "'"
        case "INET6":
            return "'" + ":".join(f"{chance.randrange(65536):x}" for _ in range(8)) + "'"
        case _:
            return _moment(chance, base)


def _moment(chance: random.Random, base: str) -> str | None:
    day = f"{chance.randrange(1971, 2037)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    clock = f"{chance.randrange(60):02}:{chance.randrange(60):02}.{chance.randrange(10**6):06}"
    match base:
        case "YEAR":
            return str(chance.randrange(1901, 2156))
        case "DATE":
            return f"'{day}'"
        case "DATETIME" | "TIMESTAMP":
            return f"'{day} {chance.randrange(24):02}:{clock}'"
        case "TIME":
            return f"'{chance.choice(('', '-'))}{chance.randrange(838):02}:{clock}'"
        case _:
            return None


def _digits(chance: random.Random, count: int) -> str:
    return "".join(chance.choice("0123456789") for _ in range(count)) or "0"


def _text(chance: random.Random, sql: str, limit: int) -> str:
    charset = sql.partition("CHARACTER SET ")[2]
    letters = LETTERS.get(charset, LETTERS[""] if charset == "utf8mb4" else LETTERS["latin1"])
    text = "".join(chance.choice(letters) for _ in range(chance.randint(0, limit)))
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
