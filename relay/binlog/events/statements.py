"""Events with statements, and with the session values and files that statements depend on."""

from __future__ import annotations

import msgspec

from relay.binlog.events.header import BinlogEvent


class QueryStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status variables of a QUERY: the session values that the statement depends on.

    A field is None if the server did not write it. The number in each description is the variable's code; a field
    without more is the session's variable of that name. Collations are the server's numbers.
    """

    flags2: int | None = None
    """0: bits of the session's options, such as foreign_key_checks off (0x04000000)."""
    sql_mode: int | None = None
    """1: the session's sql_mode as bits."""
    catalog: str | None = None
    """2 or 6: always `std`."""
    auto_increment: tuple[int, int] | None = None
    """3: auto_increment_increment and auto_increment_offset."""
    charset: tuple[int, int, int] | None = None
    """4: character_set_client, collation_connection and collation_server."""
    time_zone: str | None = None
    """5."""
    lc_time_names: int | None = None
    """7: number of the locale of DATE_FORMAT."""
    charset_database: int | None = None
    """8: collation_database."""
    table_map_for_update: int | None = None
    """9: the tables that a multi-table update writes, one bit each."""
    master_data_written: int | None = None
    """10: length of the statement in the original's binlog, in bytes."""
    invoker: tuple[str, str] | None = None
    """11: user and host of the definer or grantor."""
    updated_db_names: tuple[str, ...] | None = None
    """12: databases that the statement changes; empty if there are more than the server lists."""
    microseconds: int | None = None
    """13 (MySQL) or 128 (MariaDB): fraction of the second in the header's timestamp."""
    explicit_defaults_for_timestamp: bool | None = None
    """16."""
    ddl_xid: int | None = None
    """17 (MySQL) or 129 (MariaDB): number of the engine's transaction of the DDL statement."""
    default_collation_for_utf8mb4: int | None = None
    """18."""
    sql_require_primary_key: bool | None = None
    """19."""
    default_table_encryption: bool | None = None
    """20."""
    enable_cascade_triggers: bool | None = None
    """21 (MySQL 9.7 and later)."""
    gtid_flags3: int | None = None
    """130: MariaDB's `GtidExtra` bits of an ALTER TABLE in two phases."""
    start_alter_seq_no: int | None = None
    """130, if the bits contain COMMIT or ROLLBACK: sequence number of the ALTER's beginning."""
    character_set_collations: tuple[tuple[int, int], ...] | None = None
    """131: MariaDB's variable of that name, as pairs of numbers: a character set and its default collation."""
    unknown: bytes = b""
    """Undecoded bytes, from the first variable with an unknown code on."""


class QueryEvent(BinlogEvent, frozen=True, tag="QUERY"):
    """A statement: DDL, transaction control, or, in statement format, a change of rows."""

    thread_id: int
    """The session, as in SHOW PROCESSLIST."""
    seconds: int
    """Run time of the statement."""
    database: str
    """The session's default database."""
    errornr: int
    """The server's error number for the statement, 0 for none."""
    status: QueryStatus
    """The session values that the statement depends on."""
    statement: str
    """The statement, converted from the session's character set; U+FFFD replaces invalid bytes."""


class QueryCompressedEvent(QueryEvent, frozen=True, tag="QUERY_COMPRESSED"):
    """A QUERY whose statement MariaDB compressed (log_bin_compress); the struct has it uncompressed."""


class IntvarEvent(BinlogEvent, frozen=True, tag="INTVAR"):
    """An integer for the statement that follows."""

    type: int
    """1: the value of LAST_INSERT_ID(); 2: the first AUTO_INCREMENT value."""
    value: int
    """The number."""


class RandEvent(BinlogEvent, frozen=True, tag="RAND"):
    """The seeds of RAND() for the statement that follows."""

    first_seed: int
    """The session's rand_seed1."""
    second_seed: int
    """The session's rand_seed2."""


class UserVarEvent(BinlogEvent, frozen=True, tag="USERVAR"):
    """The value of a user variable for the statement that follows."""

    name: str
    """The name, without the @."""
    is_null: bool
    """Whether the value is NULL; the other fields are then empty."""
    type: int
    """Type of the value: 0 text, 1 a double, 2 an integer, 4 a decimal."""
    charset_nr: int
    """Collation of a text."""
    value: bytes
    """Text in its character set; a double or integer as 8 bytes, little-endian; a decimal as precision, scale and the
    digits as in a column of that type."""
    flags: int
    """1: the integer is unsigned."""


class BeginLoadQueryEvent(BinlogEvent, frozen=True, tag="BEGIN_LOAD_QUERY"):
    """The first block of a file that LOAD DATA reads, in statement format."""

    file_id: int
    """Number of the file, used by the events that follow."""
    block_data: bytes
    """The beginning of the file."""


class AppendBlockEvent(BinlogEvent, frozen=True, tag="APPEND_BLOCK"):
    """The next block of a file that LOAD DATA reads."""

    file_id: int
    """Number of the file."""
    block_data: bytes
    """The block's contents."""


class DeleteFileEvent(BinlogEvent, frozen=True, tag="DELETE_FILE"):
    """The LOAD DATA failed; its file is not needed."""

    file_id: int
    """Number of the file."""


class ExecuteLoadQueryEvent(QueryEvent, frozen=True, tag="EXECUTE_LOAD_QUERY"):
    """The LOAD DATA statement for the file sent before it."""

    file_id: int
    """Number of the file."""
    fn_pos_start: int
    """Byte offset in the statement where the file name and its options begin."""
    fn_pos_end: int
    """Byte offset where they end."""
    dup_handling: int
    """Handling of duplicate keys: 0 an error, 1 IGNORE, 2 REPLACE."""


class AnnotateRowsEvent(BinlogEvent, frozen=True, tag="ANNOTATE_ROWS"):
    """MariaDB: the statement whose row events follow. Sent only on request."""

    statement: str
    """The statement as UTF-8; U+FFFD replaces invalid bytes."""


class RowsQueryEvent(BinlogEvent, frozen=True, tag="ROWS_QUERY"):
    """MySQL (binlog_rows_query_log_events): the statement whose row events follow."""

    statement: str
    """The statement as UTF-8; U+FFFD replaces invalid bytes."""
