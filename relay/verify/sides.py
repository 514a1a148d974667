"""The types of both sides: transactions and rows events of the journal, and rows events of the reference reader."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec

from relay._native import RowImages
from relay.binlog.events.column_types import Type
from relay.binlog.events.position import BinlogPosition
from relay.journal.frames import Column, Definition


class Kind(IntEnum):
    """The kind of a row change."""

    INSERT = 1
    UPDATE = 2
    DELETE = 4


ROWS: Final = {23: 1, 24: 2, 25: 4, 30: 1, 31: 2, 32: 4, 39: 2, 166: 1, 167: 2, 168: 4, 169: 1, 170: 2, 171: 4}
"""Types of rows events, and the kind of change: 1 insert, 2 update, 4 delete."""
Values = dict[str, object]
Images = list[tuple[Values | None, Values | None]]
"""The images before and after each row's change: column name to value; None for an image that does not exist."""


class Step(NamedTuple):
    """The part between two boundaries of the journal: a transaction, or a change of file or source.

    `position` is the binlog position after it; `start` and `end` are journal positions. `lost` is the reason why rows
    that end at or before `position` are missing from the journal, "" if none are.
    """

    position: BinlogPosition
    start: int
    end: int
    identity: str
    rows: int = 0
    gtid: str = ""
    lost: str = ""


class Table(NamedTuple):
    """A definition, and its packed forms: as in its frame, and with all text as bytes."""

    definition: Definition
    packed: bytes
    packed_raw: bytes

    @property
    def name(self) -> str:
        """`schema.table`."""
        return f"{self.definition.schema}.{self.definition.table}"


class JournalRows(NamedTuple):
    """A rows event of the journal.

    `position` is its end in the binlog; `kind` is 1 insert, 2 update, 4 delete.
    """

    journal_position: int
    position: BinlogPosition
    kind: int
    rows: int
    table: Table
    body: bytes

    def values(self) -> Images:
        """Return the rows in PollMany's msgpack form. Raises `ValueError` if they cannot be decoded."""
        return _images(self.table.packed, self.kind, self.body)

    def raw_values(self) -> Images:
        """Like `values`, but text and binary strings are the bytes in the event."""
        return _images(self.table.packed_raw, self.kind, self.body)


class ReferenceColumn(NamedTuple):
    """The reference reader's knowledge of a column.

    `name` is None without metadata; `labels` are those of ENUM and SET.
    """

    type: int
    name: str | None
    encoding: str | None
    labels: tuple[str, ...] = ()

    @property
    def has_metadata(self) -> bool:
        """Whether the table map had metadata of the column."""
        return self.name is not None


class ReferenceEvent(NamedTuple):
    """A rows event of the source, or a compressed transaction. `position` is its end.

    `commit_position` is its own end or, for an XA transaction, the end of the XA COMMIT. `rows` has the images before
    and after each change, as values in the order of the columns, None for an image that does not exist. It is None if
    the reference reader could not read the event, and `fault` says why. `names` are the column names from the stream
    and its statements; empty if unknown.
    """

    position: BinlogPosition
    commit_position: BinlogPosition
    code: int
    schema: str
    table: str
    table_map: bytes
    columns: list[ReferenceColumn]
    rows: list[tuple[list[Any] | None, list[Any] | None]] | None
    fault: str = ""
    detail: str = ""
    names: tuple[str, ...] = ()


def as_table(packed: bytes) -> Table:
    """Return the definition in a TABLE frame."""
    definition = msgspec.msgpack.decode(packed, type=Definition)
    columns = [_raw(column) for column in definition.columns]
    return Table(definition, packed, msgspec.msgpack.encode(msgspec.structs.replace(definition, columns=columns)))


def _raw(column: Column) -> Column:
    """Return the column as raw bytes.

    VARCHAR has the layout of CHAR and BINARY, and is never padded.
    """
    if not column.charset:
        return column
    kind = Type.VARCHAR if column.type == Type.STRING else column.type
    return msgspec.structs.replace(column, type=kind, charset="binary", sql_type="varbinary")


def _images(definition: bytes, kind: int, body: bytes) -> Images:
    rows = (msgspec.msgpack.decode(row) for row in RowImages(definition, kind, body).render("msgpack"))
    return [(row[-2], row[-1]) for row in rows]
