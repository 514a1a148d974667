"""The stat document, collected from everybody's counters: what `relay stat --json`, admin stat and /api/stat show."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from sys import intern
from typing import Any, Final

import msgspec
import psutil

from relay import __version__
from relay._native import Arena
from relay.board import (
    Boards,
    CDCStatus,
    ExportStatus,
    LogStatus,
    SnapshotStatus,
    Stop,
    Usage,
    Watch,
    cdc_status,
    export_status,
    log_status,
    seen,
    snapshot_status,
)
from relay.config import Config
from relay.lag import lags, unread
from relay.queues import state
from relay.statefile import for_reading
from relay.wire import classic

POLLING_SECONDS: Final = 2.0
"""How long a client without a connection counts as polling after its last poll."""


class Gap(msgspec.Struct):
    """A loss of events that was accepted (`--accept-gap`), at Unix seconds `at`; it concerns every client there was."""

    at: float
    before: str  # FILE:POS of the last event known
    after: str  # FILE:POS of the first one after
    cause: str


class Source(msgspec.Struct):
    """The server read from. `position` is a byte offset in `file`; lags are of what is committed in the journal.

    `lag_bytes` of what there was at the last watch; `lag_seconds`: age of the newest event, if more are known to wait.
    Both are None while nobody knows. `loss_seconds`: how long the source will still have what was not read yet, None if
    for ever or not known; while the source does not answer, what it may have written since it was heard last.
    """

    host: str
    port: int
    state: str  # starting, streaming, reconnecting, paused; what it was when reading stopped
    file: str
    position: int
    gtid_set: str
    last_event: float  # unix seconds on the source's clock, 0 before the first event
    silent_seconds: float  # since the source was last heard, heartbeats included
    lag_seconds: float | None
    lag_bytes: int | None
    loss_seconds: float | None
    watch: Watch


class Journal(msgspec.Struct):
    """Positions in the journal, in bytes since its beginning, and what it holds on disk.

    At `max_bytes` history is cut even if a client needs it.
    """

    first: int
    decided: int  # everything before it stands in the queues of those who asked for it
    committed: int
    flushed: int
    bytes: int
    sequence: int  # number of the next change: of a row, or of a statement
    max_bytes: int


class Process(msgspec.Struct):
    """One process of the relay; `cpu_seconds` of its life so far, `rss_bytes` with shared memory.

    `silent_seconds` since its last heartbeat, 0 if it does not run.
    """

    name: str
    pid: int
    state: str  # running, starting, down
    restarts: int
    cpu_seconds: float
    rss_bytes: int
    silent_seconds: float


class Filter(msgspec.Struct):
    """A filter in force; kinds is a subset of "IUD"."""

    schema: str
    table: str
    kinds: str
    discard: int
    limit: int


class Dropped(msgspec.Struct):
    """Rows that a client asked for and did not get, by reason."""

    limit_oldest: int
    limit_newest: int
    cut: int  # by retention
    flush: int  # by an operator, seek included
    undecodable: int
    skipped: int  # by an operator, or MaxRepeats: the client took the row and did not confirm it


class Client(msgspec.Struct):
    """A client and its rows: matched = confirmed + in_flight + waiting + all dropped.

    `repeats` counts the replies with the first row in flight that the client took whole before it asked again without
    confirming it: many are a row that it cannot take. `status`: connected while it has a connection, polling where it
    has none but asked for rows in the last two seconds, else away. `served` counts rows each time that they were handed
    out, `max_waiting` is the longest the queue has been; both last as long as the client is known, over restarts.
    """

    id: int
    name: str
    connected: bool
    status: str
    address: str  # of the connection's other end, "" if there is none
    first_seen: float  # unix seconds of its first registration
    last_seen: float  # unix seconds of the last poll, 0 if none since the start
    filters: list[Filter]
    matched: int
    confirmed: int
    in_flight: int
    waiting: int
    served: int
    max_waiting: int
    repeats: int
    dropped: Dropped
    lagging: bool  # the queue goes on in the journal


class Lake(msgspec.Struct):
    """The export to Parquet. Its stops are its own: clients are served as before.

    `lag_bytes` of the journal are flushed and not yet in the lake, and so for `lag_seconds`.
    """

    path: str
    export: ExportStatus
    lag_seconds: float
    lag_bytes: int
    snapshot: SnapshotStatus


class LineLog(msgspec.Struct):
    """The log of `[Logger]`. `lag_bytes` of the journal are flushed and not yet in it, and so for `lag_seconds`."""

    path: str
    status: LogStatus
    lag_seconds: float
    lag_bytes: int


class CDC(msgspec.Struct):
    """The port for clients of MaxScale, and what each of its processes says."""

    address: str
    port: int
    processes: list[CDCStatus]


class Stat(msgspec.Struct):
    """The whole document; `stop` is why nothing more is read from the source."""

    version: str
    protocol: str  # version of the classic protocol, eight hexadecimal digits
    at: float  # unix seconds on the relay's clock: all times of the document but the source's are on that one
    state: str  # starting, running, pausing (to the end of a transaction), paused, draining, stopped
    started: float
    stop: Stop | None
    gaps: list[Gap]
    source: Source
    journal: Journal
    rows: dict[str, int]
    traffic: dict[str, int]  # transactions, bytes, and what was skipped by name (OnUnknown = skip)
    events: dict[str, int]
    processes: list[Process]
    clients: list[Client]
    usage: Usage
    lake: Lake | None
    log: LineLog | None
    cdc: CDC | None
    addresses: dict[str, str]


@cache
def _kinds(mask: int) -> str:
    return "".join(letter for bit, letter in ((1, "I"), (2, "U"), (4, "D")) if mask & bit)


def _stored(data_dir: Path, query: str, *values: bytes) -> Iterator[tuple[Any, ...]]:
    """Rows of the state file; none while its owner's first start has not made the file or its tables. While it is
    damaged, which stops the reader by name, those before the damage."""
    try:
        with closing(for_reading(data_dir / "state.db")) as database:
            yield from database.execute(query, values)
    except sqlite3.DatabaseError:
        return


def _filters(data_dir: Path) -> dict[int, list[Filter]]:
    found: dict[int, list[Filter]] = {}
    for client, schema, table, kinds, discard, limit in _stored(
        data_dir,
        "SELECT client, schema_name, table_name, kinds, discard, queue_limit FROM filters WHERE until = ? ORDER BY id",
        state.OPEN_END.to_bytes(8, "big"),
    ):
        # Many clients ask for the same tables, and each name is kept once.
        found.setdefault(client, []).append(Filter(intern(schema), intern(table), _kinds(kinds), discard, limit))
    return found


def _first_seen(data_dir: Path) -> dict[int, float]:
    return dict(_stored(data_dir, "SELECT id, created FROM clients"))


def _gaps(data_dir: Path) -> list[Gap]:
    columns = "at, before_file || ':' || before_position, after_file || ':' || after_position, cause"
    return [Gap(*row) for row in _stored(data_dir, f"SELECT {columns} FROM gaps ORDER BY at")]


def _process(arena: Arena, slot: int, name: str) -> Process:
    pid = arena.pid(slot)
    restarts = arena.restarts(slot)
    try:
        process = psutil.Process(pid) if pid else None
        if process is None:
            return Process(name, 0, "down", restarts, 0.0, 0, 0.0)
        with process.oneshot():
            times, rss = process.cpu_times(), process.memory_info().rss
        up = "running" if arena.running(slot) else "starting"
        silent = max(0.0, time.monotonic() - arena.heartbeat(slot))
        return Process(name, pid, up, restarts, round(times.user + times.system, 2), rss, round(silent, 1))
    except psutil.NoSuchProcess:
        return Process(name, 0, "down", restarts, 0.0, 0, 0.0)


def _status(connected: bool, away: float) -> str:
    """`away`: seconds since the last poll."""
    if connected:
        return "connected"
    return "polling" if away < POLLING_SECONDS else "away"


def _clients(arena: Arena, data_dir: Path) -> list[Client]:
    filters, first_seen = _filters(data_dir), _first_seen(data_dir)
    now = time.time()
    clients = []
    for slot in arena.client_slots():
        facts = arena.client_stats(slot)
        clients.append(
            Client(
                id=facts["client_id"],
                name=facts["name"],
                connected=facts["connected"],
                status=_status(facts["connected"], now - facts["last_seen"]),
                address=facts["address"],
                first_seen=first_seen.get(facts["client_id"], now),  # it may just have come
                last_seen=facts["last_seen"],
                filters=filters.get(facts["client_id"], []),
                matched=facts["matched"],
                confirmed=facts["confirmed"],
                repeats=facts["repeats"],
                in_flight=facts["in_flight"],
                waiting=facts["waiting"],
                served=facts["served"],
                max_waiting=facts["max_waiting"],
                dropped=Dropped(**facts["dropped"]),
                lagging=facts["lagging"],
            )
        )
    return sorted(clients, key=lambda client: client.id)


def _state(arena: Arena, stop: Stop | None) -> str:
    if stop:
        return "stopped"
    if arena.draining:
        return "draining"
    if arena.paused:
        return "paused" if arena.source_state == "paused" else "pausing"
    return "running" if arena.source_state == "streaming" else "starting"


def _behind(flushed: int, position: int, since: float) -> tuple[float, int]:
    """Seconds and bytes of the journal that whoever is at `position` is behind."""
    lag_bytes = max(0, flushed - position)
    return (round(max(0.0, time.time() - since), 1) if lag_bytes and since else 0.0), lag_bytes


def _lake(config: Config, flushed: int, boards: Boards) -> Lake | None:
    if not config.lake.path:
        return None
    export = export_status(boards.exporter)
    # An exporter that was level and is gone has said nothing of what came since.
    lag = _behind(flushed, export.position, export.behind_since or export.at)
    return Lake(config.lake.path, export, *lag, snapshot_status(boards.snapshotter))


def _log(config: Config, flushed: int, boards: Boards) -> LineLog | None:
    if not config.logger.schema:
        return None
    status = log_status(boards.logger)
    return LineLog(config.logger.path, status, *_behind(flushed, status.position, status.behind_since or status.at))


def _cdc(config: Config, processes: Sequence[Process], boards: Boards) -> CDC | None:
    if not config.cdc.enabled:
        return None
    down = {process.name for process in processes if process.state == "down"}
    statuses = [cdc_status(board) for board in boards.cdc]
    for index, status in enumerate(statuses):
        if f"cdc-{index}" in down:  # connections do not outlive it
            status.streams, status.left_out = [], 0
    return CDC(config.cdc.address, config.cdc.port, statuses)


def collect(config: Config, arena: Arena, data_dir: Path, processes: Sequence[str], boards: Boards) -> Stat:
    """The document as of now. `processes` names the heartbeat slots in their order."""
    stop_facts = arena.stop()
    stop = Stop(**stop_facts) if stop_facts else None
    source = arena.source()
    segments = list((data_dir / "journal").glob("*.seg"))
    server = config.server
    now = time.time()
    known = seen(boards.monitor)
    silent = max(0.0, now - source["heard"]) if source["heard"] else 0.0
    lag_bytes = unread(known.watch, source["file"], source["position"], now)
    running = [_process(arena, slot, name) for slot, name in enumerate(processes)]
    lag_seconds, loss_seconds = lags(lag_bytes, known.watch.expiry, source["last_event"], silent, now)
    return Stat(
        version=__version__,
        protocol=f"{classic.VERSION:08x}",
        at=now,
        state=_state(arena, stop),
        started=psutil.Process(os.getppid()).create_time(),  # the supervisor's
        stop=stop,
        gaps=_gaps(data_dir),
        source=Source(
            host=source["host"] or server.ip_addr[0],
            port=server.port,
            state=arena.source_state,
            file=source["file"],
            position=source["position"],
            gtid_set=source["gtid_set"],
            last_event=source["last_event"],
            silent_seconds=silent,
            lag_seconds=lag_seconds,
            lag_bytes=lag_bytes,
            loss_seconds=loss_seconds,
            watch=known.watch,
        ),
        journal=Journal(
            first=arena.first,
            decided=arena.broker_scan,
            committed=arena.committed,
            flushed=arena.flushed,
            bytes=sum(_size(segment) for segment in segments),
            sequence=arena.sequence,
            max_bytes=config.relay.journal_max_bytes,
        ),
        rows=arena.rows(),
        traffic=arena.traffic(),
        events=arena.events(),
        processes=running,
        clients=_clients(arena, data_dir),
        usage=known.usage,
        lake=_lake(config, arena.flushed, boards),
        log=_log(config, arena.flushed, boards),
        cdc=_cdc(config, running, boards),
        addresses={
            "classic": f"{server.bind_address}:{server.server_port}",
            "http": f"http://{server.http_address}:{server.http_port}/",
        },
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # retention was faster
        return 0


def document(
    config: Config, arena: Arena, data_dir: Path, processes: Sequence[str], boards: Boards
) -> dict[str, object]:
    """`collect` as JSON-able values."""
    built: dict[str, object] = msgspec.to_builtins(collect(config, arena, data_dir, processes, boards))
    return built
