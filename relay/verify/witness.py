"""The witness: mysql-replication reads the source's binlog once more, and tells its rows events in the order in which
they were committed.

It reads through a connection of ours that watches the packets go by. So positions are right where it loses them, what
it drops without a word is seen, it never reads beyond the end or reconnects on its own, and it goes on after an event
that it cannot read.
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

from relay.binlog import tablemap
from relay.binlog.commands import ServerError
from relay.binlog.connect import Account, is_mariadb, settings
from relay.binlog.decoder import Decoder
from relay.binlog.dump import replica_uuid
from relay.binlog.events import EventType, TableMapEvent
from relay.binlog.failures import judge
from relay.binlog.login import SourceConnection
from relay.binlog.place import Place
from relay.binlog.progress import event_end
from relay.binlog.replication import Flag
from relay.errors import ErrorCode, RelayError
from relay.verify import faults
from relay.verify.sides import ROWS, Kind, Seen, WitnessColumn

_OPERATION: Final = "have the witness read the binlog"
_HEADER: Final = 20  # of an event in a packet, behind the OK byte
_CHECKSUM: Final = 4
_DUMP: Final = 0x12
_FLAGS: Final = slice(9, 11)  # of that command, in its packet
_XA: Final = re.compile(rb"XA (START|BEGIN|COMMIT|ROLLBACK) (X'[0-9a-f]*',X'[0-9a-f]*',)", re.IGNORECASE)
_NO_TABLE: Final = 0xFFFFFF  # of a rows event that only ends a statement
_READ_SECONDS: Final = 60


_COMPRESSED_ROWS: Final = frozenset(range(166, 172))
_LOOKED_INTO: Final = ROWS.keys() | {EventType.QUERY, EventType.TABLE_MAP, EventType.XA_PREPARE, EventType.MARIADB_GTID}
_TELLING: Final = frozenset({
    EventType.FORMAT_DESCRIPTION, EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.MARIADB_GTID,
    EventType.TABLE_MAP, EventType.INCIDENT,
})  # fmt: skip
"""What definitions are known by, which the witness passes by."""
_GTIDS: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID})
_MARIADB_FLAGS: Final = 12  # of a GTID
_PREPARES: Final = 64  # among them: an XA transaction up to its XA PREPARE, which MySQL begins by a statement
_XID_AT: Final = 13  # in XA_PREPARE


class Reached(Exception):
    """The end of the range; nothing of what comes after it is read."""


class _Packet(NamedTuple):
    """An event that went by. `body` is there for the few that are looked into."""

    code: int
    start: Place
    end: Place
    body: bytes
    names: tuple[str, ...] = ()  # of a table map's columns, as the stream so far tells them


class _Tap:
    """Watches the packets of the stream."""

    def __init__(self, start: Place, end: Place, checksum: int) -> None:
        self.place = start
        self._end = end
        self._checksum = checksum
        self._decoder = Decoder(bool(checksum))
        self.passed: list[_Packet] = []
        self.code: int | None = None  # of the last event

    def before(self) -> None:
        """Raises `Reached` at the end of the range."""
        if self._end <= self.place:
            raise Reached

    def after(self, data: bytes) -> None:
        """Note an event by its packet."""
        if len(data) < _HEADER or data[0] != 0:
            return
        self.code = code = data[5]
        size, position, flags = struct.unpack_from("<IIH", data, 10)
        if code == EventType.ROTATE:
            (position,) = struct.unpack_from("<Q", data, _HEADER)
            self.place = Place(data[_HEADER + 8 : len(data) - self._checksum].decode(), position)
            return
        if code == EventType.FORMAT_DESCRIPTION:
            self._check(bool(data[-_CHECKSUM - 1]))
        names = self._names(data) if code in _TELLING else ()
        start = self.place
        end = event_end(start.position, code, size, position, flags)
        if end == start.position:
            return
        self.place = Place(start.file, max(end, start.position))
        body = data[_HEADER : len(data) - self._checksum] if code in _LOOKED_INTO else b""
        self.passed.append(_Packet(code, start, Place(start.file, end), body, names))

    def _names(self, data: bytes) -> tuple[str, ...]:
        try:
            event = self._decoder.decode(memoryview(data)[1:])
        except RelayError:  # the journal's side, or the witness, says what is wrong with it
            return ()
        described = event.definition if isinstance(event, TableMapEvent) else None
        return tuple(column.name for column in described.columns) if described else ()

    def _check(self, checksums: bool) -> None:
        if checksums == bool(self._checksum):
            return
        cause = (
            f"{self.place.file} was written {'with' if checksums else 'without'} checksums, unlike what the source"
            " writes now, which the witness takes for all files"
        )
        hint = "compare files of one binlog_checksum at a time, while the source has that"
        raise RelayError(ErrorCode.UNVERIFIED, _OPERATION, cause, position=str(self.place), hint=hint)


class _Connection(SourceConnection):
    """The connection that the witness reads through; like the witness it uses PyMySQL's privates."""

    def __init__(self, tap: _Tap, account: Account, **options: Any) -> None:
        self._tap = tap
        self._greeted = self._streams = False
        super().__init__(account, **options)
        self._greeted = True

    def _write_bytes(self, data: bytes) -> None:
        self._streams = self._greeted and data[4] == _DUMP
        if self._streams and is_mariadb(self):
            # As the reader has it: positions in a transaction are counted by what comes, annotations among them.
            flags = int.from_bytes(data[_FLAGS], "little") | Flag.SEND_ANNOTATE_ROWS
            data = data[: _FLAGS.start] + flags.to_bytes(2, "little") + data[_FLAGS.stop :]
        super()._write_bytes(data)  # type: ignore[misc]

    def _read_packet(self, *arguments: Any) -> Any:
        if not self._streams:
            return super()._read_packet(*arguments)  # type: ignore[no-untyped-call]
        self._tap.before()
        try:
            packet = super()._read_packet()  # type: ignore[no-untyped-call]
        except pymysql.MySQLError as error:
            # Not as an error of PyMySQL's: the witness would connect again, and tell rows twice.
            raise _lost(error, self._tap.place) from error
        self._tap.after(packet.get_all_data())
        return packet


class Witness:
    """Reads from `start`, a boundary between transactions, to `end`."""

    def __init__(self, account: Account, start: Place, end: Place, checksum: str, server_id: int) -> None:
        """`checksum` is the source's binlog_checksum; `server_id` has to be nobody else's."""
        self._account = account
        self._tap = _Tap(start, end, 0 if checksum == "NONE" else _CHECKSUM)
        self._maps: dict[int, _Packet] = {}
        self._unread: dict[int, str] = {}  # why it could not read the map of a table
        self._xa = False  # whether an XA transaction is open
        self._held: list[Seen] = []
        self._prepared: dict[bytes, list[Seen]] = {}
        self.rolled_back = 0
        # It says on the log what is known here better.
        logging.getLogger("pymysqlreplication").setLevel(logging.CRITICAL + 1)
        self._reader = BinLogStreamReader(
            connection_settings=settings(account) | {"read_timeout": _READ_SECONDS},
            server_id=server_id,
            slave_uuid=replica_uuid(server_id),
            log_file=start.file,
            log_pos=start.position,
            resume_stream=True,
            blocking=False,
            # Events of other types it only gets wrong, or dies of: they are not looked into.
            only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent, PartialUpdateRowsEvent],
            # Text of a charset that it does not know costs it single characters then, and not the whole event.
            ignore_decode_errors=True,
            enable_logging=False,
            pymysql_wrapper=self._connect,
        )

    @property
    def place(self) -> Place:
        """How far it has come."""
        return self._tap.place

    @property
    def prepared(self) -> int:
        """Rows of XA transactions that were prepared in the range, and not ended in it."""
        return sum(len(seen.rows or ()) for group in self._prepared.values() for seen in group)

    def close(self) -> None:
        """Close its connections."""
        self._reader.close()

    def sightings(self) -> Iterator[Seen]:
        """What it sees. Raises `RelayError` where its connection ends before the range does."""
        while True:
            event, failure = None, None
            try:
                event = self._reader.fetchone()
            except Reached:
                yield from self._settle(None, None)
                return
            except RelayError:
                raise
            except Exception as error:
                if self._tap.code not in ROWS and self._tap.code != EventType.TABLE_MAP:
                    raise _lost(error, self.place) from error
                failure = error
            else:
                if event is None:
                    raise _lost("the source ended the stream", self.place)
            yield from self._settle(event, failure)

    def _connect(self, **options: Any) -> _Connection:
        if "db" in options:  # which PyMySQL calls by another name now, and warns of
            options["database"] = options.pop("db")
        return _Connection(self._tap, self._account, **options)

    def _settle(self, event: Any, failure: Exception | None) -> Iterator[Seen]:
        """What the packets since the last time mean: the last of them is the event's, or that which failed."""
        passed, self._tap.passed = self._tap.passed, []
        for number, packet in enumerate(passed, 1):
            last = number == len(passed)
            if packet.code == EventType.TABLE_MAP:
                self._map(packet, failure if last else None)
            elif packet.code == EventType.QUERY:
                yield from self._query(packet)
            elif packet.code in _GTIDS:
                self._held = []
                self._xa = packet.code == EventType.MARIADB_GTID and bool(packet.body[_MARIADB_FLAGS] & _PREPARES)
            elif packet.code == EventType.XA_PREPARE and self._xa:
                yield from self._prepare(packet)
            elif packet.code == EventType.TRANSACTION_PAYLOAD:
                yield self._blind(packet, faults.COMPRESSED_TRANSACTION)
            elif packet.code in ROWS:
                seen = self._rows(packet, event if last else None, failure if last else None)
                if seen is None:
                    continue
                if self._xa:
                    self._held.append(seen)
                else:
                    yield seen

    def _map(self, packet: _Packet, failure: Exception | None) -> None:
        table_id = int.from_bytes(packet.body[:6], "little")
        self._maps[table_id] = packet
        self._unread.pop(table_id, None)
        if failure is not None:
            self._unread[table_id] = _words(failure)

    def _prepare(self, packet: _Packet) -> Iterator[Seen]:
        group, self._held, self._xa = self._held, [], False
        one_phase, _, first, second = struct.unpack_from("<BIII", packet.body)
        if one_phase:  # committed at once
            yield from (seen._replace(at=packet.end) for seen in group)
            return
        xid = packet.body[_XID_AT : _XID_AT + first + second].hex()
        self._prepared[f"X'{xid[: 2 * first]}',X'{xid[2 * first :]}',".encode()] = group

    def _query(self, packet: _Packet) -> Iterator[Seen]:
        database, status = packet.body[8], int.from_bytes(packet.body[11:13], "little")
        found = _XA.match(packet.body, 13 + status + database + 1)
        if not found:
            return
        verb, xid = found[1].upper(), found[2]
        if verb in (b"START", b"BEGIN"):
            self._xa, self._held = True, []
        elif xid not in self._prepared:
            if verb == b"COMMIT":
                yield self._blind(packet)
        else:
            group = self._prepared.pop(xid)
            if verb == b"ROLLBACK":
                self.rolled_back += sum(len(seen.rows or ()) for seen in group)
                return
            for seen in group:
                # The journal has them in the XA COMMIT's transaction, which may be in a later file.
                yield seen._replace(at=packet.end, place=Place(packet.end.file, seen.place.position))

    def _rows(self, packet: _Packet, event: Any, failure: Exception | None) -> Seen | None:
        table_id = int.from_bytes(packet.body[:6], "little")
        if table_id == _NO_TABLE:
            return None
        mapped = self._maps.get(table_id)
        seen = self._blind(packet, table_map=mapped.body if mapped else b"")
        seen = seen._replace(names=mapped.names if mapped else ())
        if packet.code in _COMPRESSED_ROWS:
            return seen._replace(fault=faults.COMPRESSED_ROWS)
        if table_id in self._unread:
            return seen._replace(fault=faults.DIED, detail=self._unread[table_id])
        if failure is not None:
            return seen._replace(fault=faults.DIED, detail=_words(failure))
        if event is None:
            return seen._replace(fault=faults.DROPPED)
        columns = [_column(column) for column in event.columns]
        try:
            rows = [_images(row, ROWS[packet.code]) for row in event.rows]
        except Exception as error:
            return seen._replace(columns=columns, fault=faults.DIED, detail=_words(error))
        return seen._replace(columns=columns, rows=rows)

    def _blind(self, packet: _Packet, fault: str = "", table_map: bytes = b"") -> Seen:
        schema, table = tablemap.table_name(table_map, str(packet.start)) if table_map else ("", "")
        start, end = packet.start.position, packet.end
        return Seen(end, end, start, packet.code, schema, table, table_map, [], None, fault)


def choose_server_id(taken: set[int], random: Callable[[int], int] = secrets.randbelow) -> int:
    """An id in the half that the relay never chooses from, and that is not among those `taken`."""
    while True:
        chosen = 2**31 + random(2**31 - 1)
        if chosen not in taken:
            return chosen


def _column(column: Any) -> WitnessColumn:
    labels = tuple((column.enum_values or [])[1:]) or tuple(column.set_values or ())
    return WitnessColumn(column.type, column.name, column.character_set_name, labels)


def _images(row: dict[str, Any], kind: int) -> tuple[list[Any] | None, list[Any] | None]:
    if kind == Kind.UPDATE:
        return list(row["before_values"].values()), list(row["after_values"].values())
    values = list(row["values"].values())
    return (None, values) if kind == Kind.INSERT else (values, None)


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _lost(error: Exception | str, place: Place) -> RelayError:
    if isinstance(error, pymysql.MySQLError) and len(error.args) > 1 and isinstance(error.args[0], int):
        judged = judge(ServerError(error.args[0], "", str(error.args[1])), _OPERATION, str(place))
        if isinstance(judged, RelayError):
            return judged
    cause = error if isinstance(error, str) else _words(error)
    return RelayError(ErrorCode.UNVERIFIED, _OPERATION, cause, position=str(place))
