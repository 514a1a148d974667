"""The stat document and rows as text for a terminal of 80 columns. Pure: structs in, text out."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from typing import Final

import msgspec

from relay.board import Stop
from relay.client import Row
from relay.errors import printable
from relay.stat import Client, Filter, Lake, Process, Stat

WIDTH: Final = 80
_DISCARD: Final = {0: "newest", 1: "oldest", 2: "newest"}


def stat(document: Stat) -> str:
    """What the relay does: source, journal, rows, processes, clients with their filters."""
    source, journal = document.source, document.journal
    since = datetime.fromtimestamp(document.started, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lines = [f"relay {document.version}: {document.state}, since {since} UTC"]
    lines += _stop(document.stop)
    for gap in document.gaps:
        at = datetime.fromtimestamp(gap.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        lines += _fact("gap", f"{gap.before} to {gap.after}, accepted {at} UTC: {gap.cause}")
    lines += _fact("source", f"{source.host}:{source.port} {source.state}, heard {source.silent_seconds:.1f} s ago")
    lines += _fact("position", f"{source.file}:{source.position}")
    lines += _fact("gtid", source.gtid_set) if source.gtid_set else []
    lines += _fact(
        "journal",
        f"{size_text(journal.bytes)} on disk, {size_text(journal.committed - journal.first)} of history, "
        f"{size_text(journal.committed - journal.flushed)} not flushed, "
        f"{size_text(journal.committed - journal.decided)} not queued",
    )
    lines += _fact("rows", _counts(document.rows))
    lines += _fact("traffic", _counts(document.traffic))
    lines += _fact("events", _counts(document.events))
    if document.lake:
        lines += _lake(document.lake)
    lines += _fact("addresses", ", ".join(f"{name} {address}" for name, address in document.addresses.items()))
    lines += ["", f"{'PROCESS':<14}{'PID':>9}  {'STATE':<10}{'RESTARTS':>9}{'CPU s':>11}{'MEMORY':>11}"]
    lines += [_process(process) for process in document.processes]
    lines += ["", _client_head()]
    for client in document.clients:
        lines += [_client(client), *_details(client)]
    if not document.clients:
        lines.append("none")
    return "\n".join(lines)


def _lake(lake: Lake) -> list[str]:
    export, snapshot = lake.export, lake.snapshot
    lines = _fact("lake", lake.path)
    lines += _fact(
        "export",
        f"{export.state}, {lake.lag_seconds:.1f} s and {size_text(lake.lag_bytes)} behind, at "
        f"{export.file}:{export.offset}, seq {export.seq:,}; {export.rows:,} rows in {export.files:,} files",
    )
    lines += _stop(export.stop)
    left = f", {snapshot.left} tables left" if snapshot.left else ""
    under_way = f" {snapshot.table}, {snapshot.rows:,} of about {snapshot.total:,} rows" if snapshot.table else ""
    lines += _fact("snapshot", snapshot.state + under_way + left)
    return lines + _stop(snapshot.stop)


def _stop(stop: Stop | None) -> list[str]:
    return _fact("stop", f"{stop.code}: {stop.text}") + _fact("hint", stop.hint) if stop else []


def receipt(document: Stat) -> str:
    """What a drain leaves: the final position, and each client's remainder."""
    source, journal = document.source, document.journal
    lines = _fact("position", f"{source.file}:{source.position}")
    lines += _fact("gtid", source.gtid_set) if source.gtid_set else []
    lines += _fact("journal", f"committed {journal.committed}, changes {journal.sequence - 1}")
    if document.lake:
        lines += _fact("lake", f"{size_text(document.lake.lag_bytes)} not exported to {document.lake.path}")
    lines += ["", _client_head(), *map(_client, document.clients)]
    left = remainder(document)
    lines += ["", f"{left:,} rows remain" if left else "nothing remains"]
    return "\n".join(lines)


def row(change: Row) -> str:
    """A changed row as one line of JSON; bytes that are not text are base64."""
    document = {
        "kind": change.kind,
        "schema": change.schema,
        "table": change.table,
        "before": change.before,
        "after": change.after,
        "position": change.position,
        "sequence": change.sequence,
    }
    return msgspec.json.encode(document).decode()


def remainder(document: Stat) -> int:
    """Rows that wait or are in flight, of all clients together."""
    return sum(client.waiting + client.in_flight for client in document.clients)


def drained(document: Stat) -> bool:
    """Whether a drain is done: nothing is read any more, everything read is queued, the queues are empty, and the lake
    has what is on disk."""
    reading = any(process.name == "reader" and process.pid for process in document.processes)
    undecided = document.journal.decided < document.journal.committed
    # An export that stopped by name will not come further; the journal keeps what it has not.
    lake = document.lake
    exporting = lake is not None and lake.export.stop is None and lake.lag_bytes > 0
    return not reading and not undecided and not exporting and remainder(document) == 0


def _fact(name: str, value: str) -> list[str]:
    return textwrap.wrap(printable(value) or "-", WIDTH, initial_indent=f"{name:<10} ", subsequent_indent=" " * 11)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _process(process: Process) -> str:
    return (
        f"{_cut(process.name, 13):<14}{process.pid or '-':>9}  {process.state:<10}{process.restarts:>9,}"
        f"{process.cpu_seconds:>11,.1f}{size_text(process.rss_bytes):>11}"
    )


def _client_head() -> str:
    return f"{'CLIENT':<21}{'STATE':<7}{'WAITING':>13}{'IN FLIGHT':>10}{'CONFIRMED':>16}{'DROPPED':>13}"


def _client(client: Client) -> str:
    dropped = sum(msgspec.structs.astuple(client.dropped))
    return (
        f"{_cut(client.name, 20):<21}{'online' if client.connected else 'away':<7}{client.waiting:>13,}"
        f"{client.in_flight:>10,}{client.confirmed:>16,}{dropped:>13,}"
    )


def _details(client: Client) -> list[str]:
    dropped = {reason: count for reason, count in msgspec.structs.asdict(client.dropped).items() if count}
    lines = [_filter(rule) for rule in client.filters]
    lines += ["lagging: its queue goes on in the journal"] if client.lagging else []
    lines += [f"dropped: {_counts(dropped)}"] if dropped else []
    return [f"  {line}" for line in lines]


def _filter(rule: Filter) -> str:
    limit = f", at most {rule.limit:,}, drops {_DISCARD.get(rule.discard, 'newest')}" if rule.limit else ""
    return f"{_cut(f'{rule.schema}.{rule.table}', 40)} {rule.kinds}{limit}"


def _cut(text: str, width: int) -> str:
    shown = printable(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def size_text(count: float) -> str:
    """Bytes for people: `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
