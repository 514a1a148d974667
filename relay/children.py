"""The children of the supervisor: which processes a relay has, what each is given, and what runs in it.

What one process alone runs on is imported in it, while the others start as well.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from relay import broker, memory, monitor, server, stat, streams
from relay._native import Arena
from relay.board import CDCStatus, ExportStatus, LogStatus, SnapshotStatus
from relay.config import Config
from relay.context import (
    AsideContext,
    BrokerContext,
    Context,
    MonitorContext,
    ReaderContext,
    ServerContext,
    StreamsContext,
)
from relay.family import Family
from relay.log import Log, logger


@dataclass
class Child:
    """A process to keep alive; `run` is called in the forked child and returns its exit code."""

    context: Context
    run: Callable[[], int]
    pid: int = 0
    started: float = 0.0  # monotonic, as are all times here
    quick_deaths: int = 0
    restarts: int = 0
    due: float = 0.0  # when it is to be started, if it does not run
    ended_well: bool = False
    held: bool = False  # not to be restarted: it stopped by name, or ended its work in a drain
    told: float = 0.0  # when it was last told to end for a successor with a new configuration, 0 if it was not


def make(shared: Family, config: Config, data_dir: Path, accept_gap: bool) -> list[Child]:
    """All that a relay with this configuration has, in the order of their slots."""
    arena = shared.arena
    lake = ["exporter", "snapshotter"] if config.lake.path else []
    log = ["logger"] if config.logger.schema else []
    cdc = [f"cdc-{i}" for i in range(len(shared.boards.cdc))]
    names = ["reader", "broker", "monitor", *lake, *log, *cdc, *(f"server-{i}" for i in range(shared.workers))]

    def common(name: str) -> tuple[str, int, Config, Arena, Log]:
        return name, names.index(name), config, arena, logger(name, config.relay.log_format)

    def stat_document(context: Context) -> dict[str, object]:
        return stat.document(context.config, arena, data_dir, names, shared.boards)

    def order(command: str) -> None:
        shared.orders[1].send(command.encode())

    reader_context = ReaderContext(*common("reader"), broker_wake=shared.broker_wake, accept_gap=accept_gap)
    broker_context = BrokerContext(
        *common("broker"),
        wake=shared.broker_wake,
        server_wakes=shared.server_wakes,
        servers=[broker_end for _, broker_end in shared.control],
        allocate=lambda offset, size: memory.allocate(shared.block, offset, size),
    )
    monitor_context = MonitorContext(*common("monitor"), listener=shared.http, processes=names, boards=shared.boards)
    children = [
        Child(reader_context, lambda: _read(reader_context)),
        Child(broker_context, lambda: broker.run(broker_context)),
        Child(monitor_context, lambda: monitor.run(monitor_context)),
    ]
    if lake:
        export_context = AsideContext(
            *common("exporter"), board=shared.boards.exporter, status=ExportStatus(), accept_gap=accept_gap
        )
        children.append(Child(export_context, lambda: _export(export_context)))
        snapshot_context = AsideContext(
            *common("snapshotter"), board=shared.boards.snapshotter, status=SnapshotStatus()
        )
        children.append(Child(snapshot_context, lambda: _snapshot(snapshot_context)))
    if log:
        log_context = AsideContext(
            *common("logger"), board=shared.boards.logger, status=LogStatus(), accept_gap=accept_gap
        )
        children.append(Child(log_context, lambda: _log_lines(log_context)))
    for name, board in zip(cdc, shared.boards.cdc, strict=True):
        streams_context = StreamsContext(*common(name), board=board, status=CDCStatus(), listener=shared.cdc)
        children.append(Child(streams_context, lambda context=streams_context: streams.run(context)))  # type: ignore[misc]
    connections = memoryview(mmap.mmap(-1, 8 * shared.workers)).cast("Q")
    for index in range(shared.workers):
        server_context = ServerContext(
            *common(f"server-{index}"),
            index=index,
            workers=shared.workers,
            listener=shared.listener,
            wake=shared.server_wakes[index],
            inboxes=shared.inboxes,
            broker=shared.control[index][0],
            broker_wake=shared.broker_wake,
            connections=connections,
            supervisor=order,
            reloads=shared.boards.supervisor,
        )
        server_context.stat = partial(stat_document, server_context)
        children.append(Child(server_context, lambda context=server_context: server.run(context)))  # type: ignore[misc]
    return children


def _read(context: ReaderContext) -> int:
    from relay import reader

    return reader.run(context)


def _export(context: AsideContext) -> int:
    from relay import exporter

    return exporter.run(context)


def _snapshot(context: AsideContext) -> int:
    from relay import snapshotter

    return snapshotter.run(context)


def _log_lines(context: AsideContext) -> int:
    from relay import logger as lines

    return lines.run(context)
