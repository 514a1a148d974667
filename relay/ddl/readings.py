"""The possible readings of a statement of unknown dialect, as in journals from before the schema history."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from relay.ddl.dialect import Dialect, SqlMode
from relay.ddl.statements import Kind, Statement, parse_statement

_OLDEST: Final = ((False, 50_700), (True, 100_000))
_NEWEST: Final = ((False, 999_999), (True, 999_999))
"""Servers: whether it is MariaDB, and the version."""
_EXECUTABLE: Final = re.compile(r"/\*M?!")


def readings(text: str, schema: str, dialect: Dialect | None) -> list[Statement]:
    """Return the readings of the statement: one if the dialect is known, else each possible one once."""
    if dialect is not None:
        return [parse_statement(text, schema, dialect)]
    # Text that one server does not understand may be in a comment that another server skips.
    commented = _EXECUTABLE.search(text) is not None
    servers = (*_OLDEST, *_NEWEST) if commented else _NEWEST
    found: list[Statement] = []
    for escapes in _modes(SqlMode.NO_BACKSLASH_ESCAPES, "\\" in text):
        modes = [escapes | quotes for quotes in _modes(SqlMode.ANSI_QUOTES, '"' in text)]
        dialects = [Dialect(*server, sql_mode=mode) for server, mode in product(servers, modes)]
        parsed = [parse_statement(text, schema, each) for each in dialects]
        understood = [] if commented else [each for each in parsed if not each.opaque]
        found += understood or [each for each in parsed if each.verb or each.kind is not Kind.UNKNOWN]
    # If no dialect makes it a statement, use the first one.
    found = found or [parse_statement(text, schema, Dialect(*_NEWEST[0]))]
    return [each for number, each in enumerate(found) if each not in found[:number]]


def _modes(mode: SqlMode, matters: bool) -> tuple[int, ...]:
    """Return the values of a bit of sql_mode that make a difference."""
    return (0, int(mode)) if matters else (0,)
