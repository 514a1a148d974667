"""The known faults of mysql-replication 1.0.17: the names that `relay verify` gives them, and their meanings.

The type of the event or of the column determines a fault. If the reference reader still returns a value, the value that
it returns because of the fault is computed from the journal's value, and anything else is a difference. docs/verify.md
lists this table; a test compares both.
"""

from __future__ import annotations

from typing import Final

COMPRESSED_TRANSACTION: Final = "compressed transaction"
COMPRESSED_ROWS: Final = "compressed rows"
COMPRESSED_COLUMN: Final = "COMPRESSED column"
VECTOR: Final = "VECTOR"
DROPPED: Final = "dropped event"
DIED: Final = "unread event"
UNREADABLE_JSON: Final = "unreadable JSON"
INVALID_DATE: Final = "invalid DATE"
UNREADABLE_LABEL: Final = "unreadable label"
PARTIAL_JSON: Final = "partial JSON"
OPAQUE_JSON: Final = "opaque JSON"
NO_NAMES: Final = "no names"
NO_POSITIONS: Final = "no places"
NO_SIGNS: Final = "no signs"
NO_LABELS: Final = "no labels"
NO_CHARSET: Final = "no charset"
CHARSET: Final = "charset"
LABEL_CHARSET: Final = "charset of labels"
PADDING: Final = "BINARY padding"
NO_TYPES: Final = "UUID and INET"
EMPTY_SET: Final = "empty SET"
NEGATIVE_TIME: Final = "negative fractional TIME"
ZERO_DATE: Final = "zero date"
ZERO_TIMESTAMP: Final = "TIMESTAMP 0"
LATE_TIMESTAMP: Final = "TIMESTAMP after 2038"
ZERO_YEAR: Final = "YEAR 0"
OLD_FRACTION: Final = "old temporal type with a fraction"
OLD_TEMPORAL: Final = "old temporal type"

MEANINGS: Final = {
    COMPRESSED_TRANSACTION: "drops MySQL's compressed transactions (event 40) silently",
    COMPRESSED_ROWS: "drops MariaDB's compressed rows events (166 to 171) silently",
    COMPRESSED_COLUMN: "cannot read a table with a COMPRESSED column of MariaDB (types 140, 141)",
    VECTOR: "cannot read a table with a VECTOR column",
    DROPPED: "drops rows events whose table map it has not seen",
    DIED: "failed at a rows event for an unknown reason: not compared, and the exit code says so",
    UNREADABLE_JSON: "fails at a rows event for a value in a JSON column",
    INVALID_DATE: "fails at a rows event for a DATE that does not exist, such as 2024-02-30",
    UNREADABLE_LABEL: "fails at a rows event for an ENUM number that has no label",
    PARTIAL_JSON: "keeps only the first change of a JSON column in a partial update, or None: not compared",
    OPAQUE_JSON: "changes the form of decimals, times and binary strings in JSON: the rest of the document is compared",
    NO_NAMES: "has no column names without binlog_row_metadata = FULL, and statements in the range do not contain them:"
    " columns are compared by position",
    NO_POSITIONS: "has no column names, and ExcludeColumns makes the columns' positions uncertain: not compared",
    NO_SIGNS: "reads all integers as signed without binlog_row_metadata = FULL: compared as signed",
    NO_LABELS: "returns None for ENUM and SET without binlog_row_metadata = FULL: not compared",
    NO_CHARSET: "reads strings as UTF-8 without binlog_row_metadata = FULL, and drops invalid bytes: compared that way",
    CHARSET: "decodes text with Python's codecs, not the server's: Python's decoding of the same bytes is compared",
    LABEL_CHARSET: "reads labels of ENUM and SET as UTF-8, and invalid ones as empty: their numbers are compared",
    PADDING: "omits zero bytes at the end of a BINARY value: compared without them",
    NO_TYPES: "returns UUID, INET4 and INET6 as bytes: the bytes are compared, not the text",
    EMPTY_SET: "returns None for a SET without members",
    NEGATIVE_TIME: "miscounts the fraction of a negative TIME: compared with the miscount",
    ZERO_DATE: "returns None for a date or datetime that does not exist in the calendar",
    ZERO_TIMESTAMP: "returns 1970-01-01 00:00:00 for TIMESTAMP 0",
    LATE_TIMESTAMP: "returns a TIMESTAMP after 2038 136 years too early: compared with that shift",
    ZERO_YEAR: "returns 1900 for YEAR 0",
    OLD_FRACTION: "misreads a row after a fraction in MariaDB's temporal format before 10.1: not compared",
    OLD_TEMPORAL: "ignores the sign and the zero of temporal types before MySQL 5.6: not compared",
}
"""Every known fault; the text follows the word `mysql-replication`."""
