"""The error type of the relay, its codes, and their exit codes and hints.

Every failure that a user may see is a `RelayError`. Its code selects the exit code and, unless the error has its own
hint, the hint from the table `MEANINGS`.
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
    """Codes of fatal errors: the relay stops instead of retrying forever or skipping silently."""

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
    CHARSET_ASSUMED = "charset_assumed"
    SOURCE_DENIED = "source_denied"
    STATEMENT_FORMAT = "statement_format"
    JOURNAL_LOST = "journal_lost"
    JOURNAL_CORRUPT = "journal_corrupt"
    STATE_DAMAGED = "state_damaged"
    NEWER_FORMAT = "newer_format"
    DISK_FULL = "disk_full"
    SYNC_FAILED = "sync_failed"
    UNSUPPORTED_COLUMN = "unsupported_column"
    LAKE_DAMAGED = "lake_damaged"
    LAKE_CONFLICT = "lake_conflict"
    LAKE_COLUMNS = "lake_columns"
    LOG_DAMAGED = "log_damaged"


class ErrorCode(StrEnum):
    """Codes of all other failures."""

    UNEXPECTED = "unexpected"
    USAGE = "usage"
    CONFIG = "config"
    SOURCE_UNREACHABLE = "source_unreachable"
    PASSWORD_COMMAND = "password_command"
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
    """The usual hint and the exit code of a code."""

    hint: str
    exit_code: ExitCode = ExitCode.STOPPED


_ACCEPT_GAP = "`relay start --accept-gap` continues after the loss and records the gap for every client"
_CONTINUE = "afterwards run `relay reload` if you changed the configuration, and `relay resume`"
_MOST_SHOWN = 255  # bytes of a hint that processes show of each other
_SAYS_HOW_TO_CONTINUE = ("`relay start", "`relay resume`", "stop the relay", "run that release")

MEANINGS: Final[Mapping[str, Meaning]] = {
    ErrorCode.UNEXPECTED: Meaning("this is a defect of the relay: please report it with the log", ExitCode.UNEXPECTED),
    ErrorCode.USAGE: Meaning("see `relay --help`", ExitCode.USAGE),
    ErrorCode.CONFIG: Meaning("see docs/config.md", ExitCode.CONFIG),
    ErrorCode.SOURCE_UNREACHABLE: Meaning(
        "check that the server runs, and that its URL, or IPAddr, Port and SourceTLS in [Server], are right",
        ExitCode.SOURCE,
    ),
    ErrorCode.PASSWORD_COMMAND: Meaning(
        "run PasswordCommand as the relay's user and with its environment: it has to print the password within 20 s",
        ExitCode.SOURCE,
    ),
    ErrorCode.NOT_RUNNING: Meaning(
        "start the relay with `relay start`, or name its configuration with -c", ExitCode.NOT_RUNNING
    ),
    ErrorCode.REMAINDER: Meaning(
        "the relay keeps the remaining rows and serves them after the next start", ExitCode.REMAINDER
    ),
    ErrorCode.ALREADY_RUNNING: Meaning(
        "stop the other relay with `relay stop`, or use another DataDir", ExitCode.ALREADY_RUNNING
    ),
    ErrorCode.ENVIRONMENT: Meaning("run `make setup`, or install the package again", ExitCode.ENVIRONMENT),
    ErrorCode.ADMIN_REFUSED: Meaning(
        "local: be the relay's user or root; over TCP: check AdminSecret and AdminFrom in [Server]", ExitCode.REFUSED
    ),
    ErrorCode.LOGIN_REFUSED: Meaning(
        "check AuthSecret, or Secret in [Client NAME], in the relay's configuration", ExitCode.REFUSED
    ),
    ErrorCode.PROTOCOL: Meaning("check that a relay listens at this address and port", ExitCode.UNEXPECTED),
    ErrorCode.CHECK_FAILED: Meaning("apply the remedies above and check again", ExitCode.CHECK_FAILED),
    ErrorCode.DIFFERENCE: Meaning(
        "the journal may be wrong: please report the differences above with the definition of the table",
        ExitCode.UNEXPECTED,
    ),
    ErrorCode.UNVERIFIED: Meaning(
        "see above what was compared; retry, or start the range after that position", ExitCode.UNVERIFIED
    ),
    ErrorCode.LAKE_STORAGE: Meaning(
        "check the lake's path, its free space, and the permissions or credentials for it", ExitCode.ENVIRONMENT
    ),
    ErrorCode.LOG_STORAGE: Meaning(
        "check Path in [Logger], its free space and its permissions; the relay retries by itself", ExitCode.ENVIRONMENT
    ),
    ErrorCode.SPARK: Meaning(
        "run the job again; `--conf spark.log.level=INFO` shows what Spark did", ExitCode.ENVIRONMENT
    ),
    StopCode.BINLOG_PURGED: Meaning("the source purged the next events; " + _ACCEPT_GAP),
    StopCode.GTID_GAP: Meaning("the source lacks the next transactions; " + _ACCEPT_GAP),
    StopCode.BINLOG_RESET: Meaning(
        "the source started a new history (RESET MASTER, or a restored copy): unread events of the old one are lost; "
        "`relay start --accept-gap` continues at the beginning of the new one and records the gap for every client"
    ),
    StopCode.WRONG_SOURCE: Meaning(
        "this is not the server that DataDir belongs to: correct IPAddr, or use another DataDir; " + _ACCEPT_GAP
    ),
    StopCode.SERVER_ID_CLASH: Meaning("another replica uses this server id: set another ServerId in [Source]"),
    StopCode.EVENT_TOO_LARGE: Meaning(
        "servers do not send events larger than 1 GiB; `relay start --accept-gap` skips the rest of that "
        "binlog file and records the gap for every client"
    ),
    StopCode.UNKNOWN_EVENT: Meaning("`OnUnknown = skip` in [Relay] skips and counts such events"),
    StopCode.PARTIAL_IMAGE: Meaning(
        "set binlog_row_image = FULL on the source, or `OnPartialImage = send` in [Relay]; MariaDB 11.8.9 "
        "omits generated columns with every setting"
    ),
    StopCode.CHECKSUM_MISMATCH: Meaning(
        "an event was damaged on the network or on the source's disk: check the binlog file on the source "
        "with mysqlbinlog"
    ),
    StopCode.SCHEMA_UNPROVEN: Meaning(
        "set `OnUnproven = positional` in [Relay] for these rows; binlog_row_metadata = FULL on the source proves the "
        "names of later ones"
    ),
    StopCode.CHARSET_ASSUMED: Meaning(
        "start at a later StartPosition, or set `OnAssumedCharset = send` in [Relay]: it sends such rows, and counts "
        "them if the assumption was wrong"
    ),
    StopCode.SOURCE_DENIED: Meaning(
        "check login and password in the URL, or Login, Password and LoginCert in [Server]; `relay check` prints the "
        "needed grants",
        ExitCode.SOURCE,
    ),
    StopCode.STATEMENT_FORMAT: Meaning(
        "set binlog_format = ROW on the source for every session; `OnUnknown = skip` in [Relay] skips and "
        "counts such statements: nobody gets the rows that they changed"
    ),
    StopCode.JOURNAL_LOST: Meaning(
        "the journal at the positions of the clients is lost: restore DataDir; " + _ACCEPT_GAP
    ),
    StopCode.SYNC_FAILED: Meaning(
        "the disk did not store written data: check the kernel's log, repair or replace the disk, then `relay resume`"
    ),
    StopCode.JOURNAL_CORRUPT: Meaning(
        "stop the relay and run `relay repair`; else restore DataDir, or move it away and start again"
    ),
    StopCode.STATE_DAMAGED: Meaning(
        "restore all of DataDir from a copy; without a copy, stop the relay, move state.db away, and run "
        "`relay start --accept-gap`: clients and their filters start again, and their waiting rows are lost"
    ),
    StopCode.NEWER_FORMAT: Meaning(
        "a newer release wrote this DataDir: run that release, or restore the DataDir from before it"
    ),
    StopCode.DISK_FULL: Meaning("free space for DataDir, make it writable again, or lower JournalMaxBytes in [Relay]"),
    StopCode.UNSUPPORTED_COLUMN: Meaning(
        "exclude the column with ExcludeColumns in [Source], or set `OnUnknown = skip` in [Relay]"
    ),
    StopCode.LAKE_DAMAGED: Meaning("restore that file from a backup; docs/lake.md describes what depends on it"),
    StopCode.LAKE_CONFLICT: Meaning("let only one relay export to a lake, or give each relay its own lake"),
    StopCode.LAKE_COLUMNS: Meaning(
        "load the stream again with the same checkpoint: it continues with the current columns"
    ),
    StopCode.LOG_DAMAGED: Meaning("restore that file of the log; docs/csv-log.md describes other remedies"),
}
"""The hint and the exit code of each code; no other table has them."""


class RelayError(Exception):
    """A failure: what failed, where, why, and what to do.

    `code` is an `ErrorCode` or a `StopCode`. `operation` is what failed ("read config"), `position` is where
    ("relay.conf:12", "binlog.000007:4711", a client's name; may be empty), `cause` is why, and `hint` is what to do, by
    default the hint of the code.
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
    def remedy(self) -> str:
        """The hint, and how a relay continues that this error stopped."""
        if not isinstance(self.code, StopCode) or any(words in self.hint for words in _SAYS_HOW_TO_CONTINUE):
            return self.hint
        whole = f"{self.hint}; {_CONTINUE}"
        return whole if len(whole.encode()) <= _MOST_SHOWN else self.hint

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command that fails with this error."""
        return MEANINGS[self.code].exit_code

    def __str__(self) -> str:
        """One line without the hint: `operation: position: cause`."""
        words = ": ".join(part for part in (self.operation, self.position, self.cause) if part)
        return printable(" ".join(words.split()))

    def line(self) -> str:
        """Return the line that commands, page and log show: `relay: <what>: <why> (hint: ...)`."""
        return f"relay: {self} (hint: {self.hint})"


def printable(text: str) -> str:
    """Escape control characters and stray bytes in text for a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _text(cause: str | BaseException) -> str:
    """Return the text of a cause. Omit the number of an operating system error."""
    if isinstance(cause, str):
        return cause
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}: {cause.filename}" if cause.filename else cause.strerror
    return str(cause) or type(cause).__name__
