"""Facts about tables (versions, and replies of the source), and the interface of a store for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from relay.binlog.events.position import BinlogPosition
from relay.ddl.syntax import TableName
from relay.schema.table import Schema, State

Fact: TypeAlias = State | Schema
ANY: Final = TableName("", "")
"""In place of a table: a fact about all tables."""
SKIPPED: Final = "skipped"
"""A fact: the position of the last skipped event that may have changed a table. The reader state has it as well."""


class Proof(StrEnum):
    """The evidence for a version."""

    STATEMENT = "statement"  # a statement in the binlog
    EVENT = "event"  # a table map with full metadata
    ROWS = "rows"  # rows that contradict the earlier version
    SOURCE = "source"  # a reply of the source
    EARLIER = "earlier release"  # a release without schema history had proven it


class Version(NamedTuple):
    """The definition of a table, or of a schema (a table without a name), from the binlog position `since` on.

    `sequence` is the number of the statement in the journal, or that of the next change there. Binlog positions of
    different epochs cannot be compared.
    """

    table: TableName
    state: Fact
    since: BinlogPosition
    sequence: int
    proof: Proof
    statement: str = ""
    gtid: str = ""
    epoch: int = 0


class Reply(NamedTuple):
    """The source's reply about a table: its state at some position from `asked` to `until` in the source's binlog."""

    table: TableName
    state: Fact
    asked: BinlogPosition
    until: BinlogPosition


class Damaged(Exception):
    """A row of the file is not what was written; the text says where."""


class Unreadable(Exception):
    """The file is so damaged that nothing in it is reliable; the text says how."""


class Facts(Protocol):
    """A store of facts, as `History` uses it. A schema is a table without a name."""

    def fact(self, key: str) -> str:
        """Return a fact about all tables, empty if it does not exist."""

    def put_fact(self, key: str, value: str) -> None:
        """Store a fact about all tables."""

    def add(self, versions: Iterable[Version]) -> None:
        """Add versions, each the newest of its table."""

    def versions(self, table: TableName) -> Iterator[Version]:
        """Return the versions of a table, newest first. Raises `Damaged`."""

    def reply(self, table: TableName) -> Reply | None:
        """Return the last reply about a table. Raises `Damaged`."""

    def tables(self, schema: str | None = None) -> list[TableName]:
        """Return the tables with facts; all, or those of a schema."""

    def schemas(self) -> list[str]:
        """Return the schemas with facts."""

    def by_folded_names(self, folded: Iterable[str]) -> list[TableName]:
        """Return the tables whose folded names (`folded_name`) are among these."""

    def forget(self, table: TableName) -> None:
        """Forget everything about a table."""


def folded_name(schema: str, table: str) -> str:
    """Return the key of a table in `Facts.by_folded_names`, from folded names.

    It has no NUL between the names, because SQLite's json_each ends a text there.
    """
    return f"{len(schema)}.{schema}.{table}"
