"""What a statement may say where nobody knows how the server read it: in journals from before the schema history."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from relay.ddl.dialect import Dialect, SqlMode
from relay.ddl.statements import Kind, Statement, read

_OLDEST: Final = ((False, 50_700), (True, 100_000))
_NEWEST: Final = ((False, 999_999), (True, 999_999))
"""Servers: whether it is MariaDB, and the version."""
_EXECUTABLE: Final = re.compile(r"/\*M?!")


def readings(text: str, schema: str, dialect: Dialect | None) -> list[Statement]:
    """What the statement says; without a dialect, all that it may say, each only once."""
    if dialect is not None:
        return [read(text, schema, dialect)]
    # What a comment hides from one server may be what another did not understand.
    commented = _EXECUTABLE.search(text) is not None
    servers = (*_OLDEST, *_NEWEST) if commented else _NEWEST
    found: list[Statement] = []
    for escapes in _modes(SqlMode.NO_BACKSLASH_ESCAPES, "\\" in text):
        modes = [escapes | quotes for quotes in _modes(SqlMode.ANSI_QUOTES, '"' in text)]
        said = [read(text, schema, Dialect(*server, sql_mode=mode)) for server, mode in product(servers, modes)]
        understood = [] if commented else [each for each in said if not each.opaque]
        found += understood or [each for each in said if each.verb or each.kind is not Kind.UNKNOWN]
    # No statement at all by any rules: whatever its first reading has of it.
    found = found or [read(text, schema, Dialect(*_NEWEST[0]))]
    return [each for number, each in enumerate(found) if each not in found[:number]]


def _modes(mode: SqlMode, matters: bool) -> tuple[int, ...]:
    return (0, int(mode)) if matters else (0,)
