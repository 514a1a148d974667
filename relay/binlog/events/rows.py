"""Events that describe tables or contain rows."""

from __future__ import annotations

from enum import IntFlag

import msgspec

from relay.binlog.events.column_types import MapColumn
from relay.binlog.events.header import BinlogEvent
from relay.journal.frames import Definition


class TableMapEvent(BinlogEvent, frozen=True, tag="TABLE_MAP"):
    """The table behind a table number of the row events that follow."""

    table_id: int
    """The table number; it changes when the server reopens the table."""
    flags: int
    """As the server wrote them; 1 on all servers since MySQL 5.1."""
    database: str
    """The table's database."""
    table: str
    """The table's name."""
    column_count: int
    """Number of columns."""
    column_types: bytes
    """One byte for each column: its type, with ENUM and SET as STRING."""
    metadata: bytes
    """The types' parameters, as the server wrote them."""
    null_indicator: bytes
    """One bit for each column, least significant first: whether it may be NULL."""
    optional_metadata: bytes
    """Names, signedness, character sets and so on, as the server wrote them (binlog_row_metadata)."""
    columns: tuple[MapColumn, ...]
    """The decoded fields of each column."""
    primary_key: tuple[tuple[int, int], ...]
    """Columns of the primary key in key order: the column's index from 0 on, and the length of its prefix in characters
    (0: all).

    Empty without a primary key, or without binlog_row_metadata = FULL.
    """
    definition: Definition | None = None
    """The definition from earlier statements of the stream, with names and types; None without such statements."""


class RowsFlag(IntFlag):
    """Bits of `RowsEvent.flags`."""

    STATEMENT_END = 0x01
    """The last row event of its statement; table numbers may be reused after it."""
    NO_FOREIGN_KEY_CHECKS = 0x02
    """The session had foreign_key_checks off."""
    RELAXED_UNIQUE_CHECKS = 0x04
    """The session had unique_checks off."""
    COMPLETE_ROWS = 0x08
    """Every row has all columns."""
    SQL_FOREIGN_KEYS = 0x10
    """MySQL 9.6 and later: changes by foreign keys in other tables have row events of their own."""
    NO_CHECK_CONSTRAINTS = 0x80
    """MariaDB: the session had check_constraint_checks off."""


class ExtraRowInfo(msgspec.Struct, frozen=True):
    """The additional fields of a row event of version 2."""

    partition_id: int | None = None
    """Number of the rows' partition; for an update, the partition after it."""
    source_partition_id: int | None = None
    """Number of the rows' partition before an update."""
    ndb_format: int | None = None
    """Format of NDB Cluster's data."""
    ndb_data: bytes | None = None
    """NDB Cluster's data."""
    unknown: bytes = b""
    """Undecoded bytes, from the first unknown kind on."""


class RowsEvent(BinlogEvent, frozen=True):
    """Rows of one table that were written, updated or deleted by one statement."""

    type: int
    """The event type, as in the header."""
    table_id: int
    """Number of the table, as in its TABLE_MAP."""
    flags: int
    """`RowsFlag` bits."""
    column_count: int
    """Number of columns of the table."""
    column_bitmap: bytes
    """One bit for each column, least significant first: whether the row's first image has it.

    The first image is the one before an update, or the only one.
    """
    column_update_bitmap: bytes
    """Like `column_bitmap`, for the image after an update; empty in all other events."""
    row_data_size: int
    """Bytes of `row_data`."""
    row_data: bytes
    """The row images, uncompressed; `Decoder.rows` decodes them."""
    version: int
    """1 (MySQL 5.1 to 5.5, MariaDB) or 2 (MySQL 5.6 and later)."""
    compressed: bool
    """Whether MariaDB had compressed the images (log_bin_compress)."""
    extra: ExtraRowInfo | None
    """Additional fields of version 2, if present."""
    table_map: TableMapEvent | None
    """The table's TABLE_MAP; None if none came before."""


class WriteRowsEvent(RowsEvent, frozen=True, tag="WRITE_ROWS"):
    """Inserted rows."""


class UpdateRowsEvent(RowsEvent, frozen=True, tag="UPDATE_ROWS"):
    """Updated rows: two images each, before and after."""


class DeleteRowsEvent(RowsEvent, frozen=True, tag="DELETE_ROWS"):
    """Deleted rows."""


class PartialUpdateRowsEvent(RowsEvent, frozen=True, tag="PARTIAL_UPDATE_ROWS"):
    """Updated rows whose image after the update may have only the changes of a JSON document.

    MySQL writes them with binlog_row_value_options = PARTIAL_JSON.
    """


class RowsV0Event(BinlogEvent, frozen=True, tag="ROWS_V0"):
    """Rows in the format of MySQL 5.1's test releases; no later server reads their images."""

    type: int
    """20, 21 or 22, as in the header: write, update, delete."""
    table_id: int
    """Number of the table, as in its TABLE_MAP."""
    flags: int
    """`RowsFlag` bits."""
    body: bytes
    """Everything after the header, up to the checksum."""
