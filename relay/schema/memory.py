"""Stores the facts of one stream in memory.

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
        return self._facts.get(key, "")

    def put_fact(self, key: str, value: str) -> None:
        self._facts[key] = value

    def add(self, versions: Iterable[Version]) -> None:
        for version in versions:
            self._versions[version.table] = version

    def versions(self, table: TableName) -> Iterator[Version]:
        version = self._versions.get(table)
        return iter(()) if version is None else iter((version,))

    def reply(self, table: TableName) -> Reply | None:
        return None

    def tables(self, schema: str | None = None) -> list[TableName]:
        return [name for name in self._versions if name.table and schema in (None, name.schema)]

    def schemas(self) -> list[str]:
        return [name.schema for name in self._versions if name.schema and not name.table]

    def by_folded_names(self, folded: Iterable[str]) -> list[TableName]:
        wanted = set(folded)
        return [name for name in self.tables() if folded_name(fold(name.schema), fold(name.table)) in wanted]

    def forget(self, table: TableName) -> None:
        self._versions.pop(table, None)
