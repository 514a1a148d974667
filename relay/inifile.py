"""The INI dialect of the original's configuration file, with line numbers.

It is what Pascal's TIniFile reads: `[section]` lines, `key=value` lines, comment lines that start with `;` or `#`.
Only `=` separates; the first one counts. Nothing is interpolated. Blanks around keys and values are dropped, and so
is one pair of double quotes around a value. Comments behind a value are part of it.
"""

from __future__ import annotations

from typing import NamedTuple

from relay.errors import ErrorCode, RelayError


class Entry(NamedTuple):
    """One `key=value` line; `line` counts from 1."""

    section: str
    key: str
    value: str
    line: int


def parse(content: bytes, name: str) -> tuple[list[Entry], list[int]]:
    """Return the entries in file order, and the numbers of lines that TIniFile passes over (no `=`).

    Bytes that are not UTF-8 are kept as surrogates (`surrogateescape`), since secrets are hashed as raw bytes.
    `name` is the file's name for error messages. Raises `RelayError` (config) on a broken section line.
    """
    entries: list[Entry] = []
    ignored: list[int] = []
    section = ""
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        line = raw.decode("utf-8", "surrogateescape").strip()
        if not line or line[0] in ";#":
            continue
        if line[0] == "[":
            if line[-1] != "]":
                raise RelayError(
                    ErrorCode.CONFIG,
                    "read config",
                    f"section line {line!r} does not end with ']'",
                    position=f"{name}:{number}",
                    hint="put comments on lines of their own",
                )
            section = line[1:-1].strip()
            continue
        key, separator, value = line.partition("=")
        if not separator:
            ignored.append(number)
            continue
        entries.append(Entry(section, key.strip(), _unquote(value.strip()), number))
    return entries, ignored


def _unquote(value: str) -> str:
    """Drop one pair of double quotes around the value."""
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value
