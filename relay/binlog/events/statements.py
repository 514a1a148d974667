"""Events that hold statements, and what statements need to be executed again."""

from __future__ import annotations

import msgspec

from relay.binlog.events.header import BinlogEvent


class QueryStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status variables of a QUERY: what of its session the statement depends on; None where the server wrote none.

    The number in each description is the variable's code. Collations are the server's numbers.
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
    """5: the session's time_zone."""
    lc_time_names: int | None = None
    """7: number of the locale of DATE_FORMAT."""
    charset_database: int | None = None
    """8: collation_database."""
    table_map_for_update: int | None = None
    """9: which tables of a multi-table update are written, a bit each."""
    master_data_written: int | None = None
    """10: bytes that the statement had in the original's binlog."""
    invoker: tuple[str, str] | None = None
    """11: user and host that a definer or grantor is to be."""
    updated_db_names: tuple[str, ...] | None = None
    """12: databases that the statement writes to; empty if there are more than the server lists."""
    microseconds: int | None = None
    """13 (MySQL) or 128 (MariaDB): fraction of the second in the header's timestamp."""
    explicit_defaults_for_timestamp: bool | None = None
    """16: the session's variable of that name."""
    ddl_xid: int | None = None
    """17 (MySQL) or 129 (MariaDB): number of the engine's transaction that the definition was made in."""
    default_collation_for_utf8mb4: int | None = None
    """18: the session's variable of that name."""
    sql_require_primary_key: bool | None = None
    """19: the session's variable of that name."""
    default_table_encryption: bool | None = None
    """20: the session's variable of that name."""
    enable_cascade_triggers: bool | None = None
    """21: the session's variable of that name (MySQL 9.7 and later)."""
    gtid_flags3: int | None = None
    """130: MariaDB's `GtidExtra` bits of an ALTER TABLE in two phases."""
    start_alter_seq_no: int | None = None
    """130, where the bits say COMMIT or ROLLBACK: sequence number of the ALTER that began."""
    character_set_collations: tuple[tuple[int, int], ...] | None = None
    """131: MariaDB's variable of that name, as pairs of a character set's and its default collation's number."""
    unknown: bytes = b""
    """From the first variable on whose code is not known here; what follows cannot be told apart."""


class QueryEvent(BinlogEvent, frozen=True, tag="QUERY"):
    """A statement: a definition, transaction control, or, in statement format, a change of rows."""

    thread_id: int
    """The session, as in SHOW PROCESSLIST."""
    seconds: int
    """How long the statement ran."""
    database: str
    """The session's default database."""
    errornr: int
    """The server's error number that the statement ended with, 0 for none."""
    status: QueryStatus
    """What of its session it depends on."""
    statement: str
    """The statement, converted from the session's character set; U+FFFD stands for bytes that are none of it."""


class QueryCompressedEvent(QueryEvent, frozen=True, tag="QUERY_COMPRESSED"):
    """A QUERY whose statement MariaDB compressed (log_bin_compress); it is inflated here."""


class IntvarEvent(BinlogEvent, frozen=True, tag="INTVAR"):
    """A number for the statement that follows."""

    type: int
    """1: what LAST_INSERT_ID() gives; 2: the first AUTO_INCREMENT value."""
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
    """Without the @."""
    is_null: bool
    """Whether it is NULL; then there is nothing more."""
    type: int
    """What the value is: 0 text, 1 a double, 2 an integer, 4 a decimal."""
    charset_nr: int
    """Collation of a text."""
    value: bytes
    """Text in its character set; 8 bytes little-endian of a double or integer; precision, scale and digits of a decimal
    as in a column of that type."""
    flags: int
    """1: the integer is unsigned."""


class BeginLoadQueryEvent(BinlogEvent, frozen=True, tag="BEGIN_LOAD_QUERY"):
    """The first block of a file that LOAD DATA reads, in statement format."""

    file_id: int
    """Number of the file, for the events that follow."""
    block_data: bytes
    """What the file begins with."""


class AppendBlockEvent(BinlogEvent, frozen=True, tag="APPEND_BLOCK"):
    """A further block of a file that LOAD DATA reads."""

    file_id: int
    """Number of the file."""
    block_data: bytes
    """What comes next in the file."""


class DeleteFileEvent(BinlogEvent, frozen=True, tag="DELETE_FILE"):
    """The LOAD DATA failed: its file is not needed."""

    file_id: int
    """Number of the file."""


class ExecuteLoadQueryEvent(QueryEvent, frozen=True, tag="EXECUTE_LOAD_QUERY"):
    """The LOAD DATA statement whose file came before."""

    file_id: int
    """Number of the file."""
    fn_pos_start: int
    """Where, in bytes of the statement, the file's name and what belongs to it begins."""
    fn_pos_end: int
    """Where it ends."""
    dup_handling: int
    """What happens to rows whose key is there already: 0 an error, 1 IGNORE, 2 REPLACE."""


class AnnotateRowsEvent(BinlogEvent, frozen=True, tag="ANNOTATE_ROWS"):
    """MariaDB: the statement whose row events follow. Sent to those who ask for it."""

    statement: str
    """The statement as UTF-8; U+FFFD stands for bytes that are none."""


class RowsQueryEvent(BinlogEvent, frozen=True, tag="ROWS_QUERY"):
    """MySQL (binlog_rows_query_log_events): the statement whose row events follow."""

    statement: str
    """The statement as UTF-8; U+FFFD stands for bytes that are none."""
