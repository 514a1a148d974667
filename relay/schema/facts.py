"""What is known of tables, as facts of two kinds: versions, and answers of the source; and what has to keep them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from relay.binlog.place import Place
from relay.ddl.syntax import TableName
from relay.schema.table import Absent, Schema, Table, Unknown

Fact: TypeAlias = Table | Absent | Unknown | Schema
ANY: Final = TableName("", "")
"""In place of a table: what holds for all of them."""
SKIPPED: Final = "skipped"
"""A fact: where the last event stood that was left out and may have changed a table. Catalog has it as well."""


class Proof(StrEnum):
    """What a version is known by."""

    STATEMENT = "statement"  # a statement of the binlog made it
    EVENT = "event"  # a table map told it in full
    ROWS = "rows"  # rows contradict what was known before
    SOURCE = "source"  # the source was asked
    EARLIER = "earlier release"  # it was proven by a release that had no history


class Version(NamedTuple):
    """What a table is from a place on. A schema is a table without a name. `sequence` is the number of the statement in
    the journal, or of what came next there."""

    table: TableName
    state: Fact
    since: Place
    sequence: int
    proof: Proof
    statement: str = ""
    gtid: str = ""
    epoch: int = 0


class Answer(NamedTuple):
    """What the source said of a table, somewhere between two places that its binlog had come to."""

    table: TableName
    state: Fact
    asked: Place
    until: Place


class Damaged(Exception):
    """What stands in a row is not what was written; the text says where."""


class Unreadable(Exception):
    """The file is damaged so that nothing in it can be relied on; the text says how."""


class Facts(Protocol):
    """Keeps facts. A schema is a table without a name. Names are folded as `folded_name` has them."""

    def fact(self, key: str) -> str:
        """A fact of all tables, empty if it is not there."""

    def put_fact(self, key: str, value: str) -> None:
        """Keep a fact of all tables."""

    def add(self, versions: Iterable[Version]) -> None:
        """Add versions, the newest of their tables."""

    def put_answers(self, answers: Iterable[Answer]) -> None:
        """Keep answers, each in place of the one before it."""

    def versions(self, table: TableName) -> Iterator[Version]:
        """The versions of a table, newest first. Raises `Damaged`."""

    def answer(self, table: TableName) -> Answer | None:
        """The last answer about a table. Raises `Damaged`."""

    def tables(self, schema: str | None = None) -> list[TableName]:
        """The tables of which there is a fact; all, or those of a schema."""

    def schemas(self) -> list[str]:
        """The schemas of which there is a fact."""

    def alike(self, folded: Iterable[str]) -> list[TableName]:
        """The tables whose folded names are among these."""

    def forget(self, table: TableName) -> None:
        """Forget all of a table."""

    def verify(self) -> dict[TableName, Damaged]:
        """Read all, and give the tables of which something is damaged. Raises `Unreadable`."""


def folded_name(schema: str, table: str) -> str:
    """What `Store.alike` knows a table by. (No NUL between the names: SQLite's json_each ends a text there.)"""
    return f"{len(schema)}.{schema}.{table}"
