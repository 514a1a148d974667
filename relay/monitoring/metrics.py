"""The stat document as Prometheus metrics; docs/metrics.md lists them.

Only the monitor process imports this module, when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from relay.monitoring.stat import Client, Stat
from relay.runtime.process_status import CDCStatus, OpenTableStatus, Status

Sample = tuple[Sequence[str], float | None]
"""Label values and the value; None means no sample."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format. Clients that ask for OpenMetrics accept it, and making it takes a third of the time."""

STATES: Final = ("starting", "running", "pausing", "paused", "draining", "stopped")
CLIENT_STATES: Final = ("connected", "polling", "away")
SOURCE_STATES: Final = ("starting", "streaming", "reconnecting", "no_password", "paused")

_UNITS: Final = frozenset({"bytes", "rows", "seconds"})


class Family(NamedTuple):
    """A metric: name without `_total`, help, labels, and a function that makes its samples of a document."""

    name: str
    kind: str  # counter or gauge
    help: str
    labels: tuple[str, ...]
    samples: Callable[[Stat], Iterable[Sample]]

    def metric(self, document: Stat) -> Metric:
        """Return the metric with its samples, as the client library's type."""
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = make(self.name, self.help, labels=self.labels)
        for labels, value in self.samples(document):
            if value is not None:
                family.add_metric(labels, value)
        return family

    @property
    def unit(self) -> str:
        """The unit of the values, which the name ends with; "" for a plain number."""
        last = self.name.rpartition("_")[2]
        return last if last in _UNITS else ""

    @property
    def sample_name(self) -> str:
        """The name of the samples."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def _counter(name: str, help: str, samples: Callable[[Stat], Iterable[Sample]], *labels: str) -> Family:
    return Family(name, "counter", help, labels, samples)


def _gauge(name: str, help: str, samples: Callable[[Stat], Iterable[Sample]], *labels: str) -> Family:
    return Family(name, "gauge", help, labels, samples)


def _value(value: Callable[[Stat], float | None]) -> Callable[[Stat], Iterable[Sample]]:
    return lambda document: [((), value(document))]


def _counts(counts: Callable[[Stat], dict[str, int]]) -> Callable[[Stat], Iterable[Sample]]:
    return lambda document: [((name,), count) for name, count in counts(document).items()]


def _states(all_states: Sequence[str], state: Callable[[Stat], str]) -> Callable[[Stat], Iterable[Sample]]:
    return lambda document: [((one,), float(one == state(document))) for one in all_states]


def _clients(value: Callable[[Client], float | None]) -> Callable[[Stat], Iterable[Sample]]:
    return lambda document: [((client.name,), value(client)) for client in document.clients]


def _dropped(document: Stat) -> Iterator[Sample]:
    for client in document.clients:
        for reason in client.dropped.__struct_fields__:
            yield (client.name, reason), getattr(client.dropped, reason)


def _table_rows(document: Stat) -> Iterator[Sample]:
    for table in document.usage.tables:
        for kind in table.total.__struct_fields__:
            yield (table.schema, table.table, kind), getattr(table.total, kind)


def _parts(document: Stat) -> dict[str, Status]:
    """Return the parts that can stop with a fatal error while the relay runs, by name."""
    parts: dict[str, Status] = {}
    if document.lake:
        parts |= {"export": document.lake.export, "snapshot": document.lake.snapshot}
        if document.lake.open_tables:
            parts["merge"] = document.lake.open_tables
    if document.log:
        parts["log"] = document.log.status
    if document.cdc:
        parts |= {f"cdc-{index}": process for index, process in enumerate(document.cdc.processes)}
    return parts


def _stopped(document: Stat) -> Iterator[Sample]:
    yield ("source", document.stop.code if document.stop else ""), float(document.stop is not None)
    for name, status in _parts(document).items():
        yield (name, status.stop.code if status.stop else ""), float(status.stop is not None)


def _open_tables(value: Callable[[OpenTableStatus], float]) -> Callable[[Stat], Iterable[Sample]]:
    def samples(document: Stat) -> Iterator[Sample]:
        merging = document.lake.open_tables if document.lake else None
        for table in merging.tables if merging else []:
            yield (table.schema, table.table), value(table)

    return samples


def _open_tables_behind(document: Stat) -> Iterator[Sample]:
    waiting = _open_tables(lambda table: max(0.0, document.at - table.behind_since) if table.behind_since else 0.0)
    yield from waiting(document)


def _cdc(value: Callable[[CDCStatus], float]) -> Callable[[Stat], Iterable[Sample]]:
    """By process: a sum of counters would fall when one process restarts, and the others would count twice."""

    def samples(document: Stat) -> Iterator[Sample]:
        for index, process in enumerate(document.cdc.processes if document.cdc else []):
            yield (f"cdc-{index}",), value(process)

    return samples


def _behind(attribute: str) -> Callable[[Stat], Iterable[Sample]]:
    def samples(document: Stat) -> Iterator[Sample]:
        for name, part in (("export", document.lake), ("log", document.log)):
            if part is not None:
                yield (name,), getattr(part, attribute)

    return samples


FAMILIES: Final = (
    _gauge("relay_info", "Version of the relay, as a label; always 1.", lambda d: [((d.version,), 1)], "version"),
    _gauge("relay_start_time_seconds", "When the supervisor started, Unix time.", _value(lambda d: d.started)),
    _gauge("relay_state", "1 for the state that the relay is in, 0 for the others.",
           _states(STATES, lambda d: d.state), "state"),
    _gauge("relay_stopped", "1 if the part has stopped with a fatal error, with its code; 0 and no code if not.",
           _stopped, "part", "code"),
    _counter("relay_accepted_gaps", "Event losses that an operator accepted.", _value(lambda d: len(d.gaps))),
    # Source.
    _gauge("relay_source_state",
           "1 for the state of the connection to the source, 0 for the others, and for all after a fatal error.",
           _states(SOURCE_STATES, lambda d: "" if d.stop else d.source.state), "state"),
    _gauge("relay_source_silent_seconds", "Seconds since the source last sent anything, heartbeats included.",
           _value(lambda d: d.source.silent_seconds)),
    _gauge("relay_source_last_event_timestamp_seconds", "Time of the newest event read, on the source's clock.",
           _value(lambda d: d.source.last_event or None)),
    _gauge("relay_source_lag_seconds", "Age of the newest event read, 0 if no event is known to wait.",
           _value(lambda d: d.source.lag_seconds)),
    _gauge("relay_source_lag_bytes", "Bytes of the source's binlog that are not read yet.",
           _value(lambda d: d.source.lag_bytes)),
    _gauge("relay_source_time_to_loss_seconds",
           "Seconds until the source purges unread events; no sample if never, or if unknown.",
           _value(lambda d: d.source.loss_seconds)),
    _gauge("relay_source_watch_timestamp_seconds", "When the source last reported the end of its binlog, Unix time.",
           _value(lambda d: d.source.watch.at or None)),
    _gauge("relay_source_watch_failing", "1 if the source does not report the end of its binlog or when it purges.",
           _value(lambda d: float(bool(d.source.watch.trouble)))),
    _counter("relay_source_rows", "Rows read from the source; an update is one.", _counts(lambda d: d.rows), "kind"),
    _counter("relay_source_events", "Binlog events read from the source.", _counts(lambda d: d.events), "type"),
    _counter("relay_source_transactions", "Transactions read from the source.",
             _value(lambda d: d.traffic["transactions"])),
    _counter("relay_source_bytes", "Bytes read from the source.", _value(lambda d: d.traffic["bytes"])),
    _counter("relay_source_skipped", "Unknown events and tables that were left out (OnUnknown = skip).",
             _value(lambda d: d.traffic["skipped"])),
    _counter("relay_source_passed_over", "Statements about a table that nobody can get, since the relay started.",
             lambda d: [((t.schema, t.table), t.statements) for t in d.passed_over.tables], "schema", "table"),
    _counter("relay_table_assumed_rows", "Rows of a table read with an assumed character set that is contradicted.",
             lambda d: [((t.schema, t.table), t.rows) for t in d.assumed.tables], "schema", "table"),
    # Journal.
    _gauge("relay_journal_size_bytes", "Bytes of the journal on disk.", _value(lambda d: d.journal.bytes)),
    _gauge("relay_journal_max_size_bytes", "Size at which the journal is cut even if a client needs it.",
           _value(lambda d: d.journal.max_bytes)),
    _gauge("relay_journal_position_bytes", "Positions in the journal, in bytes from its beginning.",
           lambda d: [((mark,), getattr(d.journal, mark)) for mark in ("first", "decided", "committed", "flushed")],
           "mark"),
    _gauge("relay_journal_sequence", "Number of the next change.", _value(lambda d: d.journal.sequence)),
    # Processes.
    _gauge("relay_process_up", "1 if the process runs and serves.",
           lambda d: [((p.name,), float(p.state == "running")) for p in d.processes], "process"),
    _counter("relay_process_restarts", "How often the supervisor has restarted the process.",
             lambda d: [((p.name,), p.restarts) for p in d.processes], "process"),
    _counter("relay_process_cpu_seconds", "CPU time of the current process, user and system.",
             lambda d: [((p.name,), p.cpu_seconds) for p in d.processes], "process"),
    _gauge("relay_process_resident_memory_bytes", "Resident memory, shared memory included.",
           lambda d: [((p.name,), p.rss_bytes) for p in d.processes], "process"),
    _gauge("relay_process_silent_seconds", "Seconds since the process's last heartbeat.",
           lambda d: [((p.name,), p.silent_seconds) for p in d.processes], "process"),
    # Clients.
    _gauge("relay_clients", "Clients known by name.",
           lambda d: [((status,), sum(c.status == status for c in d.clients)) for status in CLIENT_STATES], "status"),
    _gauge("relay_client_connected", "1 if the client is connected.", _clients(lambda c: float(c.connected)), "client"),
    _gauge("relay_client_last_seen_timestamp_seconds", "Time of the client's last request, Unix time.",
           _clients(lambda c: c.last_seen or None), "client"),
    _gauge("relay_client_waiting_rows", "Rows in the client's queue, those in flight not counted.",
           _clients(lambda c: c.waiting), "client"),
    _gauge("relay_client_in_flight_rows", "Rows handed out and not confirmed.",
           _clients(lambda c: c.in_flight), "client"),
    _gauge("relay_client_lagging", "1 if the client's queue continues in the journal.",
           _clients(lambda c: float(c.lagging)), "client"),
    _counter("relay_client_matched_rows", "Rows that the client's filters asked for.",
             _clients(lambda c: c.matched), "client"),
    _counter("relay_client_confirmed_rows", "Rows that the client has confirmed.",
             _clients(lambda c: c.confirmed), "client"),
    _counter("relay_client_served_rows", "Rows handed out to the client, repeats included.",
             _clients(lambda c: c.served), "client"),
    _gauge("relay_client_max_waiting_rows", "Largest number of rows that the client's queue has held.",
           _clients(lambda c: c.max_waiting), "client"),
    _gauge("relay_client_repeats", "How often the client took the same row again without confirming it.",
           _clients(lambda c: c.repeats), "client"),
    _counter("relay_client_dropped_rows", "Rows that the client asked for and did not receive.", _dropped,
             "client", "reason"),
    # Tables.
    _counter("relay_table_rows", "Rows of a table, with or without a client; an update is one.", _table_rows,
             "schema", "table", "kind"),
    _counter("relay_table_unproven_rows", "Rows of a table whose column names are unproven.",
             lambda d: [((t.schema, t.table), t.unproven) for t in d.usage.tables], "schema", "table"),
    _gauge("relay_table_last_row_timestamp_seconds", "Time of the table's newest row, on the source's clock.",
           lambda d: [((t.schema, t.table), t.last or None) for t in d.usage.tables], "schema", "table"),
    _gauge("relay_tables_left_out", "Tables that are left out because there are too many.",
           _value(lambda d: d.usage.left_out)),
    _gauge("relay_usage_failing", "1 if the counting of rows by table has stopped.",
           _value(lambda d: float(bool(d.usage.trouble)))),
    _counter("relay_usage_missed_rows", "Rows that the journal lost before they were counted for their table.",
             _value(lambda d: d.usage.missed)),
    # Lake and log, if they are configured.
    _gauge("relay_behind_seconds", "Seconds that the export or the log is behind the journal.",
           _behind("lag_seconds"), "part"),
    _gauge("relay_behind_bytes", "Bytes of the journal that the export or the log has not read yet.",
           _behind("lag_bytes"), "part"),
    _counter("relay_export_rows", "Rows exported since the exporter started; an update is two.",
             _value(lambda d: d.lake.export.rows if d.lake else None)),
    _counter("relay_export_files", "Files exported since the exporter started.",
             _value(lambda d: d.lake.export.files if d.lake else None)),
    _gauge("relay_snapshot_tables_left", "Tables that wait for their snapshot.",
           _value(lambda d: d.lake.snapshot.left if d.lake else None)),
    _gauge("relay_open_table_rows", "Rows of the open table.", _open_tables(lambda t: t.rows), "schema", "table"),
    _gauge("relay_open_table_files", "Data files of the open table.", _open_tables(lambda t: t.files),
           "schema", "table"),
    _gauge("relay_open_table_bytes", "Bytes of the data files of the open table.", _open_tables(lambda t: t.bytes),
           "schema", "table"),
    _gauge("relay_open_table_behind_seconds", "Seconds that changes have waited for the open table.",
           _open_tables_behind,
           "schema", "table"),
    _gauge("relay_open_table_merge_seconds", "Seconds that the last merge took.", _open_tables(lambda t: t.seconds),
           "schema", "table"),
    _gauge("relay_open_table_stopped", "1 if the open table is no longer merged.",
           _open_tables(lambda t: float(t.stop is not None)), "schema", "table"),
    _counter("relay_log_lines", "Lines logged since the logger started.",
             _value(lambda d: d.log.status.lines if d.log else None)),
    _counter("relay_log_bytes", "Bytes logged since the logger started.",
             _value(lambda d: d.log.status.bytes if d.log else None)),
    # CDC port.
    _gauge("relay_cdc_connections", "Connections to the CDC port.",
           _cdc(lambda s: len(s.streams) + s.left_out), "process"),
    _gauge("relay_cdc_lag_bytes", "Bytes of the journal not yet sent to the slowest stream of the process.",
           _cdc(lambda s: max((stream.lag_bytes for stream in s.streams), default=0)), "process"),
    _gauge("relay_cdc_users_unreadable", "1 if the CDC port's file of users cannot be read.",
           _cdc(lambda s: float(bool(s.trouble))), "process"),
    _counter("relay_cdc_refused_logins", "Logins that the CDC port rejected since the process started.",
             _cdc(lambda s: s.refused), "process"),
    _counter("relay_cdc_rows", "Row images sent by the CDC port since the process started.",
             _cdc(lambda s: s.rows), "process"),
    _counter("relay_cdc_bytes", "Bytes sent by the CDC port since the process started.",
             _cdc(lambda s: s.bytes), "process"),
)  # fmt: skip


def documentation() -> str:
    """Return the table of all metrics in Markdown, as in docs/metrics.md."""
    lines = ["| metric | labels | meaning |", "|---|---|---|"]
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{family.sample_name}` | {labels} | {family.help} |")
    return "\n".join(lines) + "\n"


class Collector:
    """All metrics of one document, for the client library."""

    def __init__(self, document: Stat) -> None:
        self._document = document

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that have samples."""
        for family in FAMILIES:
            metric = family.metric(self._document)
            if metric.samples:
                yield metric


def text(document: Stat) -> bytes:
    """Return the metrics in the format `CONTENT_TYPE`."""
    return generate_latest(Collector(document))
