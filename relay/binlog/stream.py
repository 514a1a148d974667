"""The stream of events from a server, modelled on MySQL's C API: open, fetch, close (WL#7672, mysql_binlog_open).

    replication = Replication(file_name="binlog.000001", server_id=4711)
    with Stream(connection, replication) as stream:
        while stream.fetch() == 0 and replication.size:
            work_on(replication.buffer)

The connection is an authenticated one of PyMySQL; it carries nothing but the stream from `open` on, and can only be
closed afterwards.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from pymysql.connections import Connection

from relay._native import GtidSet, Packets
from relay.base.errors import ErrorCode, StopCode
from relay.binlog.dump import Dump, Request, open_dump
from relay.binlog.events import EventType
from relay.binlog.eventstream import EventStream
from relay.binlog.progress import Progress
from relay.binlog.replication import Flag, Replication
from relay.binlog.rowvalues import Values
from relay.source import commands
from relay.source.commands import FIRST_POSITION
from relay.source.connect import has_unread_result, is_mariadb, is_taken
from relay.source.errors import BinlogError, Misuse, MisuseError, as_binlog_error
from relay.source.failures import SourceLost, classify

_OK: Final = 0x00
_END: Final = 0xFE
_LONGEST_END: Final = 8
_HEARTBEATS: Final = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)
_HEARTBEAT_SECONDS: Final = 10
SILENCE_SECONDS: Final = 3 * _HEARTBEAT_SECONDS  # after which a connection counts as lost
_POLL_SECONDS: Final = 1.0


class Stream(EventStream):
    """A stream from a server, described by a `Replication`. Iteration ends if the stream is non-blocking.

    `values` of rows are text, or "python" objects.
    """

    def __init__(self, connection: Connection[Any], replication: Replication, *, values: Values = "text") -> None:
        super().__init__(replication, values)
        self._connection = connection
        self._packets = Packets()
        self._packet: bytes | None = None  # complete, and not fetched yet
        self._silent = 0.0
        self._progress: Progress | None = None
        self._dump: Dump | None = None
        self._ended = False
        self._error: BinlogError | None = None

    def open(self) -> int:
        """Request the stream from the server. Returns 0.

        Raises `MisuseError` and `DescriptionError`, after which nothing was sent and the connection is unchanged;
        `BinlogError` if the server refuses or cannot be reached: then the connection is closed. A position that the
        server does not have is an error of the first `fetch`, since the server reports it there.
        """
        operation = "open the stream"
        if self._closed:
            raise MisuseError(Misuse.CLOSED, operation)
        if self._dump is not None:
            raise MisuseError(Misuse.ALREADY_OPEN, operation)
        if not isinstance(self._connection, Connection):
            raise TypeError(f"{type(self._connection).__name__} is not a PyMySQL connection")
        if is_taken(self._connection):
            raise MisuseError(Misuse.CONNECTION_TAKEN, operation)
        if not self._connection.open:
            raise MisuseError(Misuse.CONNECTION_CLOSED, operation)
        if has_unread_result(self._connection):
            raise MisuseError(Misuse.UNREAD_RESULT, operation)
        mariadb = is_mariadb(self._connection)
        self.replication.check(mariadb)
        try:
            self._dump = open_dump(self._connection, mariadb, self._request(mariadb), _POLL_SECONDS)
        except SourceLost as lost:
            raise lost_error(lost) from lost
        except BinlogError as error:
            raise as_binlog_error(error) from error
        self._progress = Progress(self.replication, self.decoder)
        return 0

    def fetch(self) -> int:
        """Wait for the next event, and put it into the description: `buffer`, `size`, and the position.

        Returns 0; at the end of a non-blocking stream `size` is 0. Raises `BinlogError` with the server's number and
        text (`size` is -1 then), and `MisuseError` before `open`, after `close` and once the connection is closed.
        """
        replication, progress = self.replication, self._progress
        if progress is None or self._dump is None or self._closed or self._dump.closed:
            _, progress = self._require_open("fetch an event")
        replication.size, replication.buffer, self._event = -1, b"", None
        if self._error is not None:
            raise self._error
        while not self._ended:
            packet, self._packet = self._packet, None
            while packet is None and (packet := self._packets.next()) is None:
                self.receive()
            kind = packet[0] if packet else -1
            if kind == _END and len(packet) <= _LONGEST_END:
                self._ended = True
                break
            if kind != _OK:
                self._fail(packet, progress)
            self._event = progress.advance(packet, 1)
            if packet[5] in _HEARTBEATS and replication.flags & Flag.SKIP_HEARTBEAT:
                continue
            replication.size, replication.buffer = len(packet), packet
            return 0
        replication.size = 0
        return 0

    def close(self) -> None:
        """Close the stream. The connection can only be closed afterwards. Raises `MisuseError` unless open."""
        dump, _ = self._require_open("close the stream", closing=True)
        self._closed = True
        dump.close()

    def fileno(self) -> int:
        """Return the descriptor of the connection, for an event loop: readable when `receive` does not wait."""
        return self._require_open("wait for an event")[0].fileno()

    def ready(self) -> bool:
        """Whether an event has been received, so that `fetch` does not wait."""
        if self._packet is None:
            self._packet = self._packets.next()
        return self._packet is not None

    def receive(self, *, wait: bool = True) -> bool:
        """Receive once, for at most a second, or without `wait` only what is there. Returns whether bytes came.

        Raises `BinlogError` if the connection is lost.
        """
        dump, _ = self._require_open("wait for an event")
        if not wait and not dump.has_more():
            return False
        try:
            received = dump.receive(self._packets.buffer())
        except SourceLost as lost:
            self._error = lost_error(lost)
            raise self._error from lost
        self._packets.received(received)
        self._silent = 0.0 if received else self._silent + _POLL_SECONDS
        if self._silent > SILENCE_SECONDS:
            self._error = lost_error(f"read the binlog: no event and no heartbeat for {self._silent:.0f} s")
            raise self._error
        return received > 0

    def _open_progress(self) -> Progress:
        return self._require_open("fetch an event")[1]

    def _require_open(self, operation: str, *, closing: bool = False) -> tuple[Dump, Progress]:
        if self._closed:
            raise MisuseError(Misuse.CLOSED, operation)
        if self._dump is None or self._progress is None:
            raise MisuseError(Misuse.NOT_OPEN, operation)
        if self._dump.closed and not closing:
            raise MisuseError(Misuse.CONNECTION_CLOSED, operation)
        return self._dump, self._progress

    def _request(self, mariadb: bool) -> Request:
        wanted = self.replication
        by_gtid = bool(wanted.flags & Flag.GTID)
        return Request(
            server_id=wanted.server_id,
            file="" if by_gtid else wanted.file_name,
            position=FIRST_POSITION if by_gtid else wanted.start_position,
            by_gtid=by_gtid,
            gtid_set=str(GtidSet(wanted.gtid_set)),
            encoded_set=GtidSet(wanted.gtid_set).encode() if by_gtid and not mariadb else b"",
            heartbeat_seconds=_HEARTBEAT_SECONDS,
            flags=wanted.flags & 0xFFFF,
        )

    def _fail(self, packet: bytes, progress: Progress) -> NoReturn:
        """Fail the stream with the server's error, now and on every later call."""
        server_error = commands.parse_error(packet)
        if server_error is None:
            self._error = BinlogError(
                StopCode.UNKNOWN_EVENT, "read the binlog", "a packet that is neither an event nor an error",
                position=progress.where, hint="check for a proxy that does not support replication",
            )  # fmt: skip
            raise self._error
        found = classify(server_error, "read the binlog", progress.where)
        self._error = lost_error(found) if isinstance(found, SourceLost) else as_binlog_error(found)
        raise self._error


def lost_error(lost: SourceLost | str) -> BinlogError:
    """Return the error for a lost connection, or for what is wrong with it (`OPERATION: CAUSE`)."""
    operation, _, cause = str(lost).partition(": ")
    server_error = lost.error if isinstance(lost, SourceLost) else None
    errno, text = (server_error.code, server_error.text) if server_error else (0, "")
    return as_binlog_error(BinlogError(ErrorCode.SOURCE_UNREACHABLE, operation, cause, errno=errno, text=text))
