"""Patterns `schema.table`, which say which tables a client may request."""

from __future__ import annotations

import re
from collections.abc import Iterable

Patterns = list[tuple[re.Pattern[str], re.Pattern[str]]]


def compile_all(patterns: Iterable[str]) -> Patterns:
    """Compile schema and table of each pattern. The name `*`, as in a filter, matches only the pattern `*`."""
    return [(_glob(schema), _glob(table)) for schema, _, table in (pattern.partition(".") for pattern in patterns)]


def any_matches(patterns: Patterns, schema: str, table: str) -> bool:
    """Whether a pattern matches the table."""
    return any(s.fullmatch(schema) and t.fullmatch(table) for s, t in patterns)


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)
