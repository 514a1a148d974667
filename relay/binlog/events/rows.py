"""Events that describe tables and hold rows."""

from __future__ import annotations

from enum import IntFlag

import msgspec

from relay.binlog.columntypes import MapColumn
from relay.binlog.events.header import BinlogEvent
from relay.journal.frames import Definition


class TableMapEvent(BinlogEvent, frozen=True, tag="TABLE_MAP"):
    """The table that a number stands for in the row events that follow."""

    table_id: int
    """The number; it changes when the server opens the table anew."""
    flags: int
    """As the server wrote them; 1 on all servers since MySQL 5.1."""
    database: str
    """The table's database."""
    table: str
    """The table's name."""
    column_count: int
    """How many columns it has."""
    column_types: bytes
    """A byte a column: its type, ENUM and SET as the STRING that carries them."""
    metadata: bytes
    """What each type needs to be read, as the server wrote it."""
    null_indicator: bytes
    """A bit a column, least significant first: it may be NULL."""
    optional_metadata: bytes
    """Names, signedness, character sets and so on, as the server wrote them (binlog_row_metadata)."""
    columns: tuple[MapColumn, ...]
    """All of that, column by column."""
    primary_key: tuple[tuple[int, int], ...]
    """Columns of the primary key in its order: the column's place from 0 on, and how many characters of it count (0:
    all). Empty if there is none, or without binlog_row_metadata = FULL."""
    definition: Definition | None = None
    """The table as statements before it in the stream made it, names and types included; None if they do not tell."""


class RowsFlag(IntFlag):
    """Bits of `RowsEvent.flags`."""

    STATEMENT_END = 0x01
    """The last row event of its statement: table numbers are free after it."""
    NO_FOREIGN_KEY_CHECKS = 0x02
    """The session had foreign_key_checks off."""
    RELAXED_UNIQUE_CHECKS = 0x04
    """The session had unique_checks off."""
    COMPLETE_ROWS = 0x08
    """Every row has all its columns."""
    SQL_FOREIGN_KEYS = 0x10
    """MySQL 9.6 and later: what foreign keys change in other tables has row events of its own."""
    NO_CHECK_CONSTRAINTS = 0x80
    """MariaDB: the session had check_constraint_checks off."""


class ExtraRowInfo(msgspec.Struct, frozen=True):
    """What version 2 adds to a row event."""

    partition_id: int | None = None
    """Number of the table's partition that the rows are in, after an update."""
    source_partition_id: int | None = None
    """Number of the partition that the rows were in before an update."""
    ndb_format: int | None = None
    """Format of what NDB Cluster adds."""
    ndb_data: bytes | None = None
    """What NDB Cluster adds."""
    unknown: bytes = b""
    """From the first kind on that is not known here."""


class RowsEvent(BinlogEvent, frozen=True):
    """Rows of one table that were written, updated or deleted by one statement."""

    type: int
    """The code, as in the header."""
    table_id: int
    """Number of the table, as in its TABLE_MAP."""
    flags: int
    """`RowsFlag` bits."""
    column_count: int
    """How many columns the table has."""
    column_bitmap: bytes
    """A bit a column, least significant first: the first image of each row has it. The image before an update, or the
    only one."""
    column_update_bitmap: bytes
    """As `column_bitmap`, for the image after an update; empty in all other events."""
    row_data_size: int
    """Bytes of `row_data`."""
    row_data: bytes
    """The images of the rows, inflated where they were compressed; `Decoder.rows` reads them."""
    version: int
    """1 (MySQL 5.1 to 5.5, MariaDB) or 2 (MySQL 5.6 and later)."""
    compressed: bool
    """Whether MariaDB compressed the images (log_bin_compress)."""
    extra: ExtraRowInfo | None
    """What version 2 adds, if anything."""
    table_map: TableMapEvent | None
    """The TABLE_MAP of the table; None if none came before."""


class WriteRowsEvent(RowsEvent, frozen=True, tag="WRITE_ROWS"):
    """Rows that were inserted."""


class UpdateRowsEvent(RowsEvent, frozen=True, tag="UPDATE_ROWS"):
    """Rows that were updated: two images each, before and after."""


class DeleteRowsEvent(RowsEvent, frozen=True, tag="DELETE_ROWS"):
    """Rows that were deleted."""


class PartialUpdateRowsEvent(RowsEvent, frozen=True, tag="PARTIAL_UPDATE_ROWS"):
    """Rows that were updated, where the image after the update may hold changes of a JSON document, not all of it
    (MySQL, binlog_row_value_options = PARTIAL_JSON)."""


class RowsV0Event(BinlogEvent, frozen=True, tag="ROWS_V0"):
    """Rows as the test releases of MySQL 5.1 wrote them; no server since reads their images."""

    type: int
    """20, 21 or 22, as in the header: write, update, delete."""
    table_id: int
    """Number of the table, as in its TABLE_MAP."""
    flags: int
    """`RowsFlag` bits."""
    body: bytes
    """Everything after that, up to the checksum."""
