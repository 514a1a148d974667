"""The CDC port as text for a terminal: the port itself, and who is sent what. Pure: structs in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.board import CDCStream
from relay.columns import cut, fact, fit, right, size_text, span
from relay.stat import CDC

USER: Final = 16
"""Columns of a user's name, with the blank behind."""

_STREAM: Final = 42  # columns of a stream's line behind its table


def connections(cdc: CDC) -> int:
    """How many there are, with those that have no room in the document."""
    return sum(len(process.streams) + process.left_out for process in cdc.processes)


def streams(cdc: CDC) -> Iterator[CDCStream]:
    """Those of all processes."""
    return (stream for process in cdc.processes for stream in process.streams)


def slowest_first(cdc: CDC) -> list[CDCStream]:
    """Those of all processes, the ones furthest behind first."""
    return sorted(
        streams(cdc), key=lambda stream: (-stream.lag_bytes, stream.user, stream.schema, stream.table, stream.port)
    )


def sent(cdc: CDC) -> tuple[int, int]:
    """Rows and bytes that its processes have sent."""
    return sum(process.rows for process in cdc.processes), sum(process.bytes for process in cdc.processes)


def port_text(cdc: CDC) -> str:
    """In which state it is, how many are connected, and how far the slowest is behind."""
    states = ", ".join(dict.fromkeys(process.state for process in cdc.processes))
    return f"{states}, {connected_text(cdc)}"


def connected_text(cdc: CDC) -> str:
    """How many are connected, and how far the slowest is behind."""
    count = connections(cdc)
    slowest = max((stream.lag_bytes for stream in streams(cdc)), default=0)
    return f"{count:,} connection{'' if count == 1 else 's'}, the slowest {size_text(slowest)} behind"


def troubles(cdc: CDC, width: int) -> list[str]:
    """Why nobody can log in by the file of users; nothing while it can be read."""
    return [
        line for why in dict.fromkeys(process.trouble for process in cdc.processes) if why
        for line in fact("users", why, width)
    ]  # fmt: skip


def name(stream: CDCStream) -> str:
    """Its user, in `USER` columns."""
    return f"{fit(stream.user or '-', USER - 1)} "


def peer(stream: CDCStream) -> str:
    """The client's end of the connection."""
    return f"[{stream.address}]:{stream.port}" if ":" in stream.address else f"{stream.address}:{stream.port}"


def table_text(stream: CDCStream) -> str:
    """The table that it has asked for."""
    return f"{stream.schema}.{stream.table}" if stream.table else "-"


def table(cdc: CDC, now: float, width: int) -> list[str]:
    """Heading and streams, each with a line of details; those without room are counted. `now` is Unix seconds."""
    room = width - USER - _STREAM
    lines = [f"{'CDC USER':<{USER}}{fit('TABLE', room)}{'STATE':<13}{'FORM':<5}{'ROWS':>13}{'BEHIND':>11}"]
    for stream in slowest_first(cdc):
        text = f"{name(stream)}{fit(table_text(stream), room - 1)} {stream.state:<13}{stream.form:<5}"
        lines.append(f"{text}{right(stream.rows, 13)}{behind(stream):>11}")
        lines += [f"  {cut(_details(stream, now), width - 2)}"]
    left_out = sum(process.left_out for process in cdc.processes)
    return lines + ([f"{left_out:,} more are connected"] if left_out else [])


def behind(stream: CDCStream) -> str:
    """How far it is behind what it may be sent; `-` where it is sent nothing."""
    return size_text(stream.lag_bytes) if stream.version else "-"


def _details(stream: CDCStream, now: float) -> str:
    facts = [f"from {peer(stream)} for {span(now - stream.since)}, {size_text(stream.bytes)} sent"]
    facts += [f"version {stream.version} at {stream.gtid}"] if stream.version else []
    facts += [f"waits for {table_text(stream)}"] if stream.table and not stream.version else []
    return "; ".join(facts)
