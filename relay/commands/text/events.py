"""Binlog events and their rows as lines of text or JSON. Pure: structs in, text out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from relay.base.errors import printable
from relay.binlog import events
from relay.binlog.events import Event, EventType, RowsEvent
from relay.binlog.eventstream import EventStream
from relay.binlog.rowvalues import Row, Values
from relay.protocol import debezium

_KINDS: Final = {
    events.WriteRowsEvent: "insert",
    events.UpdateRowsEvent: "update",
    events.PartialUpdateRowsEvent: "update",
    events.DeleteRowsEvent: "delete",
}
_NAMES: Final[Mapping[int, str]] = {kind.value: kind.name for kind in EventType}
_MARGIN: Final = " " * 12


class Form(msgspec.Struct, frozen=True):
    """What is shown, and how."""

    tables: tuple[str, ...] = ()  # patterns of SCHEMA.TABLE: only row events of these tables; none: all events
    rows: bool = False  # with the values of rows
    json: bool = False
    debezium: bool = False  # rows alone, in Debezium's envelope
    width: int = 0  # columns at which lines are cut; 0: not at all

    @property
    def values(self) -> Values:
        """What values of rows it needs."""
        return "python" if self.debezium else "msgpack" if self.json else "text"

    def shows(self, schema: str, table: str) -> bool:
        """Whether row events of this table are shown."""
        return not self.tables or any(fnmatchcase(f"{schema}.{table}", pattern) for pattern in self.tables)


def lines(stream: EventStream, form: Form) -> Iterator[str]:
    """Yield the events as lines, with `Form.rows` also the rows. Events of a compressed transaction are separate lines.

    Raises what iterating over the stream and its `rows` raise.
    """
    shown: tuple[str, str] | None = None
    gtid = ""
    for outer in stream:
        inner = outer.events if isinstance(outer, events.TransactionPayloadEvent) else ()
        for event in (outer, *inner):
            if isinstance(event, events.GtidEvent | events.MariadbGtidEvent):
                gtid = str(event.gtid)
            if form.tables and not _is_of_table(event, form):
                continue
            if form.debezium:
                yield from _envelopes(stream, event, gtid)
                continue
            if form.json:
                yield from _documents(stream, event, form.rows)
                continue
            here = stream.replication.file_name, _time(outer, "%Y-%m-%d")
            # A ROTATE is between files. Events that the sending thread makes have no time.
            if here[1] and here != shown and not isinstance(outer, events.RotateEvent):
                yield f"-- {printable(here[0])}  {here[1]}"
                shown = here
            for line in _text(stream, event, form.rows):
                yield line if not form.width or len(line) <= form.width else line[: form.width - 1] + "…"


def _is_of_table(event: Event, form: Form) -> bool:
    """Whether the event has rows of a table that is shown."""
    table = event.table_map if isinstance(event, RowsEvent) else None
    return table is not None and form.shows(table.database, table.table)


def _documents(stream: EventStream, event: Event, rows: bool) -> Iterator[str]:
    """Yield an event with all its fields, or its rows one by one; bytes are base64."""
    position: dict[str, object] = {"file": stream.replication.file_name, "position": stream.replication.position}
    if rows and isinstance(event, RowsEvent) and event.table_map is not None:
        table = {"schema": event.table_map.database, "table": event.table_map.table}
        for row in stream.rows(event):
            change = {"kind": _KINDS[type(event)], **table, "before": row.before, "after": row.after}
            yield msgspec.json.encode(position | change).decode()
    else:
        yield msgspec.json.encode(position | {"event": event}).decode()


def _envelopes(stream: EventStream, event: Event, gtid: str) -> Iterator[str]:
    """Yield the rows of an event in Debezium's envelope; no line for other events."""
    if not isinstance(event, RowsEvent) or event.table_map is None:
        return
    source = {
        "name": "relay",
        "db": event.table_map.database,
        "table": event.table_map.table,
        "ts_ms": event.header.timestamp * 1000,
        "server_id": event.header.server_id,
        "gtid": gtid or None,
        "file": stream.replication.file_name,
        "pos": stream.replication.position,
    }
    for number, row in enumerate(stream.rows(event)):
        document = debezium.envelope(row.before, row.after, source | {"row": number}, time.time_ns() // 1_000_000)
        yield msgspec.json.encode(document).decode()


def _text(stream: EventStream, event: Event, rows: bool) -> Iterator[str]:
    kind = event.header.event_type
    name = _NAMES.get(kind, f"type {kind}")
    summary = " ".join(printable(_SUMMARIES.get(type(event), lambda _: "")(event)).split())
    not_in_file = event.header.flags & events.HeaderFlag.ARTIFICIAL or isinstance(event, events.RotateEvent)
    position = "" if not_in_file else stream.replication.position
    yield f"{position:>10}  {_time(event, '%H:%M:%S'):<8}  {name:<18} {summary}".rstrip()
    if rows and isinstance(event, RowsEvent):
        kind_of_row = _KINDS[type(event)]
        for row in stream.rows(event):
            yield f"{_MARGIN}{kind_of_row:<8}  {_changes(row)}"


def _changes(row: Row) -> str:
    """Return the values of an insert or delete; of an update, the first column and what changed.

    The first column identifies the row.
    """
    if row.before is None or row.after is None:
        return ", ".join(
            f"{printable(name)}={_value(value)}" for name, value in (row.after or row.before or {}).items()
        )
    shown = []
    for name in dict.fromkeys((*row.before, *row.after)):
        before, after = (_value(side[name]) if name in side else "?" for side in (row.before, row.after))
        if before != after:
            shown.append(f"{printable(name)}: {before} -> {after}")
        elif not shown:
            shown.append(f"{printable(name)}={before}")
    return ", ".join(shown)


def _value(value: str | bytes | None) -> str:
    if value is None:
        return "NULL"
    return f"0x{value.hex()}" if isinstance(value, bytes) else printable(value)


def _time(event: Event, form: str) -> str:
    return datetime.fromtimestamp(event.header.timestamp, UTC).strftime(form) if event.header.timestamp else ""


def _of_table(event: RowsEvent) -> str:
    table = event.table_map
    name = f"{table.database}.{table.table}" if table else f"table {event.table_id}"
    return f"{name}, {event.row_data_size:,} bytes"


def _statement(event: events.QueryEvent) -> str:
    return f"[{event.database}] {event.statement}" if event.database else event.statement


def _format(event: events.FormatDescriptionEvent) -> str:
    checks = {None: "no checksums", 0: "no checksums", 1: "CRC-32"}.get(event.checksum_algorithm, "other checksums")
    return f"server {event.server_version}, {checks}"


# The summary of each event as text; JSON has all its fields.
_SUMMARIES: Final[Mapping[type, Callable[[Any], str]]] = {
    events.AnnotateRowsEvent: lambda e: e.statement,
    events.AnonymousGtidEvent: lambda e: "none",
    events.AppendBlockEvent: lambda e: f"file {e.file_id}, {len(e.block_data):,} bytes",
    events.BeginLoadQueryEvent: lambda e: f"file {e.file_id}, {len(e.block_data):,} bytes",
    events.BinlogCheckpointEvent: lambda e: e.filename,
    events.DeleteFileEvent: lambda e: f"file {e.file_id}",
    events.DeleteRowsEvent: _of_table,
    events.ExecuteLoadQueryEvent: _statement,
    events.FormatDescriptionEvent: _format,
    events.GtidEvent: lambda e: e.gtid,
    events.GtidListEvent: lambda e: ",".join(map(str, e.gtid)) or "none",
    events.GtidTaggedEvent: lambda e: e.gtid,
    events.HeartbeatEvent: lambda e: e.filename,
    events.HeartbeatV2Event: lambda e: f"{e.filename}:{e.position}",
    events.IncidentEvent: lambda e: e.message,
    events.IntvarEvent: lambda e: f"{'LAST_INSERT_ID' if e.type == 1 else 'INSERT_ID'} = {e.value}",
    events.MariadbGtidEvent: lambda e: e.gtid,
    events.PartialUpdateRowsEvent: _of_table,
    events.PreviousGtidsEvent: lambda e: e.gtid_set or "none",
    events.QueryCompressedEvent: _statement,
    events.QueryEvent: _statement,
    events.RandEvent: lambda e: f"{e.first_seed}, {e.second_seed}",
    events.RotateEvent: lambda e: f"to {e.filename}:{e.position}",
    events.RowsQueryEvent: lambda e: e.statement,
    events.TableMapEvent: lambda e: f"{e.database}.{e.table}, {e.column_count} column{'s'[: e.column_count != 1]}",
    events.TransactionPayloadEvent: lambda e: f"{e.uncompressed_size:,} bytes in {e.payload_size:,}",
    events.UnknownEvent: lambda e: f"{len(e.body):,} bytes",
    events.UpdateRowsEvent: _of_table,
    events.UserVarEvent: lambda e: f"@{e.name} = {'NULL' if e.is_null else '0x' + e.value.hex()}",
    events.WriteRowsEvent: _of_table,
    events.XaPrepareEvent: lambda e: str(e.xid),
    events.XidEvent: lambda e: f"COMMIT, {e.transaction_nr}",
}
