"""The journal's frames as typed structs: each payload is a msgpack array of fixed-width fields, the kind first."""

from __future__ import annotations

from typing import Final

import msgspec


class Column(msgspec.Struct, frozen=True, array_like=True):
    """A column of a definition. `type` is the real binlog type, `meta` normalised as in relay.binlog.events.table_maps.

    `charset` is MySQL's name of the character set: "binary" for raw bytes, "" if the type is not text.
    """

    name: str
    name_id: int
    type: int
    meta: int
    unsigned: bool
    nullable: bool
    primary: bool
    charset: str
    labels: list[str]
    sql_type: str


class Definition(msgspec.Struct, frozen=True, array_like=True):
    """A table's definition for a range of rows.

    `version` is the InstanceID; without `proven`, names are positional (@1, @2, ...).
    """

    schema: str
    table: str
    version: int
    schema_id: int
    table_id: int
    proven: bool
    columns: list[Column]


class Table(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A packed definition; `link` is the position of the TABLE frame that replaces it, 0 if none does.

    With all bits of `link` set, its proof is pending; no such frame is ever published.
    """

    link: int
    definition: bytes


class Rows(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A rows event as the server wrote it, from the column count on. `kind`: 1 insert, 2 update, 4 delete."""

    kind: int
    table: int
    end_position: int
    timestamp: int
    rows: int
    sequence: int
    body: bytes


class Commit(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The end of a transaction; `position` is its end in the binlog, `sequence` the number of the next change.

    `server_id` is that of the server where it was made, 0 if unknown.
    """

    position: int
    timestamp: int
    sequence: int
    gtid: str
    server_id: int = 0


class File(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The binlog continues in another file."""

    position: int
    file: str


class Source(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The state at the start of a segment."""

    position: int
    sequence: int
    file: str
    gtid_set: str
    identity: str


class Ddl(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A statement that defines or empties tables. Like each row, it is a change with a number of its own.

    `dialect` is a packed relay.ddl.Dialect, as which the statement was read; `tables` is a packed list of its outcomes,
    relay.schema.history.Outcome. Both are empty in segments before format 3.
    """

    end_position: int
    timestamp: int
    schema: str
    statement: str
    dialect: bytes = b""
    tables: bytes = b""


class Gap(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """An accepted loss of events before this point."""

    position: int
    file: str
    reason: str


Frame = Table | Rows | Commit | File | Source | Ddl | Gap

_DECODER: Final = msgspec.msgpack.Decoder(Frame)


def decode(payload: bytes | memoryview) -> Frame:
    """Decode a frame's payload. Raises `msgspec.DecodeError` for anything else."""
    frame: Frame = _DECODER.decode(payload)
    return frame
