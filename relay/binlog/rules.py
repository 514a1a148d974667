"""What of a source is read: tables and columns that the configuration names or leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Rules(NamedTuple):
    """What the configuration leaves out, as patterns (`*` and `?`), and what it says of columns not understood."""

    tables: Sequence[str] = ("*.*",)
    exclude_tables: Sequence[str] = ()
    exclude_columns: Sequence[str] = ()
    skip_unknown: bool = False

    def wants(self, schema: str, table: str) -> bool:
        """Whether rows of the table are to be journaled."""
        names = (schema, table)
        return _any(names, self.tables) and not _any(names, self.exclude_tables)

    def columns_at_stake(self, schema: str, table: str) -> bool:
        """Whether some column of the table may have to be left out."""
        return any(_fits((schema, table), pattern.split(".")[:2]) for pattern in self.exclude_columns)

    def keeps(self, schema: str, table: str, column: str) -> bool:
        """Whether the column is to be journaled."""
        return not any(_fits((schema, table, column), pattern.split(".", 2)) for pattern in self.exclude_columns)


def _any(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(_fits(names, pattern.split(".", 1)) for pattern in patterns)


def _fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return all(fnmatchcase(name, pattern) for name, pattern in zip(names, patterns, strict=True))
