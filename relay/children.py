"""The table of the supervisor's children: the processes of a relay, the context of each, and the function that it runs.

Dependencies of a single process are imported in that process, in parallel with the others' start. What several use is
imported before the fork: once, into memory that they share.
"""

from __future__ import annotations

import mmap
from importlib import import_module
from typing import Final

from relay import broker, monitor, server
from relay._native import Arena
from relay.base.log import Log, logger
from relay.config.tree import Config
from relay.processes import cdc as cdc_process
from relay.processes import state_writer
from relay.runtime import shm
from relay.runtime.child_group import Child
from relay.runtime.context import (
    BrokerContext,
    MonitorContext,
    ReaderContext,
    ServerContext,
    SideContext,
    StateWriterContext,
    StreamsContext,
)
from relay.runtime.process_status import CDCStatus, ExportStatus, LogStatus, MergeStatus, SnapshotStatus
from relay.runtime.shared_state import SharedState
from relay.source import rsa

_SHARED: Final = "relay.source.facts", "relay.journal.frames", "encodings.idna"
"""Modules of reader, monitor and snapshotter, with all that they import. encodings.idna is for host names."""


def make(shared: SharedState, config: Config, accept_gap: bool) -> list[Child]:
    """All children of a relay with this configuration, in the order of their slots."""
    rsa.postpone()
    for module in _SHARED:
        import_module(module)
    arena = shared.arena
    lake = ["exporter", "snapshotter"] if config.lake.path else []
    if lake and config.lake.open_tables == "delta":
        lake.append("merger")
    log = ["logger"] if config.logger.schema else []
    cdc = [f"cdc-{i}" for i in range(len(shared.status_pages.cdc))]
    names = [
        "reader",
        "broker",
        "state-writer",
        "monitor",
        *lake,
        *log,
        *cdc,
        *(f"server-{i}" for i in range(shared.workers)),
    ]

    def common(name: str) -> tuple[str, int, Config, Arena, Log]:
        return name, names.index(name), config, arena, logger(name, config.relay.log_format)

    def order(command: str) -> None:
        shared.commands[1].send(command.encode())

    reader_context = ReaderContext(
        *common("reader"),
        broker_wake=shared.broker_wake,
        broker_wake_ahead=shared.broker_wake_ahead,
        accept_gap=accept_gap,
        status_page=shared.status_pages.reader,
        assumed_page=shared.status_pages.assumed,
    )
    broker_context = BrokerContext(
        *common("broker"),
        wake=shared.broker_wake,
        wake_ahead=shared.broker_wake_ahead,
        servers_wake_ahead=shared.servers_wake_ahead,
        server_wakes=shared.server_wakes,
        servers=[broker_end for _, broker_end in shared.control],
        state_writer=shared.stored[0],
        allocate=lambda offset, size: shm.allocate(shared.block, offset, size),
        unstored=shm.beside(shared.block),
    )
    state_context = StateWriterContext(*common("state-writer"), broker=shared.stored[1])
    monitor_context = MonitorContext(
        *common("monitor"),
        listener=shared.http,
        processes=names,
        status_pages=shared.status_pages,
        inquiries=[monitor_end for _, monitor_end in shared.inquiries],
    )
    children = [
        Child(reader_context, lambda: _read(reader_context)),
        Child(broker_context, lambda: broker.run(broker_context)),
        Child(state_context, lambda: state_writer.run(state_context)),
        Child(monitor_context, lambda: monitor.run(monitor_context)),
    ]
    if lake:
        export_context = SideContext(
            *common("exporter"), status_page=shared.status_pages.exporter, status=ExportStatus(), accept_gap=accept_gap
        )
        children.append(Child(export_context, lambda: _export(export_context)))
        snapshot_context = SideContext(
            *common("snapshotter"), status_page=shared.status_pages.snapshotter, status=SnapshotStatus()
        )
        children.append(Child(snapshot_context, lambda: _snapshot(snapshot_context)))
    if "merger" in lake:
        merge_context = SideContext(*common("merger"), status_page=shared.status_pages.merger, status=MergeStatus())
        children.append(Child(merge_context, lambda: _merge(merge_context)))
    if log:
        log_context = SideContext(
            *common("logger"), status_page=shared.status_pages.logger, status=LogStatus(), accept_gap=accept_gap
        )
        children.append(Child(log_context, lambda: _log_lines(log_context)))
    for name, status_page in zip(cdc, shared.status_pages.cdc, strict=True):
        streams_context = StreamsContext(
            *common(name), status_page=status_page, status=CDCStatus(), listener=shared.cdc
        )
        children.append(Child(streams_context, lambda context=streams_context: cdc_process.run(context)))  # type: ignore[misc]
    connections = memoryview(mmap.mmap(-1, 8 * shared.workers)).cast("Q")
    for index in range(shared.workers):
        server_context = ServerContext(
            *common(f"server-{index}"),
            index=index,
            workers=shared.workers,
            listener=shared.listener,
            wake=shared.server_wakes[index],
            wake_ahead=shared.servers_wake_ahead,
            inboxes=shared.inboxes,
            broker=shared.control[index][0],
            broker_wake=shared.broker_wake,
            connections=connections,
            supervisor=order,
            reloads=shared.status_pages.supervisor,
            monitor=shared.inquiries[index][0],
            admin=shared.admin,
        )
        children.append(Child(server_context, lambda context=server_context: server.run(context)))  # type: ignore[misc]
    return children


def _read(context: ReaderContext) -> int:
    from relay import reader

    return reader.run(context)


def _export(context: SideContext) -> int:
    from relay.processes import exporter

    return exporter.run(context)


def _snapshot(context: SideContext) -> int:
    from relay.processes import snapshotter

    return snapshotter.run(context)


def _merge(context: SideContext) -> int:
    from relay.processes import merger

    return merger.run(context)


def _log_lines(context: SideContext) -> int:
    from relay.processes import row_logger as lines

    return lines.run(context)
