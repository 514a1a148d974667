"""The stat document and rows as text for a terminal of 80 columns or more. Pure: structs in, text out."""

from __future__ import annotations

from typing import Final

import msgspec

from relay.client import Row
from relay.commands.text import cdc as cdc_text
from relay.commands.text.clients import NO_CLIENT, dropped_rows, filter_text
from relay.commands.text.columns import counts, cut, fact, fit, moment, right, size_text, span
from relay.monitoring.stat import CDC, Client, Journal, Lake, LineLog, Process, Source, Stat
from relay.runtime.process_status import AssumedRows, Counts, MergeStatus, PassedOver, Stop, Usage

WIDTH: Final = 80
_CLIENT: Final = 59  # columns of a client's line after its name
_TABLE: Final = 51  # columns of a table's line after its name


def stat(document: Stat, width: int = WIDTH) -> str:
    """Return the state of the relay: source, journal, rows, processes, clients with their filters, tables."""
    source = document.source
    lines = [f"relay {document.version}: {document.state}, since {moment(document.started)} UTC"]
    lines += stopped(document.stop, width)
    for gap in document.gaps:
        lines += fact("gap", f"{gap.before} to {gap.after}, accepted {moment(gap.at)} UTC: {gap.cause}", width)
    lines += fact("source", source_text(document), width) + retries(document, width)
    lines += fact("position", f"{source.file}:{source.position}", width) if source.file else []
    lines += fact("gtid", source.gtid_set, width) if source.gtid_set else []
    lines += fact("lag", lag(source), width)
    lines += fact("loss", loss(source), width)
    lines += fact("journal", _journal(document.journal), width)
    lines += fact("rows", counts(document.rows), width) + _first_rows(document, width)
    lines += fact("traffic", counts(document.traffic), width)
    lines += fact("events", counts(document.events), width)
    lines += _passed_over(document.passed_over, width)
    lines += _assumed(document.assumed, width)
    lines += _lake(document.lake, width) if document.lake else []
    lines += _log(document.log, width) if document.log else []
    lines += _cdc(document.cdc, width) if document.cdc else []
    lines += fact("addresses", ", ".join(f"{name} {address}" for name, address in document.addresses.items()), width)
    lines += ["", f"{'PROCESS':<14}{'PID':>9}  {'STATE':<10}{'RESTARTS':>9}{'CPU s':>11}{'MEMORY':>11}"]
    lines += [_process(process) for process in document.processes]
    lines += ["", _client_head(width)]
    for client in document.clients:
        lines += [_client(client, width), *_details(client, document.at, width)]
    if not document.clients:
        lines.append(NO_CLIENT)
    if document.cdc and cdc_text.connections(document.cdc):
        lines += ["", *cdc_text.table(document.cdc, document.at, width)]
    return "\n".join(lines + _tables(document.usage, width))


def stopped(stop: Stop | None, width: int) -> list[str]:
    """Return a fatal error and its hint; empty without one."""
    return fact("stop", f"{stop.code}: {stop.text}", width) + fact("hint", stop.hint, width) if stop else []


def source_text(document: Stat) -> str:
    """Return the source, the state of the connection, and the time since the last event."""
    source = document.source
    state = "not read" if document.stop else source.state
    heard = f"last event {span(source.silent_seconds)} ago" if source.file else "no event yet"
    return f"{source.host}:{source.port} {state}, {heard}"


def retries(document: Stat, width: int) -> list[str]:
    """Return what to do about a source that was never reached; empty for any other."""
    waits = document.source.state == "reconnecting" and not document.source.file
    return fact("hint", "the relay retries by itself; `relay check` reports what is wrong", width) if waits else []


def _first_rows(document: Stat, width: int) -> list[str]:
    """Return what to do to see a first row; empty if a table has changed already."""
    waits = document.state == "running" and not document.usage.tables and not document.usage.trouble
    return fact("hint", "insert a row at the source: it appears here and at clients", width) if waits else []


def lag(source: Source) -> str:
    """How far the journal is behind the source, if known."""
    seconds, left, watch = source.lag_seconds, source.lag_bytes, source.watch
    facts = [] if seconds is None else [span(seconds)]
    facts += [] if left is None else [f"{size_text(left)} of binlog"]
    shown = f"{' and '.join(facts)} behind the source" if facts else "unknown"
    return f"{shown}: {watch.trouble}" if watch.trouble else shown


def loss(source: Source) -> str:
    """When the source purges events that the relay has not read."""
    expiry = source.watch.expiry
    if source.loss_seconds is not None:
        return f"in {span(source.loss_seconds)}, when the source purges the events that the relay has not read"
    return (
        "never by age: the source has no binlog expiry"
        if expiry == 0
        else "unknown: the source does not report when it purges"
    )


def _journal(journal: Journal) -> str:
    """Return the size of the journal, and how much of it is not flushed or queued."""
    unflushed = max(0, journal.committed - journal.flushed)  # the header is flushed before anything is committed
    return (
        f"{size_text(journal.bytes)} on disk, {size_text(journal.committed - journal.first)} of history, "
        f"{size_text(unflushed)} not flushed, "
        f"{size_text(journal.committed - journal.decided)} not queued"
    )


def _passed_over(passed_over: PassedOver, width: int) -> list[str]:
    """Return the statements about tables that nobody can get, if there were any."""
    shown = [f"{each.schema}.{each.table} {each.statements:,}" for each in passed_over.tables]
    shown += [f"other tables {passed_over.others:,}"] if passed_over.others else []
    return fact("statements", "passed over: " + ", ".join(shown), width) if shown else []


def _assumed(assumed: AssumedRows, width: int) -> list[str]:
    """Return the tables with rows in an assumed character set that is contradicted."""
    lines: list[str] = []
    for each in assumed.tables:
        text = f"assumed {each.charset}: {each.rows:,} rows of {each.schema}.{each.table}"
        lines += fact("charset", f"{text} from {each.first} to {each.last}; {each.cause}", width)
    if assumed.others:
        lines += fact("charset", f"assumed: {assumed.others:,} rows of other tables", width)
    return lines


def _lake(lake: Lake, width: int) -> list[str]:
    """Return the export to Parquet, with its fatal errors."""
    export, snapshot = lake.export, lake.snapshot
    lines = fact("lake", lake.path, width)
    text = f"{export.state}, {span(lake.lag_seconds)} and {size_text(lake.lag_bytes)} behind, at "
    text += f"{export.file}:{export.offset}, seq {export.seq:,}; {export.rows:,} rows in {export.files:,} files"
    lines += fact("export", text, width) + stopped(export.stop, width)
    left = f", {snapshot.left} tables left" if snapshot.left else ""
    under_way = f" {snapshot.table}, {snapshot.rows:,} of about {snapshot.total:,} rows" if snapshot.table else ""
    lines += fact("snapshot", snapshot.state + under_way + left, width) + stopped(snapshot.stop, width)
    return lines + (_open_tables(lake.open_tables, width) if lake.open_tables else [])


def _open_tables(merging: MergeStatus, width: int) -> list[str]:
    """Return the open tables in one line, and those that have stopped."""
    tables = merging.tables
    rows, size = sum(table.rows for table in tables), sum(table.bytes for table in tables)
    text = f"{merging.state}, {len(tables) + merging.left_out:,} open tables: {rows:,} rows, {size_text(size)}"
    if waiting := sum(table.behind_since > 0 and table.stop is None for table in tables):
        text += f"; changes of {waiting} wait"
    lines = fact("merge", text, width) + stopped(merging.stop, width)
    for table in tables:
        if table.stop:
            lines += fact("merge", f"{table.schema}.{table.table} is no longer merged", width)
            lines += stopped(table.stop, width)
    return lines


def _log(log: LineLog, width: int) -> list[str]:
    """Return the log of `[Logger]`, with its fatal error."""
    status = log.status
    lines = fact("log", status.log_file or log.path, width)
    text = f"{status.state}, {span(log.lag_seconds)} and {size_text(log.lag_bytes)} behind, at "
    text += f"{status.file}:{status.offset}; {status.lines:,} lines, {size_text(status.bytes)}"
    return lines + fact("logger", text, width) + stopped(status.stop, width)


def _cdc(cdc: CDC, width: int) -> list[str]:
    """Return the CDC port, with the fatal errors of its processes."""
    refused = sum(process.refused for process in cdc.processes)
    rows, size = cdc_text.sent(cdc)
    text = f"{cdc.address}:{cdc.port} {cdc_text.port_text(cdc)}; {rows:,} rows, {size_text(size)} sent; "
    text += f"{refused:,} logins rejected"
    lines = fact("cdc", text, width) + cdc_text.troubles(cdc, width)
    return lines + [line for process in cdc.processes for line in stopped(process.stop, width)]


def receipt(document: Stat) -> str:
    """Return the result of a drain: the final position, and the rows that remain for each client."""
    source, journal = document.source, document.journal
    lines = fact("position", f"{source.file}:{source.position}", WIDTH)
    lines += fact("gtid", source.gtid_set, WIDTH) if source.gtid_set else []
    lines += fact("journal", f"committed {journal.committed}, changes {journal.sequence - 1}", WIDTH)
    if document.lake:
        lines += fact("lake", f"{size_text(document.lake.lag_bytes)} not exported to {document.lake.path}", WIDTH)
    if document.log:
        lines += fact("log", f"{size_text(document.log.lag_bytes)} not logged to {document.log.path}", WIDTH)
    if document.cdc:
        lines += fact("cdc", cdc_text.connected_text(document.cdc), WIDTH)
    lines += ["", _client_head(WIDTH), *(_client(client, WIDTH) for client in document.clients)]
    left = remainder(document)
    lines += ["", f"{left:,} rows remain" if left else "no rows remain"]
    return "\n".join(lines)


def row(change: Row) -> str:
    """Return a changed row as one line of JSON; bytes that are not text are base64."""
    names = ("kind", "schema", "table", "before", "after", "position", "sequence")
    return msgspec.json.encode({name: getattr(change, name) for name in names}).decode()


def remainder(document: Stat) -> int:
    """Rows of all clients that wait or are in flight."""
    return sum(client.waiting + client.in_flight for client in document.clients)


def drained(document: Stat) -> bool:
    """Whether a drain is done.

    The relay reads nothing more, all rows are queued, the queues are empty, and the lake, its open tables and the log
    have everything.
    """
    reading = any(process.name == "reader" and process.pid for process in document.processes)
    undecided = document.journal.decided < document.journal.committed
    # A process with a fatal error does not continue. Journal and lake keep the rows for it.
    lake, log = document.lake, document.log
    exporting = lake is not None and lake.export.stop is None and lake.lag_bytes > 0
    merger = lake.open_tables if lake else None
    merging = lake and merger and merger.stop is None and merger.seq < lake.export.seq
    logging = log is not None and log.status.stop is None and log.lag_bytes > 0
    return not (reading or undecided or exporting or merging or logging or remainder(document))


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
    lines.append(f"longest queue {client.max_waiting:,}; {client.served:,} rows served, repeats included")
    seen = [f"last request {span(now - client.last_seen)} ago"] if client.last_seen else []
    seen += [f"connected from {client.address}"] if client.address else []
    lines += [", ".join(seen)] if seen else []
    lines += ["lagging: its queue continues in the journal"] if client.lagging else []
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
            lines.append(f"{'names unproven':>{name}}{right(table.unproven, 17)}")
        lines += [f"{text:>{name}}{_rows(rows)}" for text, rows in (("24 hours", table.day), ("hour", table.hour))]
    return lines + ([f"{usage.left_out:,} more tables with rows"] if usage.left_out else [])


def _rows(rows: Counts) -> str:
    return "".join(right(count, 17) for count in msgspec.structs.astuple(rows))
