"""Read the values of configuration keys: from the text of the file to text, numbers, lists and secrets.

A reader raises `ValueError` with the reason.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final
from zoneinfo import ZoneInfo

Value = str | int | bool | list[str]
Parser = Callable[[str], Value]

MAX_U32: Final = 2**32 - 1
_MAX_SIZE: Final = 2**62
_SIZE_UNITS: Final = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_TIME_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_MYSQL_GTID: Final = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:[a-z_]\w*|:\d+(-\d+)?)*:\d+(-\d+)?", re.IGNORECASE
)
_MARIADB_GTID: Final = re.compile(r"\d+-\d+-\d+")


FIRST_USE: Final = "first-use"
"""The value of SourceKey that pins the first key of each source."""


class Secret(str):
    """Text that is masked in logs and tracebacks."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the same stars for every secret."""
        return "'***'"


class Command(tuple[str, ...]):
    """A program and its arguments, which print a secret. Arguments are masked in logs and tracebacks."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the program alone."""
        return f"({self[0]!r}, '***')"


def text(value: str) -> str:
    """Any text, unchanged."""
    return value


def secret(value: str) -> str:
    """Any text, masked in representations."""
    return Secret(value)


def listing(value: str) -> list[str]:
    """Parse a comma-separated list; drop blanks around items, and leave out empty items."""
    return [item.strip() for item in value.split(",") if item.strip()]


def integer(lowest: int, highest: int) -> Parser:
    """Return a reader of whole numbers within bounds. It accepts a `// comment` after the number, as in old files."""

    def read(value: str) -> int:
        bare = _without_comment(value)
        if not re.fullmatch(r"[+-]?\d+", bare, re.ASCII):
            raise ValueError(f"{value!r} is not a whole number")
        return _bounded(int(bare), lowest, highest)

    return read


def size(lowest: int, highest: int = _MAX_SIZE) -> Parser:
    """Return a reader of bytes: `1048576`, `64KiB`, `256MiB`, `1.5GiB`, also decimal KB, MB, GB."""

    def read(value: str) -> int:
        return _bounded(_with_unit(value, _SIZE_UNITS, "a size such as 64KiB, 256MiB or 1GiB"), lowest, highest)

    return read


def duration(lowest: int, highest: int = 10 * 365 * 86400) -> Parser:
    """Return a reader of seconds: `90`, `90s`, `5m`, `24h`, `7d`; `never` is 0 where 0 is allowed."""

    def read(value: str) -> int:
        bare = "0" if lowest == 0 and value.lower() == "never" else value
        return _bounded(_with_unit(bare, _TIME_UNITS, "a duration such as 30s, 5m, 24h or 7d"), lowest, highest)

    return read


def milliseconds(lowest: int, highest: int) -> Parser:
    """Return a reader of short times, in milliseconds: `60`, `60ms`, `1s`."""

    def read(value: str) -> int:
        return _bounded(_with_unit(value, {"": 1, "ms": 1, "s": 1000}, "a time such as 60ms or 1s"), lowest, highest)

    return read


def choice(*options: str) -> Parser:
    """Return a reader of one of the given words, in any case."""

    def read(value: str) -> str:
        word = _without_comment(value).lower()
        if word not in options:
            raise ValueError(f"{value!r} is not one of {', '.join(options)}")
        return word

    return read


def boolean(value: str) -> bool:
    """yes/no, true/false, on/off, 1/0."""
    word = _without_comment(value).lower()
    if word in ("yes", "true", "on", "1"):
        return True
    if word in ("no", "false", "off", "0"):
        return False
    raise ValueError(f"{value!r} is neither yes nor no")


def address(value: str) -> str:
    """Parse an IPv4 or IPv6 address to listen on, or localhost."""
    if value.lower() == "localhost":
        return "127.0.0.1"
    ipaddress.ip_address(value)
    return value


def networks(value: str) -> list[str]:
    """Parse a list of addresses and networks in CIDR notation."""
    return [str(ipaddress.ip_network(item, strict=False)) for item in listing(value)]


def source_keys(value: str) -> list[str]:
    """`first-use`, or a list of keys `sha256:HEX`."""
    keys = [item.lower() for item in listing(value)]
    for key in keys:
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", key) and keys != [FIRST_USE]:
            raise ValueError(f"{key!r} is neither sha256: with 64 hex digits, nor {FIRST_USE} alone")
    return keys


def tables(value: str) -> list[str]:
    """Parse a list of patterns `schema.table`; `*` matches any characters."""
    return _patterns(value, 2, "schema.table, such as shop.orders, shop.* or *.orders")


def lake_path(value: str) -> str:
    """Parse a folder, or a URL with a scheme such as `s3://bucket/prefix`. A `/` at the end has no effect."""
    scheme, separator, rest = value.partition("://")
    if separator and (not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) or not rest.strip("/")):
        raise ValueError(f"{value!r} is neither a folder nor a URL such as s3://bucket/prefix")
    return value if value == "/" else value.rstrip("/")


def is_url(path: str) -> bool:
    """Whether a lake's path is a URL rather than a folder."""
    return "://" in path


def columns(value: str) -> list[str]:
    """Parse a list of patterns `schema.table.column`."""
    return _patterns(value, 3, "schema.table.column, such as shop.users.password or *.*.password")


def start_position(value: str) -> str:
    """`newest`, `oldest`, `FILE:POS` or a GTID set (MySQL `uuid:1-5,...`, MariaDB `0-1-100,...`)."""
    if value.lower() in ("newest", "oldest"):
        return value.lower()
    parts = listing(value)
    for gtid in (_MYSQL_GTID, _MARIADB_GTID):
        if parts and all(gtid.fullmatch(part) for part in parts):
            return ",".join(parts)
    file, _, offset = value.rpartition(":")
    if file and offset.isdecimal() and not re.search(r"[\s,:/]", file):
        if int(offset) < 4:
            raise ValueError(f"{value!r}: the first event of a binlog file is at 4")
        return value
    raise ValueError(f"{value!r} is not newest, oldest, FILE:POS or a GTID set")


def time_zone(value: str) -> str:
    """`UTC`, an offset such as `+02:00`, or a name such as `Europe/Brussels`."""
    offset = re.fullmatch(r"[+-](\d{1,2}):(\d{2})", value, re.ASCII)
    if offset and int(offset[1]) <= 14 and int(offset[2]) < 60:
        return value
    try:
        return ZoneInfo(value).key
    except (OSError, ValueError, KeyError):
        raise ValueError(f"{value!r} is not a known time zone (UTC, +02:00, Europe/Brussels)") from None


def log_time_zone(value: str) -> str:
    """Parse a time zone, or `local` for the machine's."""
    return value.lower() if value.lower() == "local" else time_zone(value)


def _without_comment(value: str) -> str:
    return value.partition("//")[0].strip()


def _bounded(number: int, lowest: int, highest: int) -> int:
    if not lowest <= number <= highest:
        raise ValueError(f"{number} is not between {lowest} and {highest}")
    return number


def _with_unit(value: str, units: dict[str, int], example: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", _without_comment(value).lower(), re.ASCII)
    if not match or match[2] not in units:
        raise ValueError(f"{value!r} is not {example}")
    whole, _, fraction = match[1].partition(".")
    unit = units[match[2]]
    return int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)


def _patterns(value: str, parts: int, example: str) -> list[str]:
    patterns = listing(value)
    for pattern in patterns:
        pieces = pattern.split(".")
        if len(pieces) != parts or not all(pieces):
            raise ValueError(f"{pattern!r} is not {example}")
    return patterns
