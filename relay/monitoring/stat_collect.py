"""Collect the stat document from the counters of all processes, their status pages, and state.db."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from relay import __version__
from relay._native import Arena
from relay.config.tree import Config
from relay.monitoring.lag import lag_and_loss, unread_bytes
from relay.monitoring.stat import CDC, Journal, Lake, LineLog, Process, Source, Stat
from relay.monitoring.state_view import StateView
from relay.protocol import classic
from relay.runtime.process_status import (
    AssumedRows,
    CDCStatus,
    ExportStatus,
    LogStatus,
    MergeStatus,
    MonitorReport,
    PassedOver,
    SnapshotStatus,
    StatusPages,
    Stop,
)


def _process(arena: Arena, slot: int, name: str) -> Process:
    pid = arena.pid(slot)
    restarts = arena.restarts(slot)
    with suppress(psutil.NoSuchProcess):
        if pid:
            process = psutil.Process(pid)
            with process.oneshot():
                times, rss = process.cpu_times(), process.memory_info().rss
            state = "running" if arena.running(slot) else "starting"
            silent = max(0.0, time.monotonic() - arena.heartbeat(slot))
            return Process(name, pid, state, restarts, round(times.user + times.system, 2), rss, round(silent, 1))
    return Process(name, 0, "down", restarts, 0.0, 0, 0.0)


def _state(arena: Arena, stop: Stop | None) -> str:
    if stop:
        return "stopped"
    if arena.draining:
        return "draining"
    if arena.paused:
        return "paused" if arena.source_state == "paused" else "pausing"
    return "running" if arena.source_state == "streaming" else "starting"


def _behind(flushed: int, position: int, since: float) -> tuple[float, int]:
    """How far a consumer at `position` is behind: for how many seconds, by how many bytes of the journal.

    `since`: Unix seconds since when something waits, 0 if unknown.
    """
    lag_bytes = max(0, flushed - position)
    return (round(max(0.0, time.time() - since), 1) if lag_bytes and since else 0.0), lag_bytes


def _lake(config: Config, flushed: int, status_pages: StatusPages) -> Lake | None:
    if not config.lake.path:
        return None
    export = status_pages.exporter.decode(ExportStatus)
    # An exporter that was caught up when it ended has not reported newer changes.
    lag = _behind(flushed, export.position, export.behind_since or export.at)
    merging = status_pages.merger.decode(MergeStatus) if config.lake.open_tables != "none" else None
    return Lake(config.lake.path, export, *lag, status_pages.snapshotter.decode(SnapshotStatus), merging)


def _log(config: Config, flushed: int, status_pages: StatusPages) -> LineLog | None:
    if not config.logger.schema:
        return None
    status = status_pages.logger.decode(LogStatus)
    return LineLog(config.logger.path, status, *_behind(flushed, status.position, status.behind_since or status.at))


def _cdc(config: Config, processes: Sequence[Process], status_pages: StatusPages) -> CDC | None:
    if not config.cdc.enabled:
        return None
    down = {process.name for process in processes if process.state == "down"}
    statuses = [status_page.decode(CDCStatus) for status_page in status_pages.cdc]
    for index, status in enumerate(statuses):
        if f"cdc-{index}" in down:  # its connections ended with it
            status.streams, status.left_out = [], 0
    return CDC(config.cdc.address, config.cdc.port, statuses)


def collect(
    config: Config,
    arena: Arena,
    data_dir: Path,
    processes: Sequence[str],
    status_pages: StatusPages,
    state: StateView | None = None,
) -> Stat:
    """Return the document as of now.

    `processes` are the names of the heartbeat slots, in order; `state` is what the last document was made with.
    """
    state = state or StateView(arena, data_dir)
    stop_facts = arena.stop()
    stop = Stop(**stop_facts) if stop_facts else None
    source = arena.source()
    server = config.server
    now = time.time()
    report = status_pages.monitor.decode(MonitorReport)
    silent = max(0.0, now - source["heard"]) if source["heard"] else 0.0
    lag_bytes = unread_bytes(report.watch, source["file"], source["position"], now)
    running = [_process(arena, slot, name) for slot, name in enumerate(processes)]
    lag_seconds, loss_seconds = lag_and_loss(lag_bytes, report.watch.expiry, source["last_event"], silent, now)
    return Stat(
        version=__version__,
        protocol=f"{classic.VERSION:08x}",
        at=now,
        state=_state(arena, stop),
        started=psutil.Process(os.getppid()).create_time(),  # the supervisor's
        stop=stop,
        gaps=state.gaps(),
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
            watch=report.watch,
        ),
        journal=Journal(
            first=arena.first,
            decided=arena.broker_scan,
            committed=arena.committed,
            flushed=arena.flushed,
            bytes=sum(_size(segment) for segment in (data_dir / "journal").glob("*.seg")),
            sequence=arena.sequence,
            max_bytes=config.relay.journal_max_bytes,
        ),
        rows=arena.rows(),
        traffic=arena.traffic(),
        events=arena.events(),
        processes=running,
        clients=state.clients(),
        usage=report.usage,
        lake=_lake(config, arena.flushed, status_pages),
        log=_log(config, arena.flushed, status_pages),
        cdc=_cdc(config, running, status_pages),
        addresses={
            "classic": f"{server.bind_address}:{server.server_port}",
            "http": f"http://{server.http_address}:{server.http_port}/",
        },
        passed_over=status_pages.reader.decode(PassedOver),
        assumed=status_pages.assumed.decode(AssumedRows),
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # retention was faster
        return 0
