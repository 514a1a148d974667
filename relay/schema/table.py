"""A table as the server has it, with all defaults resolved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from relay.ddl.syntax import DataType, Generated, IndexKind, IndexPart, Period


class Column(msgspec.Struct, frozen=True, array_like=True):
    """A column. Its type is the stored one: sizes, signs and the character set are the server's.

    `nullable` is None if the binlog does not say it. `implicit` is empty for a column of the definition. Other columns
    are only in rows: the bounds of system versioning ("period"), and the hash of a unique key ("hash").
    """

    name: str
    type: DataType
    nullable: bool | None = True
    generated: Generated = Generated.NO
    implicit: str = ""
    invisible: bool = False


class Index(msgspec.Struct, frozen=True, array_like=True):
    """An index; a part without a name is an expression. `overlaps` is the period of WITHOUT OVERLAPS, if any."""

    kind: IndexKind
    name: str
    parts: tuple[IndexPart, ...]
    hashed: bool = False
    overlaps: str = ""


class Table(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A table. `columns` are in the order of its rows.

    `key` has the names of the columns that identify a row: those of the primary key, or of the unique index that the
    server uses as one. `charset` is that of new columns without one, empty if unknown. If the indexes are unknown,
    `indexes` is None and `charset` is empty. `assumed` are the schemas whose assumed character set it depends on.
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
    assumed: tuple[str, ...] = ()


class Absent(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The table does not exist."""


class Unknown(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The table's definition is unknown; `cause` says why."""

    cause: str


State: TypeAlias = Table | Absent | Unknown
ABSENT: Final = Absent()


class Schema(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A schema.

    `charset` is that of new tables without one, empty if unknown. `complete`: all its tables are known, so that others
    do not exist. `earlier` are its earlier character sets. `perhaps` is the character set that it has if a CREATE
    DATABASE IF NOT EXISTS made it.
    """

    charset: str
    complete: bool = False
    earlier: tuple[str, ...] = ()
    perhaps: str = ""

    def with_charset(self, charset: str) -> Schema:
        """Return the schema after a change to that character set."""
        earlier = {*self.earlier, self.charset} - {charset, ""}
        return Schema(charset, self.complete, tuple(sorted(earlier)))


def same_name(one: str, other: str) -> bool:
    """Whether two names of columns or indexes are the same to the server."""
    return one == other or one.lower() == other.lower()


def is_among(name: str, names: Iterable[str]) -> bool:
    """Whether one of these names is the same to the server."""
    return any(same_name(name, other) for other in names)


def find(columns: Sequence[Column], name: str) -> Column | None:
    """Return the column of that name, None if there is none."""
    return next((column for column in columns if same_name(column.name, name)), None)
