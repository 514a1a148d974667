"""Select the tables to log: `Schema` and `Excludes` of `[Logger]`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


def matching_schema(schemas: Sequence[str], schema: str) -> str:
    """Return the first name or pattern of `Schema` that matches the schema, "" if none does."""
    return next((pattern for pattern in schemas if fnmatchcase(schema, pattern)), "")


def matching_exclude(excludes: Sequence[str], schema: str, table: str) -> str:
    """Return the first of `Excludes` that matches the table: `table`, `schema.table` or a pattern; "" if none does."""
    return next((pattern for pattern in excludes if _names(pattern, schema, table)), "")


def _names(pattern: str, schema: str, table: str) -> bool:
    if pattern == table:  # a plain name may have any characters, as in the original
        return True
    first, dot, second = pattern.partition(".")
    return fnmatchcase(schema, first) and fnmatchcase(table, second) if dot else fnmatchcase(table, pattern)
