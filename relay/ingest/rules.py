"""Select the tables and columns of the source that are journaled, by the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Rules(NamedTuple):
    """The patterns (`*` and `?`) of the configuration for tables and columns.

    `skip_unknown`: tables with columns that are not supported are skipped.
    """

    tables: Sequence[str] = ("*.*",)
    exclude_tables: Sequence[str] = ()
    exclude_columns: Sequence[str] = ()
    skip_unknown: bool = False

    def wants(self, schema: str, table: str) -> bool:
        """Whether rows of the table are journaled."""
        names = (schema, table)
        return _match_any(names, self.tables) and not _match_any(names, self.exclude_tables)

    def leaves_out(self, schema: str) -> bool:
        """Whether no table of the schema is journaled, whatever its name."""
        excluded = {table for owner, table in _split(self.exclude_tables) if fnmatchcase(schema, owner)}
        return all(
            "*" in excluded or table in excluded for owner, table in _split(self.tables) if fnmatchcase(schema, owner)
        )

    def columns_at_stake(self, schema: str, table: str) -> bool:
        """Whether a column of the table may have to be excluded."""
        return any(_match((schema, table), pattern.split(".")[:2]) for pattern in self.exclude_columns)

    def keeps(self, schema: str, table: str, column: str) -> bool:
        """Whether the column is journaled."""
        return not any(_match((schema, table, column), pattern.split(".", 2)) for pattern in self.exclude_columns)


def _split(patterns: Sequence[str]) -> list[list[str]]:
    """Patterns for tables as the patterns for schema and table."""
    return [pattern.split(".", 1) for pattern in patterns]


def _match_any(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(_match(names, pattern) for pattern in _split(patterns))


def _match(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return all(fnmatchcase(name, pattern) for name, pattern in zip(names, patterns, strict=True))
