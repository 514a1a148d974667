"""Store the facts of one stream in memory.

It keeps only the newest version of each table, since a stream only goes forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from relay.ddl.statements import fold
from relay.ddl.syntax import TableName
from relay.schema.facts import Reply, Version, folded_name


class MemoryStore:
    """An implementation of `relay.schema.facts.Facts` without a file. It has no replies: the source is not asked."""

    def __init__(self) -> None:
        self._facts: dict[str, str] = {}
        self._versions: dict[TableName, Version] = {}

    def fact(self, key: str) -> str:
        """Return a fact, empty if it was never stored."""
        return self._facts.get(key, "")

    def put_fact(self, key: str, value: str) -> None:
        """Keep a fact in place of an earlier one."""
        self._facts[key] = value

    def add(self, versions: Iterable[Version]) -> None:
        """Keep each version in place of the earlier one of its table."""
        for version in versions:
            self._versions[version.table] = version

    def versions(self, table: TableName) -> Iterator[Version]:
        """Return the one version that is kept, if there is one."""
        version = self._versions.get(table)
        return iter(()) if version is None else iter((version,))

    def reply(self, table: TableName) -> Reply | None:
        """Return None: the source is not asked."""
        return None

    def tables(self, schema: str | None = None) -> list[TableName]:
        """Return the tables with a version; all, or those of a schema."""
        return [name for name in self._versions if name.table and schema in (None, name.schema)]

    def schemas(self) -> list[str]:
        """Return the schemas with a version."""
        return [name.schema for name in self._versions if name.schema and not name.table]

    def by_folded_names(self, folded: Iterable[str]) -> list[TableName]:
        """Compare the folded names of all tables with these."""
        wanted = set(folded)
        return [name for name in self.tables() if folded_name(fold(name.schema), fold(name.table)) in wanted]

    def forget(self, table: TableName) -> None:
        """Drop the version of the table."""
        self._versions.pop(table, None)
