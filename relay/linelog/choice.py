"""Which tables are logged: `Schema` and `Excludes` of `[Logger]`."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


def wanting(schemas: Sequence[str], schema: str) -> str:
    """The first name or pattern of `Schema` that fits the schema, "" if none does."""
    return next((pattern for pattern in schemas if fnmatchcase(schema, pattern)), "")


def excluding(excludes: Sequence[str], schema: str, table: str) -> str:
    """The first of `Excludes` that names the table, as `table` or `schema.table`, or a pattern; "" if none does."""
    return next((pattern for pattern in excludes if _names(pattern, schema, table)), "")


def _names(pattern: str, schema: str, table: str) -> bool:
    if pattern == table:  # whatever is in it: the original's form
        return True
    first, dot, second = pattern.partition(".")
    return fnmatchcase(schema, first) and fnmatchcase(table, second) if dot else fnmatchcase(table, pattern)
