"""The stat document and rows as text for a terminal, of 80 columns or more. Pure: structs in, text out."""

from __future__ import annotations

from typing import Final

import msgspec

from relay import cdctext
from relay.board import Counts, Stop, Usage
from relay.client import Row
from relay.clienttext import dropped_rows, filter_text
from relay.columns import counts, cut, fact, fit, moment, right, size_text, span
from relay.stat import CDC, Client, Journal, Lake, LineLog, Process, Source, Stat

WIDTH: Final = 80
_CLIENT: Final = 59  # columns of a client's line behind its name
_TABLE: Final = 51  # columns of a table's line behind its name


def stat(document: Stat, width: int = WIDTH) -> str:
    """What the relay does: source, journal, rows, processes, clients with their filters, tables."""
    source = document.source
    lines = [f"relay {document.version}: {document.state}, since {moment(document.started)} UTC"]
    lines += stopped(document.stop, width)
    for gap in document.gaps:
        lines += fact("gap", f"{gap.before} to {gap.after}, accepted {moment(gap.at)} UTC: {gap.cause}", width)
    lines += fact("source", whereabouts(document), width)
    lines += fact("position", f"{source.file}:{source.position}", width)
    lines += fact("gtid", source.gtid_set, width) if source.gtid_set else []
    lines += fact("lag", lag(source), width)
    lines += fact("loss", loss(source), width)
    lines += fact("journal", kept(document.journal), width)
    lines += fact("rows", counts(document.rows), width)
    lines += fact("traffic", counts(document.traffic), width)
    lines += fact("events", counts(document.events), width)
    lines += exported(document.lake, width) if document.lake else []
    lines += logged(document.log, width) if document.log else []
    lines += streamed(document.cdc, width) if document.cdc else []
    lines += fact("addresses", ", ".join(f"{name} {address}" for name, address in document.addresses.items()), width)
    lines += ["", f"{'PROCESS':<14}{'PID':>9}  {'STATE':<10}{'RESTARTS':>9}{'CPU s':>11}{'MEMORY':>11}"]
    lines += [_process(process) for process in document.processes]
    lines += ["", _client_head(width)]
    for client in document.clients:
        lines += [_client(client, width), *_details(client, document.at, width)]
    if not document.clients:
        lines.append("none")
    if document.cdc and cdctext.connections(document.cdc):
        lines += ["", *cdctext.table(document.cdc, document.at, width)]
    return "\n".join(lines + _tables(document.usage, width))


def stopped(stop: Stop | None, width: int) -> list[str]:
    """A named stop and its hint; nothing without one."""
    return fact("stop", f"{stop.code}: {stop.text}", width) + fact("hint", stop.hint, width) if stop else []


def whereabouts(document: Stat) -> str:
    """Who the source is, and whether it is heard."""
    source = document.source
    state = "not read any more" if document.stop else source.state
    return f"{source.host}:{source.port} {state}, heard {span(source.silent_seconds)} ago"


def lag(source: Source) -> str:
    """How far the journal is behind the source, as far as that is known."""
    seconds, left, watch = source.lag_seconds, source.lag_bytes, source.watch
    facts = [] if seconds is None else [span(seconds)]
    facts += [] if left is None else [f"{size_text(left)} of binlog"]
    shown = f"{' and '.join(facts)} behind the source" if facts else "not known"
    return f"{shown}: {watch.trouble}" if watch.trouble else shown


def loss(source: Source) -> str:
    """When the source will have purged what was not read yet."""
    expiry = source.watch.expiry
    if source.loss_seconds is not None:
        return f"in {span(source.loss_seconds)}, when the source purges what is not read until then"
    return "never by age: the source has no binlog expiry" if expiry == 0 else "not known when the source purges"


def kept(journal: Journal) -> str:
    """What the journal holds, and what of it waits for whom."""
    return (
        f"{size_text(journal.bytes)} on disk, {size_text(journal.committed - journal.first)} of history, "
        f"{size_text(journal.committed - journal.flushed)} not flushed, "
        f"{size_text(journal.committed - journal.decided)} not queued"
    )


def exported(lake: Lake, width: int) -> list[str]:
    """The export to Parquet, with stops of its own."""
    export, snapshot = lake.export, lake.snapshot
    lines = fact("lake", lake.path, width)
    lines += fact(
        "export",
        f"{export.state}, {span(lake.lag_seconds)} and {size_text(lake.lag_bytes)} behind, at "
        f"{export.file}:{export.offset}, seq {export.seq:,}; {export.rows:,} rows in {export.files:,} files",
        width,
    )
    lines += stopped(export.stop, width)
    left = f", {snapshot.left} tables left" if snapshot.left else ""
    under_way = f" {snapshot.table}, {snapshot.rows:,} of about {snapshot.total:,} rows" if snapshot.table else ""
    lines += fact("snapshot", snapshot.state + under_way + left, width)
    return lines + stopped(snapshot.stop, width)


def logged(log: LineLog, width: int) -> list[str]:
    """The log of `[Logger]`, with a stop of its own."""
    status = log.status
    lines = fact("log", status.log_file or log.path, width)
    lines += fact(
        "logger",
        f"{status.state}, {span(log.lag_seconds)} and {size_text(log.lag_bytes)} behind, at "
        f"{status.file}:{status.offset}; {status.lines:,} lines, {size_text(status.bytes)}",
        width,
    )
    return lines + stopped(status.stop, width)


def streamed(cdc: CDC, width: int) -> list[str]:
    """The CDC port, with the stops of its processes."""
    refused = sum(process.refused for process in cdc.processes)
    rows, size = cdctext.sent(cdc)
    text = f"{cdc.address}:{cdc.port} {cdctext.port_text(cdc)}; {rows:,} rows, {size_text(size)} sent; "
    text += f"{refused:,} logins refused"
    lines = fact("cdc", text, width) + cdctext.troubles(cdc, width)
    return lines + [line for process in cdc.processes for line in stopped(process.stop, width)]


def receipt(document: Stat) -> str:
    """What a drain leaves: the final position, and each client's remainder."""
    source, journal = document.source, document.journal
    lines = fact("position", f"{source.file}:{source.position}", WIDTH)
    lines += fact("gtid", source.gtid_set, WIDTH) if source.gtid_set else []
    lines += fact("journal", f"committed {journal.committed}, changes {journal.sequence - 1}", WIDTH)
    if document.lake:
        lines += fact("lake", f"{size_text(document.lake.lag_bytes)} not exported to {document.lake.path}", WIDTH)
    if document.log:
        lines += fact("log", f"{size_text(document.log.lag_bytes)} not logged to {document.log.path}", WIDTH)
    if document.cdc:
        lines += fact("cdc", cdctext.connected_text(document.cdc), WIDTH)
    lines += ["", _client_head(WIDTH), *(_client(client, WIDTH) for client in document.clients)]
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
    and the log have what is on disk."""
    reading = any(process.name == "reader" and process.pid for process in document.processes)
    undecided = document.journal.decided < document.journal.committed
    # An export or a log that stopped by name will not come further; the journal keeps what it has not.
    lake, log = document.lake, document.log
    exporting = lake is not None and lake.export.stop is None and lake.lag_bytes > 0
    logging = log is not None and log.status.stop is None and log.lag_bytes > 0
    return not reading and not undecided and not exporting and not logging and remainder(document) == 0


def _process(process: Process) -> str:
    return (
        f"{fit(process.name, 13)} {process.pid or '-':>9}  {process.state:<10}{process.restarts:>9,}"
        f"{process.cpu_seconds:>11,.1f}{size_text(process.rss_bytes):>11}"
    )


def _client_head(width: int) -> str:
    name = fit("CLIENT", width - _CLIENT)
    return f"{name}{'STATUS':<10}{'WAITING':>13}{'FLIGHT':>8}{'CONFIRMED':>15}{'DROPPED':>13}"


def _client(client: Client, width: int) -> str:
    name = fit(client.name, width - _CLIENT - 1)
    return (
        f"{name} {client.status:<10}{right(client.waiting, 13)}"
        f"{right(client.in_flight, 8)}{right(client.confirmed, 15)}{right(dropped_rows(client), 13)}"
    )


def _details(client: Client, now: float, width: int) -> list[str]:
    dropped = {reason: count for reason, count in msgspec.structs.asdict(client.dropped).items() if count}
    lines = [cut(filter_text(rule), width - 2) for rule in client.filters]
    lines.append(f"at most {client.max_waiting:,} waited; {client.served:,} rows handed out, repeats included")
    seen = [f"asked for rows {span(now - client.last_seen)} ago"] if client.last_seen else []
    seen += [f"connected from {client.address}"] if client.address else []
    lines += [", ".join(seen)] if seen else []
    lines += ["lagging: its queue goes on in the journal"] if client.lagging else []
    lines += [f"dropped: {counts(dropped)}"] if dropped else []
    return [f"  {line}" for line in lines]


def _tables(usage: Usage, width: int) -> list[str]:
    if not usage.tables:
        return []
    name = width - _TABLE
    lines = ["", f"{fit(f'TABLE since {moment(usage.since)[:16]}', name)}{'INSERT':>17}{'UPDATE':>17}{'DELETE':>17}"]
    for table in usage.tables:
        lines.append(fit(f"{table.schema}.{table.table}", name - 1) + " " + _rows(table.total))
        if table.unproven:
            lines.append(f"{'names not proven':>{name}}{right(table.unproven, 17)}")
        lines += [f"{text:>{name}}{_rows(rows)}" for text, rows in (("24 hours", table.day), ("hour", table.hour))]
    return lines + ([f"{usage.left_out:,} more tables had rows"] if usage.left_out else [])


def _rows(rows: Counts) -> str:
    return "".join(right(count, 17) for count in (rows.insert, rows.update, rows.delete))
