"""Judge the relay's health from the stat document: whether it is alive, and whether it is ready."""

from __future__ import annotations

from relay.monitoring.stat import Process, Stat
from relay.runtime.watchdog import freeze_limit


def not_alive(document: Stat) -> list[str]:
    """Why the relay is not alive; empty if every process that should run sends heartbeats.

    A process that stopped with a fatal error counts as alive: restarting the relay would not help.
    """
    stopped = _stopped(document)
    return [reason for process in document.processes if (reason := _failure(process)) and process.name not in stopped]


def _failure(process: Process) -> str:
    """Why the process is not alive, "" if it is."""
    if process.state == "down":
        return f"{process.name} is down"
    if process.silent_seconds > freeze_limit(process.name):
        return f"{process.name} has been silent for {process.silent_seconds:.0f} s"
    return ""


def _stopped(document: Stat) -> set[str]:
    """Return the names of processes that stopped with a fatal error."""
    stopped = {"reader", "state-writer"} if document.stop else set()
    if document.lake and document.lake.export.stop:
        stopped.add("exporter")
    if document.lake and document.lake.snapshot.stop:
        stopped.add("snapshotter")
    if document.lake and document.lake.open_tables and document.lake.open_tables.stop:
        stopped.add("merger")
    if document.log and document.log.status.stop:
        stopped.add("logger")
    if document.cdc:
        stopped |= {f"cdc-{index}" for index, process in enumerate(document.cdc.processes) if process.stop}
    return stopped


def not_ready(document: Stat) -> list[str]:
    """Why clients do not get changes from the source; empty if they do."""
    reasons = [f"{document.stop.code}: {document.stop.text}"] if document.stop else []
    if document.state not in ("running", "stopped"):
        reasons.append(f"the relay is {document.state}")
    if document.source.state != "streaming":
        reasons.append(f"the source is {document.source.state}")
    serving = [process for process in document.processes if process.name.startswith(("broker", "server-"))]
    return reasons + [f"{process.name} is {process.state}" for process in serving if process.state != "running"]
