"""The INI dialect of the original's configuration file, with line numbers.

Pascal's TIniFile reads it: `[section]` lines, `key=value` lines, comment lines that start with `;` or `#`. The first
`=` separates key and value. There is no interpolation. Blanks around keys and values are dropped, and so is one pair of
double quotes around a value. A comment after a value is part of the value.
"""

from __future__ import annotations

from typing import NamedTuple

from relay.base.errors import ErrorCode, RelayError


class Entry(NamedTuple):
    """One `key=value` line; `line` counts from 1."""

    section: str
    key: str
    value: str
    line: int


def parse(content: bytes, name: str) -> tuple[list[Entry], list[int]]:
    """Return the entries in file order, and the numbers of lines that TIniFile ignores (no `=`).

    Bytes that are not UTF-8 are kept as surrogates (`surrogateescape`), since secrets are hashed as raw bytes.
    `name` is the file's name for error messages. Raises `RelayError` (config) on a broken section line, and on a NUL
    character.
    """
    entries: list[Entry] = []
    ignored: list[int] = []
    section = ""
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        line = raw.decode("utf-8", "surrogateescape").strip()
        if not line or line[0] in ";#":
            continue
        if "\0" in line:
            raise RelayError(
                ErrorCode.CONFIG, "read config", "the line has a NUL character", position=f"{name}:{number}",
                hint="delete the character: no value can have it",
            )  # fmt: skip
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


def line(key: str, value: str) -> str:
    """Return the line that `parse` reads as this key and value.

    Raises `RelayError` (config) if no line can hold the value.
    """
    if "\n" in value:
        cause, hint = f"the value of {key} has a line break", "a file can hold it: PasswordFile, AuthSecretFile"
        raise RelayError(ErrorCode.CONFIG, "write config", cause, hint=hint)
    quoted = value != value.strip() or value != _unquote(value)
    return f'{key} = "{value}"' if quoted else f"{key} = {value}"
