"""Patterns `schema.table` of tables that may be asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable

Patterns = list[tuple[re.Pattern[str], re.Pattern[str]]]


def compiled(patterns: Iterable[str]) -> Patterns:
    """The two halves of each; a `*` that a filter asks for is matched by no pattern but one of `*` alone."""
    return [(_glob(schema), _glob(table)) for schema, _, table in (pattern.partition(".") for pattern in patterns)]


def allow(patterns: Patterns, schema: str, table: str) -> bool:
    """Whether one of them matches."""
    return any(s.fullmatch(schema) and t.fullmatch(table) for s, t in patterns)


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)
