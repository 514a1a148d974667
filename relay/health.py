"""What the stat document says of the relay's health: whether it lives, and whether it serves."""

from __future__ import annotations

from typing import Final

from relay.stat import Process, Stat

FREEZE: Final = 60.0
"""Seconds without a heartbeat after which a process counts as hung; a query may take half of it."""

LAKE_FREEZE: Final = 600.0
"""The same for processes that may wait for an object store and its client's attempts, or for a slow file system."""

_WAIT_FOR_STORES: Final = frozenset({"exporter", "snapshotter", "logger"})


def freeze(process: str) -> float:
    """Seconds without a heartbeat after which the process of that name counts as hung."""
    return LAKE_FREEZE if process in _WAIT_FOR_STORES else FREEZE


def not_alive(document: Stat) -> list[str]:
    """Why the relay is not as alive as its supervisor wants it; nothing if every process beats.

    A process that has stopped by name is where it should be: starting the relay anew would mend nothing.
    """
    stopped = _stopped_by_name(document)
    return [reason for process in document.processes if (reason := _dead(process)) and process.name not in stopped]


def _dead(process: Process) -> str:
    if process.state == "down":
        return f"{process.name} is down"
    if process.silent_seconds > freeze(process.name):
        return f"{process.name} has been silent for {process.silent_seconds:.0f} s"
    return ""


def _stopped_by_name(document: Stat) -> set[str]:
    stopped = {"reader"} if document.stop else set()
    if document.lake and document.lake.export.stop:
        stopped.add("exporter")
    if document.lake and document.lake.snapshot.stop:
        stopped.add("snapshotter")
    if document.log and document.log.status.stop:
        stopped.add("logger")
    if document.cdc:
        stopped |= {f"cdc-{index}" for index, process in enumerate(document.cdc.processes) if process.stop}
    return stopped


def not_ready(document: Stat) -> list[str]:
    """Why clients do not get what happens at the source; nothing if they do."""
    reasons = [f"{document.stop.code}: {document.stop.text}"] if document.stop else []
    if document.state not in ("running", "stopped"):
        reasons.append(f"the relay is {document.state}")
    if document.source.state != "streaming":
        reasons.append(f"the source is {document.source.state}")
    serving = ("broker", "server-")
    down = [process for process in document.processes if process.name.startswith(serving)]
    return reasons + [f"{process.name} is {process.state}" for process in down if process.state != "running"]
