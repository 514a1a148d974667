"""What mysql-replication 1.0.17 is known to get wrong: the names that `relay verify` gives to it, and what each means.

A fault is decided by the kind of event or the type of the column. Where the witness still says something, what it would
say by that fault is computed from our value, and anything else is a difference. docs/verify.md lists this table; a test
holds it to it.
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
NO_PLACES: Final = "no places"
NO_SIGNS: Final = "no signs"
NO_LABELS: Final = "no labels"
NO_CHARSET: Final = "no charset"
CHARSET: Final = "charset"
LABEL_CHARSET: Final = "charset of labels"
PADDING: Final = "BINARY padding"
HIDDEN_TYPE: Final = "UUID and INET"
EMPTY_SET: Final = "empty SET"
NEGATIVE_TIME: Final = "negative fractional TIME"
ZERO_DATE: Final = "zero date"
ZERO_TIMESTAMP: Final = "TIMESTAMP 0"
LATE_TIMESTAMP: Final = "TIMESTAMP after 2038"
ZERO_YEAR: Final = "YEAR 0"
OLD_FRACTION: Final = "old temporal type with a fraction"
OLD_TEMPORAL: Final = "old temporal type"

MEANINGS: Final = {
    COMPRESSED_TRANSACTION: "drops MySQL's compressed transactions (event 40) without a word",
    COMPRESSED_ROWS: "drops MariaDB's compressed rows events (166 to 171) without a word",
    COMPRESSED_COLUMN: "cannot read a table with a COMPRESSED column of MariaDB (types 140, 141)",
    VECTOR: "cannot read a table with a VECTOR column",
    DROPPED: "drops rows events whose table map it has not seen",
    DIED: "failed at a rows event for no reason that is known here: not compared, and the exit code says so",
    UNREADABLE_JSON: "fails at a rows event for a value in a JSON column",
    INVALID_DATE: "fails at a rows event for a DATE that no calendar has, such as 2024-02-30",
    UNREADABLE_LABEL: "fails at a rows event for the number of an ENUM label that it does not have",
    PARTIAL_JSON: "keeps only the first change of a JSON column in a partial update, or None: not compared",
    OPAQUE_JSON: "gives decimals, times and binary strings in JSON other forms: all else in the document is compared",
    NO_NAMES: "has no column names without binlog_row_metadata = FULL, nor do statements in the range tell them:"
    " columns are compared by their places",
    NO_PLACES: "has no column names, and where ExcludeColumns left some out their places are not certain: not compared",
    NO_SIGNS: "takes all integers for signed without binlog_row_metadata = FULL: compared so",
    NO_LABELS: "gives None for ENUM and SET without binlog_row_metadata = FULL: not compared",
    NO_CHARSET: "takes all strings for UTF-8 without binlog_row_metadata = FULL, and drops what is none: compared so",
    CHARSET: "decodes text as Python does, not as the server: its reading of the same bytes is compared",
    LABEL_CHARSET: "reads labels of ENUM and SET as UTF-8, those that are none as empty: their numbers are compared",
    PADDING: "leaves the zero bytes out that end a BINARY value: compared without them",
    HIDDEN_TYPE: "gives UUID, INET4 and INET6 as bytes: these are compared, not the text",
    EMPTY_SET: "gives None for a SET without members",
    NEGATIVE_TIME: "miscounts the fraction of a negative TIME: compared with the miscount",
    ZERO_DATE: "gives None for a date or datetime that no calendar has",
    ZERO_TIMESTAMP: "gives 1970-01-01 00:00:00 for TIMESTAMP 0",
    LATE_TIMESTAMP: "puts a TIMESTAMP after 2038 136 years too early: compared so",
    ZERO_YEAR: "gives 1900 for YEAR 0",
    OLD_FRACTION: "reads a row wrongly from a fraction in MariaDB's temporal format of before 10.1 on: not compared",
    OLD_TEMPORAL: "does not know the sign and the zero of temporal types of before MySQL 5.6: not compared",
}
"""Every known fault, in words that follow `mysql-replication`."""
