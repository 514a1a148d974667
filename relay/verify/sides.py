"""What both sides are told as: transactions and rows events of the journal, rows events that the witness saw."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec

from relay._native import RowImages
from relay.binlog.columntypes import Type
from relay.binlog.place import Place
from relay.journal.frames import Column, Definition


class Kind(IntEnum):
    """What a row's change is."""

    INSERT = 1
    UPDATE = 2
    DELETE = 4


ROWS: Final = {23: 1, 24: 2, 25: 4, 30: 1, 31: 2, 32: 4, 39: 2, 166: 1, 167: 2, 168: 4, 169: 1, 170: 2, 171: 4}
"""Types of rows events, and the kind of change: 1 insert, 2 update, 4 delete."""
Values = dict[str, object]
Images = list[tuple[Values | None, Values | None]]
"""Before and after of each row: column name to value, None where the row has no such side."""


class Step(NamedTuple):
    """What stands between two boundaries of the journal: a transaction, or a change of file or source.

    `place` is where the source's binlog stands after it; `start` and `end` are journal positions. `lost` says why
    rows that end at or before `place` are not in the journal, "" where all are.
    """

    place: Place
    start: int
    end: int
    identity: str
    rows: int = 0
    gtid: str = ""
    lost: str = ""


class Table(NamedTuple):
    """A definition, and packed: as it stands in its frame, and with all text taken for bytes."""

    definition: Definition
    packed: bytes
    packed_raw: bytes

    @property
    def name(self) -> str:
        """`schema.table`."""
        return f"{self.definition.schema}.{self.definition.table}"


class OurRows(NamedTuple):
    """A rows event of the journal, at the journal position `at`.

    `place` is its end in the binlog; `kind` 1 insert, 2 update, 4 delete.
    """

    at: int
    place: Place
    kind: int
    rows: int
    table: Table
    body: bytes

    def values(self) -> Images:
        """The rows as PollMany's msgpack form has them. Raises `ValueError` for what cannot be decoded."""
        return _images(self.table.packed, self.kind, self.body)

    def raw_values(self) -> Images:
        """As `values`, but text and binary strings as the bytes that stand in the event."""
        return _images(self.table.packed_raw, self.kind, self.body)


class WitnessColumn(NamedTuple):
    """What the witness knows of a column: `name` is None where it had no metadata; `labels` of ENUM and SET."""

    type: int
    name: str | None
    encoding: str | None
    labels: tuple[str, ...] = ()

    @property
    def told(self) -> bool:
        """Whether it had the column's metadata."""
        return self.name is not None


class Seen(NamedTuple):
    """A rows event of the source, or a compressed transaction. `place` is its end.

    `at` is where it took effect: its own place, for an XA transaction that of its XA COMMIT. `rows` holds for each row
    its images, before and after, as values in the order of the columns, None where there is no such side; it is None
    where the witness could not tell, and `fault` says why. `names` are the columns' as the stream tells them, by its
    statements too; none where it does not.
    """

    place: Place
    at: Place
    start: int
    code: int
    schema: str
    table: str
    table_map: bytes
    columns: list[WitnessColumn]
    rows: list[tuple[list[Any] | None, list[Any] | None]] | None
    fault: str = ""
    detail: str = ""
    names: tuple[str, ...] = ()


def as_table(packed: bytes) -> Table:
    """The definition in a TABLE frame."""
    definition = msgspec.msgpack.decode(packed, type=Definition)
    columns = [_raw(column) for column in definition.columns]
    return Table(definition, packed, msgspec.msgpack.encode(msgspec.structs.replace(definition, columns=columns)))


def _raw(column: Column) -> Column:
    """The column as the bytes that stand in the event; VARCHAR is laid out as CHAR and BINARY are, and never padded."""
    if not column.charset:
        return column
    kind = Type.VARCHAR if column.type == Type.STRING else column.type
    return msgspec.structs.replace(column, type=kind, charset="binary", sql_type="varbinary")


def _images(definition: bytes, kind: int, body: bytes) -> Images:
    rows = (msgspec.msgpack.decode(row) for row in RowImages(definition, kind, body).render("msgpack"))
    return [(row[-2], row[-1]) for row in rows]
