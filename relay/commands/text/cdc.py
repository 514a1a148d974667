"""The CDC port and its streams as text for a terminal. Pure: structs in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.commands.text.columns import cut, fact, fit, right, size_text, span
from relay.monitoring.stat import CDC
from relay.runtime.process_status import CDCStream

USER: Final = 16
"""Columns of a user's name, including the blank after it."""

_STREAM: Final = 42  # columns of a stream's line after its table


def connections(cdc: CDC) -> int:
    """Return the number of connections, including those that the document omits."""
    return sum(len(process.streams) + process.left_out for process in cdc.processes)


def streams(cdc: CDC) -> Iterator[CDCStream]:
    """Return the streams of all processes."""
    return (stream for process in cdc.processes for stream in process.streams)


def slowest_first(cdc: CDC) -> list[CDCStream]:
    """Return the streams of all processes, sorted by lag, the largest first."""
    return sorted(streams(cdc), key=lambda each: (-each.lag_bytes, each.user, each.schema, each.table, each.port))


def sent(cdc: CDC) -> tuple[int, int]:
    """Rows and bytes that all processes have sent."""
    return sum(process.rows for process in cdc.processes), sum(process.bytes for process in cdc.processes)


def port_text(cdc: CDC) -> str:
    """Return the state of the port, the number of connections, and the lag of the slowest one."""
    states = ", ".join(dict.fromkeys(process.state for process in cdc.processes))
    return f"{states}, {connected_text(cdc)}"


def connected_text(cdc: CDC) -> str:
    """Return the number of connections, and the lag of the slowest one."""
    count = connections(cdc)
    slowest = max((stream.lag_bytes for stream in streams(cdc)), default=0)
    return f"{count:,} connection{'' if count == 1 else 's'}, the slowest {size_text(slowest)} behind"


def troubles(cdc: CDC, width: int) -> list[str]:
    """Return the errors of reading the file of users."""
    reasons = dict.fromkeys(process.trouble for process in cdc.processes if process.trouble)
    return [line for reason in reasons for line in fact("users", reason, width)]


def name(stream: CDCStream) -> str:
    """Return the user of a stream, in `USER` columns."""
    return f"{fit(stream.user or '-', USER - 1)} "


def _client(stream: CDCStream) -> str:
    """Return the address and port of the client."""
    return f"[{stream.address}]:{stream.port}" if ":" in stream.address else f"{stream.address}:{stream.port}"


def table_text(stream: CDCStream) -> str:
    """Return the table that a stream has asked for; `-` for none."""
    return f"{stream.schema}.{stream.table}" if stream.table else "-"


def table(cdc: CDC, now: float, width: int) -> list[str]:
    """Return a heading, then each stream with a line of details, then the number of omitted streams.

    `now` is Unix seconds.
    """
    room = width - USER - _STREAM
    lines = [f"{'CDC USER':<{USER}}{fit('TABLE', room)}{'STATE':<13}{'FORM':<5}{'ROWS':>13}{'BEHIND':>11}"]
    for stream in slowest_first(cdc):
        text = f"{name(stream)}{fit(table_text(stream), room - 1)} {stream.state:<13}{stream.form:<5}"
        lines.append(f"{text}{right(stream.rows, 13)}{behind(stream):>11}")
        lines.append(f"  {cut(_details(stream, now), width - 2)}")
    left_out = sum(process.left_out for process in cdc.processes)
    return lines + ([f"{left_out:,} more connections"] if left_out else [])


def behind(stream: CDCStream) -> str:
    """Return the lag of a stream; `-` if it gets no rows."""
    return size_text(stream.lag_bytes) if stream.version else "-"


def _details(stream: CDCStream, now: float) -> str:
    facts = [f"from {_client(stream)} for {span(now - stream.since)}, {size_text(stream.bytes)} sent"]
    facts += [f"version {stream.version} at {stream.gtid}"] if stream.version else []
    facts += [f"waiting for {table_text(stream)}"] if stream.table and not stream.version else []
    return "; ".join(facts)
