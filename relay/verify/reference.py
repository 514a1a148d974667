"""The reference reader: mysql-replication reads the source's binlog and yields its rows events in commit order.

It reads through a connection of this module, which watches the packets. So positions are right where mysql-replication
loses them, and silently dropped events are noticed. The reader never reads beyond the end, never reconnects on its own,
and continues after an event that it cannot read.
"""

from __future__ import annotations

import logging
import re
import secrets
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent

from relay.base.errors import ErrorCode, RelayError
from relay.binlog.decoder import Decoder
from relay.binlog.dump import replica_uuid
from relay.binlog.events import EventType, TableMapEvent, table_maps
from relay.binlog.events.position import BinlogPosition
from relay.binlog.progress import event_end
from relay.binlog.replication import Flag
from relay.source.commands import ServerError
from relay.source.connect import Account, is_mariadb, settings
from relay.source.failures import classify
from relay.source.login import SourceConnection
from relay.verify import faults
from relay.verify.sides import ROWS, Kind, ReferenceColumn, ReferenceEvent

_OPERATION: Final = "read the binlog with the reference reader"
_HEADER: Final = 20  # OK byte and header of an event in a packet
_CHECKSUM: Final = 4
_DUMP: Final = 0x12
_FLAGS: Final = slice(9, 11)  # of that command, in its packet
_XA: Final = re.compile(rb"XA (START|BEGIN|COMMIT|ROLLBACK) (X'[0-9a-f]*',X'[0-9a-f]*',)", re.IGNORECASE)
_NO_TABLE: Final = 0xFFFFFF  # in a rows event that only ends a statement
_READ_SECONDS: Final = 60


_COMPRESSED_ROWS: Final = frozenset(range(166, 172))
_EXAMINED: Final = ROWS.keys() | {EventType.QUERY, EventType.TABLE_MAP, EventType.XA_PREPARE, EventType.MARIADB_GTID}
_DEFINING_EVENTS: Final = frozenset({
    EventType.FORMAT_DESCRIPTION, EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.MARIADB_GTID,
    EventType.TABLE_MAP, EventType.INCIDENT,
})  # fmt: skip
"""Events that define tables, which mysql-replication skips."""
_GTIDS: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID})
_MARIADB_FLAGS: Final = 12  # offset in a GTID event
_PREPARES: Final = 64  # MariadbGtidFlag.PREPARED_XA; on MySQL a statement begins an XA transaction
_XID_AT: Final = 13  # offset in XA_PREPARE


class Reached(Exception):
    """The end of the range is reached. Nothing after it is read."""


class _Packet(NamedTuple):
    """An event in the stream. Only the few types that are examined have a `body`."""

    code: int
    start: BinlogPosition
    end: BinlogPosition
    body: bytes
    names: tuple[str, ...] = ()  # of a table map's columns, as known from the stream so far


class _Watcher:
    """Watch the packets of the stream."""

    def __init__(self, start: BinlogPosition, end: BinlogPosition, checksum: int) -> None:
        self.position = start
        self._end = end
        self._checksum = checksum
        self._decoder = Decoder(bool(checksum))
        self.packets: list[_Packet] = []
        self.code: int | None = None  # of the last event

    def check_end(self) -> None:
        """Raise `Reached` at the end of the range."""
        if self._end <= self.position:
            raise Reached

    def record(self, data: bytes) -> None:
        """Record an event from its packet."""
        if len(data) < _HEADER or data[0] != 0:
            return
        self.code = code = data[5]
        size, position, flags = struct.unpack_from("<IIH", data, 10)
        if code == EventType.ROTATE:
            (position,) = struct.unpack_from("<Q", data, _HEADER)
            self.position = BinlogPosition(data[_HEADER + 8 : len(data) - self._checksum].decode(), position)
            return
        if code == EventType.FORMAT_DESCRIPTION:
            self._check_checksums(bool(data[-_CHECKSUM - 1]))
        names = self._names(data) if code in _DEFINING_EVENTS else ()
        start = self.position
        end = event_end(start.position, code, size, position, flags)
        if end == start.position:
            return
        self.position = BinlogPosition(start.file, max(end, start.position))
        body = data[_HEADER : len(data) - self._checksum] if code in _EXAMINED else b""
        self.packets.append(_Packet(code, start, BinlogPosition(start.file, end), body, names))

    def _names(self, data: bytes) -> tuple[str, ...]:
        try:
            event = self._decoder.decode(memoryview(data)[1:])
        except RelayError:  # the journal's side or the reference reader reports it
            return ()
        described = event.definition if isinstance(event, TableMapEvent) else None
        return tuple(column.name for column in described.columns) if described else ()

    def _check_checksums(self, checksums: bool) -> None:
        if checksums == bool(self._checksum):
            return
        cause = (
            f"{self.position.file} was written {'with' if checksums else 'without'} checksums, unlike the current files"
            " of the source, and the reference reader expects the same in all files"
        )
        hint = "compare files of one binlog_checksum at a time, while the source uses it"
        raise RelayError(ErrorCode.UNVERIFIED, _OPERATION, cause, position=str(self.position), hint=hint)


class _Connection(SourceConnection):
    """The connection of the reference reader. Like mysql-replication, it uses private methods of PyMySQL."""

    def __init__(self, watcher: _Watcher, account: Account, **options: Any) -> None:
        self._watcher = watcher
        self._greeted = self._streams = False
        super().__init__(account, **options)
        self._greeted = True

    def _write_bytes(self, data: bytes) -> None:
        self._streams = self._greeted and data[4] == _DUMP
        if self._streams and is_mariadb(self):
            # As in the relay's reader: positions in a transaction are counted from the received events, annotations
            # included.
            flags = int.from_bytes(data[_FLAGS], "little") | Flag.SEND_ANNOTATE_ROWS
            data = data[: _FLAGS.start] + flags.to_bytes(2, "little") + data[_FLAGS.stop :]
        super()._write_bytes(data)  # type: ignore[misc]

    def _read_packet(self, *arguments: Any) -> Any:
        if not self._streams:
            return super()._read_packet(*arguments)  # type: ignore[no-untyped-call]
        self._watcher.check_end()
        try:
            packet = super()._read_packet()  # type: ignore[no-untyped-call]
        except pymysql.MySQLError as error:
            # Not a PyMySQL error: mysql-replication would reconnect and yield rows twice.
            raise _lost(error, self._watcher.position) from error
        self._watcher.record(packet.get_all_data())
        return packet


class ReferenceReader:
    """Read from `start`, a boundary between transactions, to `end`."""

    def __init__(
        self, account: Account, start: BinlogPosition, end: BinlogPosition, checksum: str, server_id: int
    ) -> None:
        """`checksum` is the source's binlog_checksum; `server_id` must not be in use."""
        self._account = account
        self._watcher = _Watcher(start, end, 0 if checksum == "NONE" else _CHECKSUM)
        self._maps: dict[int, _Packet] = {}
        self._unread: dict[int, str] = {}  # why the table map could not be read
        self._xa = False  # whether an XA transaction is open
        self._xa_rows: list[ReferenceEvent] = []
        self._prepared: dict[bytes, list[ReferenceEvent]] = {}
        self.rolled_back = 0
        # This module reports the same with more detail.
        logging.getLogger("pymysqlreplication").setLevel(logging.CRITICAL + 1)
        self._reader = BinLogStreamReader(
            connection_settings=settings(account) | {"read_timeout": _READ_SECONDS},
            server_id=server_id,
            slave_uuid=replica_uuid(server_id),
            log_file=start.file,
            log_pos=start.position,
            resume_stream=True,
            blocking=False,
            # mysql-replication misreads other events, or fails at them: they are not decoded.
            only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent, PartialUpdateRowsEvent],
            # An unknown character set then costs single characters, not the whole event.
            ignore_decode_errors=True,
            enable_logging=False,
            pymysql_wrapper=self._connect,
        )

    @property
    def position(self) -> BinlogPosition:
        """The position that it has reached."""
        return self._watcher.position

    @property
    def prepared(self) -> int:
        """Rows of XA transactions that were prepared in the range and not ended in it."""
        return sum(len(seen.rows or ()) for group in self._prepared.values() for seen in group)

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()

    def events(self) -> Iterator[ReferenceEvent]:
        """Yield the events read. Raises `RelayError` if the connection ends before the range does."""
        while True:
            event, failure = None, None
            try:
                event = self._reader.fetchone()
            except Reached:
                yield from self._interpret(None, None)
                return
            except RelayError:
                raise
            except Exception as error:
                if self._watcher.code not in ROWS and self._watcher.code != EventType.TABLE_MAP:
                    raise _lost(error, self.position) from error
                failure = error
            else:
                if event is None:
                    raise _lost("the source ended the stream", self.position)
            yield from self._interpret(event, failure)

    def _connect(self, **options: Any) -> _Connection:
        if "db" in options:  # PyMySQL has renamed it, and warns
            options["database"] = options.pop("db")
        return _Connection(self._watcher, self._account, **options)

    def _interpret(self, event: Any, failure: Exception | None) -> Iterator[ReferenceEvent]:
        """Interpret the packets since the last call. The last one belongs to the event or the failure."""
        packets, self._watcher.packets = self._watcher.packets, []
        for number, packet in enumerate(packets, 1):
            last = number == len(packets)
            if packet.code == EventType.TABLE_MAP:
                self._add_table_map(packet, failure if last else None)
            elif packet.code == EventType.QUERY:
                yield from self._query(packet)
            elif packet.code in _GTIDS:
                self._xa_rows = []
                self._xa = packet.code == EventType.MARIADB_GTID and bool(packet.body[_MARIADB_FLAGS] & _PREPARES)
            elif packet.code == EventType.XA_PREPARE and self._xa:
                yield from self._prepare(packet)
            elif packet.code == EventType.TRANSACTION_PAYLOAD:
                yield self._without_rows(packet, faults.COMPRESSED_TRANSACTION)
            elif packet.code in ROWS:
                seen = self._rows(packet, event if last else None, failure if last else None)
                if seen is None:
                    continue
                if self._xa:
                    self._xa_rows.append(seen)
                else:
                    yield seen

    def _add_table_map(self, packet: _Packet, failure: Exception | None) -> None:
        table_id = int.from_bytes(packet.body[:6], "little")
        self._maps[table_id] = packet
        self._unread.pop(table_id, None)
        if failure is not None:
            self._unread[table_id] = _error_text(failure)

    def _prepare(self, packet: _Packet) -> Iterator[ReferenceEvent]:
        group, self._xa_rows, self._xa = self._xa_rows, [], False
        one_phase, _, first, second = struct.unpack_from("<BIII", packet.body)
        if one_phase:  # committed at once
            yield from (seen._replace(commit_position=packet.end) for seen in group)
            return
        xid = packet.body[_XID_AT : _XID_AT + first + second].hex()
        self._prepared[f"X'{xid[: 2 * first]}',X'{xid[2 * first :]}',".encode()] = group

    def _query(self, packet: _Packet) -> Iterator[ReferenceEvent]:
        database, status = packet.body[8], int.from_bytes(packet.body[11:13], "little")
        found = _XA.match(packet.body, 13 + status + database + 1)
        if not found:
            return
        command, xid = found[1].upper(), found[2]
        if command in (b"START", b"BEGIN"):
            self._xa, self._xa_rows = True, []
        elif xid not in self._prepared:
            if command == b"COMMIT":
                yield self._without_rows(packet)
        else:
            group = self._prepared.pop(xid)
            if command == b"ROLLBACK":
                self.rolled_back += sum(len(seen.rows or ()) for seen in group)
                return
            for seen in group:
                # The journal has them in the transaction of the XA COMMIT, which may be in a later file.
                position = BinlogPosition(packet.end.file, seen.position.position)
                yield seen._replace(commit_position=packet.end, position=position)

    def _rows(self, packet: _Packet, event: Any, failure: Exception | None) -> ReferenceEvent | None:
        table_id = int.from_bytes(packet.body[:6], "little")
        if table_id == _NO_TABLE:
            return None
        mapped = self._maps.get(table_id)
        seen = self._without_rows(packet, table_map=mapped.body if mapped else b"")
        seen = seen._replace(names=mapped.names if mapped else ())
        if packet.code in _COMPRESSED_ROWS:
            return seen._replace(fault=faults.COMPRESSED_ROWS)
        if table_id in self._unread:
            return seen._replace(fault=faults.DIED, detail=self._unread[table_id])
        if failure is not None:
            return seen._replace(fault=faults.DIED, detail=_error_text(failure))
        if event is None:
            return seen._replace(fault=faults.DROPPED)
        columns = [_column(column) for column in event.columns]
        try:
            rows = [_images(row, ROWS[packet.code]) for row in event.rows]
        except Exception as error:
            return seen._replace(columns=columns, fault=faults.DIED, detail=_error_text(error))
        return seen._replace(columns=columns, rows=rows)

    def _without_rows(self, packet: _Packet, fault: str = "", table_map: bytes = b"") -> ReferenceEvent:
        schema, table = table_maps.table_name(table_map, str(packet.start)) if table_map else ("", "")
        return ReferenceEvent(packet.end, packet.end, packet.code, schema, table, table_map, [], None, fault)


def choose_server_id(taken: set[int], random: Callable[[int], int] = secrets.randbelow) -> int:
    """Choose an id in the half that the relay never uses, and that is not in `taken`."""
    while True:
        chosen = 2**31 + random(2**31 - 1)
        if chosen not in taken:
            return chosen


def _column(column: Any) -> ReferenceColumn:
    labels = tuple((column.enum_values or [])[1:]) or tuple(column.set_values or ())
    return ReferenceColumn(column.type, column.name, column.character_set_name, labels)


def _images(row: dict[str, Any], kind: int) -> tuple[list[Any] | None, list[Any] | None]:
    if kind == Kind.UPDATE:
        return list(row["before_values"].values()), list(row["after_values"].values())
    values = list(row["values"].values())
    return (None, values) if kind == Kind.INSERT else (values, None)


def _error_text(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _lost(error: Exception | str, position: BinlogPosition) -> RelayError:
    if isinstance(error, pymysql.MySQLError) and len(error.args) > 1 and isinstance(error.args[0], int):
        judged = classify(ServerError(error.args[0], "", str(error.args[1])), _OPERATION, str(position))
        if isinstance(judged, RelayError):
            return judged
    cause = error if isinstance(error, str) else _error_text(error)
    return RelayError(ErrorCode.UNVERIFIED, _OPERATION, cause, position=str(position))
