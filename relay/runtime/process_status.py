"""Status pages: what processes report of themselves, in shared memory with one writer, for the stat document.

They are separate from the arena, whose fatal error means that nothing more is read from the source: a fatal error of
the export or the log does not affect the clients.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from relay._native import TextPage

STATUS_BYTES: Final = 8192
"""Bytes for the status of a process."""

MONITOR_BYTES: Final = 8 << 20
"""Bytes for `MonitorReport`. Only written parts take memory."""

CDC_BYTES: Final = 8 << 20
"""Bytes for `CDCStatus`. Only written parts take memory."""

MERGE_BYTES: Final = 4 << 20
"""Bytes for `MergeStatus`. Only written parts take memory."""

_ROOM_BYTES: Final = 4096  # of these, for everything except the tables

PASSED_OVER_BYTES: Final = 64 << 10
"""Bytes for `PassedOver`."""

ASSUMED_BYTES: Final = 1 << 20
"""Bytes for `AssumedRows`."""

OUTCOME_BYTES: Final = 1 << 20
"""Bytes for the outcomes of the last reloads."""

T = TypeVar("T")


class Stop(msgspec.Struct):
    """A fatal error: its code, its cause, and what to do."""

    code: str
    text: str
    hint: str


class Status(msgspec.Struct, kw_only=True):
    """What every status has. `at`: Unix seconds of the report; `stop`: the fatal error, until the process continues."""

    state: str = "starting"
    at: float = 0.0
    stop: Stop | None = None


class ExportStatus(Status, kw_only=True):
    """The exporter: starting, catching up, following, stopped.

    The lake has everything up to `seq`: up to `position` of the journal, up to `file` and `offset` of the source.
    `behind_since`: Unix seconds since when something waits, 0 if nothing does; on the source's clock while the exporter
    catches up. `rows` (an update counts as two) and `files` were written since this process started.
    """

    seq: int = 0
    position: int = 0
    file: str = ""
    offset: int = 0
    behind_since: float = 0.0
    rows: int = 0
    files: int = 0


class SnapshotStatus(Status, kw_only=True):
    """The snapshotter: starting, idle, reading, waiting (for the export), manual, stopped.

    It reads `table`: `rows` so far, of about `total`. `left` more tables follow.
    """

    table: str = ""
    rows: int = 0
    total: int = 0
    left: int = 0


class OpenTableStatus(msgspec.Struct):
    """An open table: `rows`, data `files` and their `bytes`, and the `seq` up to which it has all changes.

    `merged` (Unix seconds) is the end of the last merge that this process made, which took `seconds`. `behind_since`:
    Unix seconds since when changes wait, 0 if none do. `stop`: why the table is no longer merged.
    """

    schema: str
    table: str
    rows: int = 0
    files: int = 0
    bytes: int = 0
    seq: int = 0
    merged: float = 0.0
    seconds: float = 0.0
    behind_since: float = 0.0
    stop: Stop | None = None


class MergeStatus(Status, kw_only=True):
    """The merger: starting, merging, following, stopped. `tables` are all open tables except `left_out` ones.

    Those that are not stopped have all changes of the lake up to `seq`.
    """

    seq: int = -1
    tables: list[OpenTableStatus] = []
    left_out: int = 0

    def show(self, tables: list[OpenTableStatus], capacity: int) -> None:
        """Take as many of the tables as a status page of that capacity holds."""
        kept, size = 0, _ROOM_BYTES
        for table in tables:
            size += len(msgspec.msgpack.encode(table))
            if size > capacity:
                break
            kept += 1
        self.tables, self.left_out = tables[:kept], len(tables) - kept


class LogStatus(Status, kw_only=True):
    """The logger of `[Logger]`: starting, catching up, following, stopped.

    The log has every change up to `position` of the journal, up to `file` and `offset` of the source. `log_file` is
    being written. `lines` and `bytes` were written since this process started. `behind_since` as in `ExportStatus`.
    """

    position: int = 0
    file: str = ""
    offset: int = 0
    log_file: str = ""
    lines: int = 0
    bytes: int = 0
    behind_since: float = 0.0


class CDCStream(msgspec.Struct):
    """A connection to the CDC port, and the table that it has asked for, if any.

    `address` and `port` are the client's. `version` is the last version of the table that was sent, 0 if none was: the
    table may not exist yet. `gtid` is the triplet of the last transaction. Everything up to `position` of the journal
    was sent; `lag_bytes` lie between it and what may be sent, 0 if they have nothing of the table. `rows` and `bytes`
    were sent since `since`, Unix seconds.
    """

    user: str
    uuid: str  # as the client gave it
    address: str
    port: int
    state: str  # wait_auth, unregistered, registered, streaming, closed
    form: str  # json, avro
    schema: str
    table: str
    version: int
    gtid: str
    position: int
    lag_bytes: int
    rows: int
    bytes: int
    since: float


class CDCStatus(Status, kw_only=True):
    """A process that serves the CDC port: starting, catching up (with what the journal has), serving, stopped.

    `refused`: logins that it rejected. `refused`, `rows` and `bytes` count since it started. `trouble`: why the file of
    users cannot be read, "" if it can. `left_out`: connections that do not fit into `streams`.
    """

    position: int = 0
    refused: int = 0
    rows: int = 0
    bytes: int = 0
    trouble: str = ""
    streams: list[CDCStream] = []
    left_out: int = 0


class Counts(msgspec.Struct):
    """Rows by kind. An update counts as one."""

    insert: int = 0
    update: int = 0
    delete: int = 0

    @property
    def rows(self) -> int:
        """Rows of all kinds."""
        return self.insert + self.update + self.delete

    def add(self, counts: Counts, sign: int = 1) -> None:
        """Add other counts; with `sign` -1, subtract them."""
        self.insert += sign * counts.insert
        self.update += sign * counts.update
        self.delete += sign * counts.delete


class TableUsage(msgspec.Struct):
    """Rows of a table, with or without a client: since `Usage.since`, in the last 1440 and in the last 60 minutes.

    Minutes are those of the source's clock and include the current one. `last`: time of the newest row, Unix seconds.
    `unproven`: rows since `Usage.since` whose column names are unproven.
    """

    schema: str
    table: str
    total: Counts
    day: Counts
    hour: Counts
    last: float
    unproven: int = 0


class Usage(msgspec.Struct):
    """Table usage up to `position` of the journal, counted since `since` (Unix seconds).

    `left_out`: tables that do not fit, those with the fewest rows in the last day. `missed`: changes that retention
    deleted before they were counted. `trouble`: why counting has stopped, "" while it continues.
    """

    since: float = 0.0
    position: int = 0
    tables: list[TableUsage] = []
    left_out: int = 0
    missed: int = 0
    trouble: str = ""


class Watch(msgspec.Struct):
    """The source's last reply to a query of its status, at Unix seconds `at`, 0 before the first reply.

    `lag_bytes` of its binlog were not yet in the journal, None if that is unknown for the reason in `trouble`.
    `expiry`: the age in seconds at which it purges binlogs, as it reported last, 0 for never.
    """

    at: float = 0.0
    file: str = ""
    position: int = 0
    lag_bytes: int | None = None
    expiry: int | None = None
    trouble: str = ""


class MonitorReport(msgspec.Struct):
    """The facts that only the monitor collects."""

    usage: Usage = msgspec.field(default_factory=Usage)
    watch: Watch = msgspec.field(default_factory=Watch)


class StatementCount(msgspec.Struct):
    """The statements about a table that the reader passed over, and the binlog position of the newest (FILE:POS)."""

    schema: str
    table: str
    statements: int = 0
    position: str = ""


class PassedOver(msgspec.Struct):
    """Statements that changed only rows that nobody can get, by table, since the relay started; most first.

    `others`: the statements about tables that do not fit.
    """

    tables: list[StatementCount] = []
    others: int = 0


class AssumedTable(msgspec.Struct):
    """The rows of a table that the reader read with a character set that it had assumed, and that is contradicted.

    `first` and `last` are the binlog positions of the first and the last of these rows (FILE:POS). `assumed` are the
    schemas whose character set was assumed, `charset` is that of one of them, and `cause` says what contradicts it.
    """

    schema: str
    table: str
    rows: int = 0
    first: str = ""
    last: str = ""
    charset: str = ""
    cause: str = ""
    assumed: list[str] = []


class AssumedRows(msgspec.Struct):
    """Rows with an assumed character set that is contradicted, by table; most first.

    `others`: the rows of tables that do not fit.
    """

    tables: list[AssumedTable] = []
    others: int = 0


class StatusPage:
    """A status page, which shows one text of at most `capacity` bytes.

    It is created before the fork. One process writes it, any process may read it, and either may be killed at any time.
    """

    def __init__(self, capacity: int = STATUS_BYTES) -> None:
        self._page = TextPage(mmap.mmap(-1, TextPage.size(capacity)), capacity)
        self.capacity = capacity

    def write(self, content: bytes) -> None:
        """Show `content`. Raises `ValueError` if it does not fit."""
        self._page.write(content)

    def read(self) -> bytes:
        """Return the current text; b"" if there is none yet."""
        return self._page.read()

    def decode(self, form: type[T]) -> T:
        """Return the current text, which is msgpack, as `form`; `form()` if there is none yet."""
        content = self.read()
        return msgspec.msgpack.decode(content, type=form) if content else form()


@dataclass
class StatusPages:
    """All status pages, most of them named after the process that writes it."""

    reader: StatusPage = field(default_factory=lambda: StatusPage(PASSED_OVER_BYTES))  # a `PassedOver`
    assumed: StatusPage = field(default_factory=lambda: StatusPage(ASSUMED_BYTES))  # of the reader: an `AssumedRows`
    exporter: StatusPage = field(default_factory=StatusPage)
    snapshotter: StatusPage = field(default_factory=StatusPage)
    merger: StatusPage = field(default_factory=lambda: StatusPage(MERGE_BYTES))
    logger: StatusPage = field(default_factory=StatusPage)
    monitor: StatusPage = field(default_factory=lambda: StatusPage(MONITOR_BYTES))  # a `MonitorReport`
    supervisor: StatusPage = field(default_factory=lambda: StatusPage(OUTCOME_BYTES))  # outcomes of reloads
    cdc: list[StatusPage] = field(default_factory=list)  # one for each process of the CDC port


def write_report(status_page: StatusPage, report: MonitorReport) -> None:
    """Show the monitor's report, without the tables that do not fit."""
    content = msgspec.msgpack.encode(report)
    usage = report.usage
    if len(content) > status_page.capacity:
        by_rows = sorted(usage.tables, key=lambda table: table.day.rows, reverse=True)
        usage = msgspec.structs.replace(usage, tables=by_rows)
    while len(content) > status_page.capacity:
        kept = len(usage.tables) * status_page.capacity // len(content) * 9 // 10
        left_out = usage.left_out + len(usage.tables) - kept
        usage = msgspec.structs.replace(usage, tables=usage.tables[:kept], left_out=left_out)
        content = msgspec.msgpack.encode(MonitorReport(usage, report.watch))
    status_page.write(content)
