"""The one error type of the relay, its codes, and what each code means to a shell.

Every failure that a person may see is a `RelayError`. Its code selects, in the one table below, the exit code of
the command line and the hint that is shown when the place that failed knew no better one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple


class ExitCode(IntEnum):
    """Exit codes of the `relay` command and of the relay's processes (docs/exit-codes.md)."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    CONFIG = 3
    SOURCE = 4
    STOPPED = 5
    NOT_RUNNING = 6
    REMAINDER = 7
    ALREADY_RUNNING = 8
    ENVIRONMENT = 9
    REFUSED = 10
    CHECK_FAILED = 11
    UNVERIFIED = 12


class StopCode(StrEnum):
    """Named stops: reasons for which the relay stops rather than loop or skip silently."""

    BINLOG_PURGED = "binlog_purged"
    GTID_GAP = "gtid_gap"
    BINLOG_RESET = "binlog_reset"
    WRONG_SOURCE = "wrong_source"
    SERVER_ID_CLASH = "server_id_clash"
    EVENT_TOO_LARGE = "event_too_large"
    UNKNOWN_EVENT = "unknown_event"
    PARTIAL_IMAGE = "partial_image"
    CHECKSUM_MISMATCH = "checksum_mismatch"
    SCHEMA_UNPROVEN = "schema_unproven"
    SOURCE_DENIED = "source_denied"
    STATEMENT_FORMAT = "statement_format"
    JOURNAL_LOST = "journal_lost"
    JOURNAL_CORRUPT = "journal_corrupt"
    NEWER_FORMAT = "newer_format"
    DISK_FULL = "disk_full"
    SYNC_FAILED = "sync_failed"
    UNSUPPORTED_COLUMN = "unsupported_column"
    LAKE_DAMAGED = "lake_damaged"
    LAKE_CONFLICT = "lake_conflict"
    LAKE_COLUMNS = "lake_columns"
    LOG_DAMAGED = "log_damaged"


class ErrorCode(StrEnum):
    """Failures that are not named stops of the stream."""

    UNEXPECTED = "unexpected"
    USAGE = "usage"
    CONFIG = "config"
    SOURCE_UNREACHABLE = "source_unreachable"
    NOT_RUNNING = "not_running"
    REMAINDER = "remainder"
    ALREADY_RUNNING = "already_running"
    ENVIRONMENT = "environment"
    ADMIN_REFUSED = "admin_refused"
    LOGIN_REFUSED = "login_refused"
    PROTOCOL = "protocol"
    CHECK_FAILED = "check_failed"
    DIFFERENCE = "difference"
    UNVERIFIED = "unverified"
    LAKE_STORAGE = "lake_storage"
    LOG_STORAGE = "log_storage"
    SPARK = "spark"


class Meaning(NamedTuple):
    """What a code means: the exit code it ends a command with and the hint shown with it."""

    exit_code: ExitCode
    hint: str


_ACCEPT_GAP = "`relay start --accept-gap` goes on after the loss and records it for every client"

MEANINGS: Final[Mapping[str, Meaning]] = {
    ErrorCode.UNEXPECTED: Meaning(ExitCode.UNEXPECTED, "a defect of the relay: please report it with the log"),
    ErrorCode.USAGE: Meaning(ExitCode.USAGE, "see `relay --help`"),
    ErrorCode.CONFIG: Meaning(ExitCode.CONFIG, "see docs/config.md"),
    ErrorCode.SOURCE_UNREACHABLE: Meaning(ExitCode.SOURCE, "check IPAddr, Port and SourceTLS in [Server]"),
    ErrorCode.NOT_RUNNING: Meaning(
        ExitCode.NOT_RUNNING, "start it with `relay start`, or point -c at its configuration"
    ),
    ErrorCode.REMAINDER: Meaning(ExitCode.REMAINDER, "the rows left are kept; they are served after the next start"),
    ErrorCode.ALREADY_RUNNING: Meaning(
        ExitCode.ALREADY_RUNNING, "stop the other one with `relay stop`, or use another DataDir"
    ),
    ErrorCode.ENVIRONMENT: Meaning(ExitCode.ENVIRONMENT, "run `make setup`, or install the package again"),
    ErrorCode.ADMIN_REFUSED: Meaning(ExitCode.REFUSED, "check AdminSecret and AdminFrom in [Server]"),
    ErrorCode.LOGIN_REFUSED: Meaning(
        ExitCode.REFUSED, "check AuthSecret, or Secret in [Client NAME], in the relay's configuration"
    ),
    ErrorCode.PROTOCOL: Meaning(ExitCode.UNEXPECTED, "is a relay listening at this address and port?"),
    ErrorCode.CHECK_FAILED: Meaning(ExitCode.CHECK_FAILED, "apply the remedies above and check again"),
    ErrorCode.DIFFERENCE: Meaning(
        ExitCode.UNEXPECTED,
        "the journal is suspect: please report the differences above with the definition of the table",
    ),
    ErrorCode.UNVERIFIED: Meaning(
        ExitCode.UNVERIFIED, "what was compared is said above: try again, or with a range behind that position"
    ),
    ErrorCode.LAKE_STORAGE: Meaning(
        ExitCode.ENVIRONMENT, "check the lake's path, its free space, and the rights or credentials for it"
    ),
    ErrorCode.LOG_STORAGE: Meaning(
        ExitCode.ENVIRONMENT, "check Path in [Logger], its free space, and the rights for it: it is tried again"
    ),
    ErrorCode.SPARK: Meaning(
        ExitCode.ENVIRONMENT, "the job can be repeated; `--conf spark.log.level=INFO` shows what Spark did"
    ),
    StopCode.BINLOG_PURGED: Meaning(ExitCode.STOPPED, "the source purged what comes next; " + _ACCEPT_GAP),
    StopCode.GTID_GAP: Meaning(ExitCode.STOPPED, "the source lacks transactions that come next; " + _ACCEPT_GAP),
    StopCode.BINLOG_RESET: Meaning(
        ExitCode.STOPPED,
        "RESET MASTER, or a restored copy of the server, began another history: what was not read of the former one is"
        " lost; `relay start --accept-gap` goes on at the beginning of the new one and records it for every client",
    ),
    StopCode.WRONG_SOURCE: Meaning(
        ExitCode.STOPPED,
        "this is not the server that DataDir belongs to: correct IPAddr, or use another DataDir; " + _ACCEPT_GAP,
    ),
    StopCode.SERVER_ID_CLASH: Meaning(
        ExitCode.STOPPED, "another replica uses this server id: set another ServerId in [Source]"
    ),
    StopCode.EVENT_TOO_LARGE: Meaning(
        ExitCode.STOPPED,
        "no server sends an event beyond 1 GiB; `relay start --accept-gap` leaves out the rest of that binlog file"
        " and records it for every client",
    ),
    StopCode.UNKNOWN_EVENT: Meaning(ExitCode.STOPPED, "`OnUnknown = skip` in [Relay] skips and counts such events"),
    StopCode.PARTIAL_IMAGE: Meaning(
        ExitCode.STOPPED,
        "set binlog_row_image = FULL on the source, or `OnPartialImage = send` in [Relay]; MariaDB 11.8.9 leaves"
        " generated columns out whatever it is",
    ),
    StopCode.CHECKSUM_MISMATCH: Meaning(
        ExitCode.STOPPED, "an event was damaged on its way or on the source's disk: check it there with mysqlbinlog"
    ),
    StopCode.SCHEMA_UNPROVEN: Meaning(
        ExitCode.STOPPED,
        "set binlog_row_metadata = FULL on the source, or `OnUnproven = positional` in [Relay]",
    ),
    StopCode.SOURCE_DENIED: Meaning(
        ExitCode.SOURCE, "check Login and Password in [Server]; `relay check` prints the grants that are needed"
    ),
    StopCode.STATEMENT_FORMAT: Meaning(
        ExitCode.STOPPED,
        "set binlog_format = ROW on the source, for every session; `OnUnknown = skip` in [Relay] leaves out the rows"
        " that such a statement changed, which no client, lake or log gets, and counts it",
    ),
    StopCode.JOURNAL_LOST: Meaning(
        ExitCode.STOPPED, "the journal that clients stand in is gone: restore DataDir; " + _ACCEPT_GAP
    ),
    StopCode.SYNC_FAILED: Meaning(
        ExitCode.STOPPED,
        "the disk lost what was written to it: look at the kernel's log, mend or replace the disk, then `relay resume`",
    ),
    StopCode.JOURNAL_CORRUPT: Meaning(
        ExitCode.STOPPED,
        "stop the relay, and `relay repair` the journal; else restore DataDir, or move it away and start anew",
    ),
    StopCode.NEWER_FORMAT: Meaning(
        ExitCode.STOPPED, "a newer release wrote this DataDir: run that one, or restore the DataDir of before it"
    ),
    StopCode.DISK_FULL: Meaning(
        ExitCode.STOPPED, "make room for DataDir, make it writable again, or lower JournalMaxBytes in [Relay]"
    ),
    StopCode.UNSUPPORTED_COLUMN: Meaning(
        ExitCode.STOPPED, "leave the column out with ExcludeColumns in [Source], or set `OnUnknown = skip` in [Relay]"
    ),
    StopCode.LAKE_DAMAGED: Meaning(
        ExitCode.STOPPED, "restore that file from a backup; docs/lake.md says what hangs on it"
    ),
    StopCode.LAKE_CONFLICT: Meaning(ExitCode.STOPPED, "let one relay only export to a lake, or give each its own"),
    StopCode.LAKE_COLUMNS: Meaning(
        ExitCode.STOPPED, "load the stream again with the same checkpoint: it goes on with the columns of now"
    ),
    StopCode.LOG_DAMAGED: Meaning(
        ExitCode.STOPPED, "restore that file of the log; docs/csv-log.md says what else helps"
    ),
}
"""The only mapping from a code to its exit code and its usual hint."""


class RelayError(Exception):
    """A failure with what a person needs: what failed, where, why, and what to do.

    `code` is an `ErrorCode` or a `StopCode`; `operation` what was being done ("read config"); `position` where
    ("relay.conf:12", "binlog.000007:4711", a client's name), empty if nowhere in particular; `cause` why;
    `hint` what to do, by default the code's own.
    """

    def __init__(
        self,
        code: ErrorCode | StopCode,
        operation: str,
        cause: str | BaseException = "",
        *,
        position: str = "",
        hint: str = "",
    ) -> None:
        self.code = code
        self.operation = operation
        self.position = position
        self.cause = _text(cause)
        self.hint = hint or MEANINGS[code].hint
        super().__init__(code, operation, self.cause)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that a command ends with on this error."""
        return MEANINGS[self.code].exit_code

    def __str__(self) -> str:
        """One line without the hint: `operation: position: cause`."""
        words = ": ".join(part for part in (self.operation, self.position, self.cause) if part)
        return printable(" ".join(words.split()))

    def line(self) -> str:
        """The line that every surface shows: `relay: <what>: <why> (hint: ...)`."""
        return f"relay: {self} (hint: {self.hint})"


def printable(text: str) -> str:
    """Text from outside made fit for a terminal: control characters and stray bytes are escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _text(cause: str | BaseException) -> str:
    """Words for a cause; an operating system's error without its number."""
    if isinstance(cause, str):
        return cause
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}: {cause.filename}" if cause.filename else cause.strerror
    return str(cause) or type(cause).__name__
