"""A table as the server has it: what its statements made of it, with nothing left to be looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from relay.ddl.syntax import DataType, Generated, IndexKind, IndexPart, Period, TableName


class Column(msgspec.Struct, frozen=True, array_like=True):
    """A column. Its type is spelled out: sizes, signs and the character set are the server's own.

    `nullable` is None where the binlog does not say what it was when the statement was executed. `implicit`: nobody
    defined it, but its values stand in rows: bounds of a period ("period"), or the hash of a unique key ("hash").
    """

    name: str
    type: DataType
    nullable: bool | None = True
    generated: Generated = Generated.NO
    implicit: str = ""
    invisible: bool = False


class Index(msgspec.Struct, frozen=True, array_like=True):
    """An index; a part without a name is an expression. `overlaps` is the period of WITHOUT OVERLAPS."""

    kind: IndexKind
    name: str
    parts: tuple[IndexPart, ...]
    hashed: bool = False
    overlaps: str = ""


class Table(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A table. `columns` are in the order of its rows.

    `key` names the columns that tell rows apart: of the primary key, or of the unique index that the server takes for
    one. `indexes` is None where they are not known; `charset`, that of columns which name none, is empty then.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] | None
    charset: str
    key: frozenset[str] = frozenset()
    engine: str = ""
    versioned: bool = False
    periods: tuple[Period, ...] = ()

    @property
    def named(self) -> TableName:
        """Its schema and name."""
        return TableName(self.schema, self.name)

    def column(self, name: str) -> Column | None:
        """The column of that name, whose case does not matter."""
        return find(self.columns, name)


class Absent(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """There is no such table."""


class Unknown(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """What the table is like is not known; `cause`: why."""

    cause: str


State: TypeAlias = Table | Absent | Unknown
ABSENT: Final = Absent()


class Schema(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A schema: the character set of tables that name none, empty if it is not known; `complete`: all of its tables are
    known, so that others are not there; `earlier`: other character sets that it had before."""

    charset: str
    complete: bool = False
    earlier: tuple[str, ...] = ()

    def becoming(self, charset: str) -> Schema:
        """With that character set from now on."""
        had = {*self.earlier, self.charset} - {charset, ""}
        return Schema(charset, self.complete, tuple(sorted(had)))


def same_name(one: str, other: str) -> bool:
    """Whether two names of columns or indexes are one to the server."""
    return one == other or one.lower() == other.lower()


def find(columns: Sequence[Column], name: str) -> Column | None:
    """The column of that name among these."""
    return next((column for column in columns if same_name(column.name, name)), None)
