"""The stat document: what `relay stat --json`, the admin command stat and /api/stat show."""

from __future__ import annotations

import msgspec

from relay.runtime.process_status import (
    AssumedRows,
    CDCStatus,
    ExportStatus,
    LogStatus,
    MergeStatus,
    PassedOver,
    SnapshotStatus,
    Stop,
    Usage,
    Watch,
)


class Gap(msgspec.Struct):
    """A loss of events, for all clients, that an operator accepted (`--accept-gap`) at Unix seconds `at`."""

    at: float
    before: str  # FILE:POS of the last event before it
    after: str  # FILE:POS of the first event after it
    cause: str


class Source(msgspec.Struct):
    """The source, and how far the journal has read it: to the byte offset `position` in `file`.

    `lag_bytes`: unread bytes of its binlog, as of the last probe. `lag_seconds`: age of the newest event read, 0 if no
    event is known to wait. Both are None if unknown. `loss_seconds`: seconds until the source purges unread events,
    None if never, or if unknown. If the lag is unknown, that time counts from the last contact with the source.
    """

    host: str
    port: int
    state: str  # starting, streaming, reconnecting, no_password, paused; what it was when reading stopped
    file: str
    position: int
    gtid_set: str
    last_event: float  # unix seconds on the source's clock, 0 before the first event
    silent_seconds: float  # since the source last sent anything, heartbeats included
    lag_seconds: float | None
    lag_bytes: int | None
    loss_seconds: float | None
    watch: Watch


class Journal(msgspec.Struct):
    """Positions in the journal, in bytes since its beginning, and its size on disk.

    At the size `max_bytes` the journal is cut even if a client needs it.
    """

    first: int
    decided: int  # everything before it is in the queues of the clients whose filters match
    committed: int
    flushed: int
    bytes: int
    sequence: int  # number of the next change, which is a row or a statement
    max_bytes: int


class Process(msgspec.Struct):
    """A process of the relay. `cpu_seconds`: since it started. `rss_bytes`: shared memory included.

    `silent_seconds`: since its last heartbeat, 0 if it does not run.
    """

    name: str
    pid: int
    state: str  # running, starting, down
    restarts: int
    cpu_seconds: float
    rss_bytes: int
    silent_seconds: float


class Filter(msgspec.Struct, frozen=True, gc=False):
    """A filter in force. `kinds` is a subset of "IUD"."""

    schema: str
    table: str
    kinds: str
    discard: int
    limit: int


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """Rows that matched a client's filters and were not delivered, by reason."""

    limit_oldest: int
    limit_newest: int
    cut: int  # by retention
    flush: int  # by an operator, seek included
    undecodable: int
    skipped: int  # by an operator, or by MaxRepeats: the client received the row and did not confirm it


class Client(msgspec.Struct, gc=False):
    """A client and its rows: matched = confirmed + in_flight + waiting + all dropped.

    `repeats`: replies with the first row in flight that the client received completely before it asked again without
    confirming it; a high number means a row that it cannot process. `status`: connected while it has a connection, else
    polling if it polled in the last two seconds, else away. `served`: rows handed out, repeats included. `max_waiting`:
    largest number of rows that the queue has held. These two survive restarts.
    """

    id: int
    name: str
    connected: bool
    status: str
    address: str  # the client's, "" without a connection
    first_seen: float  # unix seconds of its first registration
    last_seen: float  # unix seconds of the last poll, 0 if none since the start
    filters: tuple[Filter, ...]
    matched: int
    confirmed: int
    in_flight: int
    waiting: int
    waiting_limited: int  # of these, rows that only filters with a limit asked for
    served: int
    max_waiting: int
    repeats: int
    dropped: Dropped
    lagging: bool  # the queue continues in the journal


class Lake(msgspec.Struct):
    """The export to Parquet. Its fatal errors do not affect clients.

    `lag_bytes` of the journal are flushed and not yet in the lake; they have waited for `lag_seconds`. `open_tables` is
    null without them.
    """

    path: str
    export: ExportStatus
    lag_seconds: float
    lag_bytes: int
    snapshot: SnapshotStatus
    open_tables: MergeStatus | None = None


class LineLog(msgspec.Struct):
    """The log of `[Logger]`. `lag_bytes` of the journal are flushed and not yet in it, for `lag_seconds`."""

    path: str
    status: LogStatus
    lag_seconds: float
    lag_bytes: int


class CDC(msgspec.Struct):
    """The CDC port, and the status of each of its processes."""

    address: str
    port: int
    processes: list[CDCStatus]


class Stat(msgspec.Struct):
    """The whole document. `stop`: the fatal error because of which nothing more is read from the source.

    `passed_over`: statements in the binlog that changed only rows that nobody can get. `assumed`: rows that were read
    with an assumed character set that is contradicted.
    """

    version: str
    protocol: str  # version of the classic protocol, eight hexadecimal digits
    at: float  # unix seconds on the relay's clock, like all times of the document except those of the source
    state: str  # starting, running, pausing (to the end of a transaction), paused, draining, stopped
    started: float
    stop: Stop | None
    gaps: list[Gap]
    source: Source
    journal: Journal
    rows: dict[str, int]
    traffic: dict[str, int]  # transactions, bytes, and skipped: unknown events and tables (OnUnknown = skip)
    events: dict[str, int]
    processes: list[Process]
    clients: list[Client]
    usage: Usage
    lake: Lake | None
    log: LineLog | None
    cdc: CDC | None
    addresses: dict[str, str]
    passed_over: PassedOver = msgspec.field(default_factory=PassedOver)
    assumed: AssumedRows = msgspec.field(default_factory=AssumedRows)
