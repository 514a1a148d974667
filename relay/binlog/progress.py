"""Follow the position of a stream event by event: file, position and GTID set. Bytes in, no I/O."""

from __future__ import annotations

import struct
from typing import Final

from relay._native import GtidSet
from relay.base.errors import RelayError, StopCode
from relay.binlog.decoder import Decoder
from relay.binlog.events import (
    Event,
    EventType,
    GtidEvent,
    GtidListEvent,
    HeaderFlag,
    MariadbGtidEvent,
    MariadbGtidFlag,
    PreviousGtidsEvent,
    QueryEvent,
    RotateEvent,
)
from relay.binlog.replication import Flag, Replication
from relay.source.commands import FIRST_POSITION
from relay.source.errors import as_binlog_error

_HEADER: Final = struct.Struct("<4xB4xIIH")  # type, size, end, flags
HEADER_SIZE: Final = 19

# Events that determine the position, or that later events depend on. All others are followed by their headers only.
_DECODED: Final = frozenset({
    EventType.FORMAT_DESCRIPTION, EventType.ROTATE, EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.GTID,
    EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID,
    EventType.GTID_LIST,
})  # fmt: skip
_ARTIFICIAL: Final = int(HeaderFlag.ARTIFICIAL)
_FORMAT_DESCRIPTION: Final = int(EventType.FORMAT_DESCRIPTION)
_HEARTBEATS: Final = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
_ENDS: Final = frozenset({EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD, EventType.INCIDENT})
# Events between transactions.
_BETWEEN: Final = frozenset({
    EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.GTID_LIST, EventType.BINLOG_CHECKPOINT,
    EventType.START_ENCRYPTION, EventType.STOP,
})  # fmt: skip
_FOLLOWED: Final = _ENDS | _BETWEEN


def event_end(at: int, kind: int, size: int, log_pos: int, flags: int) -> int:
    """Return the end of an event that begins after `at`, counted beyond 4 GiB.

    For an event outside of the file, that is `at` itself.

    The header has the low 32 bits of the end, or 0 inside transactions of MariaDB 11.4 and later.
    """
    if flags & _ARTIFICIAL or kind in _HEARTBEATS or (not log_pos and kind == _FORMAT_DESCRIPTION):
        return at
    if not log_pos:
        return at + size
    end = (at & ~0xFFFFFFFF) | log_pos
    return end + (1 << 32) if end + (1 << 31) < at else end


class Progress:
    """Update a description with the events of its stream."""

    def __init__(self, replication: Replication, decoder: Decoder) -> None:
        self._replication = replication
        self._decoder = decoder
        self._gtids = GtidSet(replication.gtid_set)
        self._by_gtid = bool(replication.flags & Flag.GTID)
        self._at = replication.position = FIRST_POSITION if self._by_gtid else replication.start_position
        self._gtid = ""  # of the current transaction
        self._in_transaction = False
        self._explicit = False  # whether the transaction ends with a COMMIT, not with its first statement
        self._start: tuple[str, int] | str = ""  # of the last event, in its parts or in words

    @property
    def event_start(self) -> str:
        """`file:position` of the last event's beginning, for errors; "" before the first event."""
        return self._start if isinstance(self._start, str) else f"{self._start[0]}:{self._start[1]}"

    @property
    def where(self) -> str:
        """`file:position` of the last event's end, for errors; before the first event, where the stream begins."""
        if self._start:
            return f"{self._replication.file_name}:{self._at}"
        if self._by_gtid:
            return f"GTID {self._replication.gtid_set or '(none)'}"
        return f"{self._replication.file_name or 'the oldest file'}:{self._at}"

    def advance(self, data: bytes, begin: int = 0) -> Event | None:
        """Follow one event, which begins at `begin` with its header; return it if it had to be decoded.

        Raises `BinlogError`.
        """
        length = len(data) - begin
        kind, size, log_pos, flags = _HEADER.unpack_from(data, begin) if length >= HEADER_SIZE else (0, -1, 0, 0)
        if size != length:
            cause = f"{length} bytes arrived as an event that declares another size"
            raise as_binlog_error(RelayError(StopCode.UNKNOWN_EVENT, "read the binlog", cause), self.where)
        self._start = (self._replication.file_name, self._at) if self._start else self.where
        event = self.decode(data[begin:]) if kind in _DECODED else None
        self._at = self._replication.position = self._end(kind, size, log_pos, flags)
        if event is not None or kind in _FOLLOWED:
            try:
                self._follow(kind, flags, event)
            except ValueError as error:  # an invalid GTID, or one of another kind than those before
                raise as_binlog_error(
                    RelayError(StopCode.UNKNOWN_EVENT, "read the binlog", error), self.event_start
                ) from error
        return event

    def decode(self, data: bytes) -> Event:
        """Decode the event. Raises `BinlogError` with the position."""
        try:
            return self._decoder.decode(data)
        except RelayError as error:
            raise as_binlog_error(error, self.event_start) from error

    def _end(self, kind: int, size: int, log_pos: int, flags: int) -> int:
        return event_end(self._at, kind, size, log_pos, flags)

    def _follow(self, kind: int, flags: int, event: Event | None) -> None:
        match event:
            case None:
                if kind in _ENDS:
                    self._end_transaction()
            case RotateEvent():
                self._rotate(event)
            case GtidEvent() | MariadbGtidEvent():
                self._gtid = event.gtid
                self._in_transaction = True
                self._explicit = isinstance(event, MariadbGtidEvent) and not event.flags & MariadbGtidFlag.STANDALONE
            case QueryEvent():
                self._statement(event.statement)
            case PreviousGtidsEvent() if not self._by_gtid:
                self._add_earlier_gtids(GtidSet(event.gtid_set))
            case GtidListEvent() if not self._by_gtid and not flags & _ARTIFICIAL:
                newest = {gtid.domain_id: gtid for gtid in event.gtid}  # a domain's newest comes last
                self._add_earlier_gtids(GtidSet(",".join(map(str, newest.values()))))
        if kind in _BETWEEN and not self._in_transaction:
            self._replication.start_position = self._at

    def _rotate(self, event: RotateEvent) -> None:
        self._leave_transaction()
        self._at = event.position
        self._replication.file_name = event.filename
        self._replication.start_position = self._replication.position = event.position

    def _leave_transaction(self) -> None:
        """Leave the transaction: it ended, or the server died within it."""
        self._in_transaction = self._explicit = False
        self._gtid = ""

    def _statement(self, statement: str) -> None:
        words = statement[:20].upper().split()
        if words == ["BEGIN"] or words[:2] in (["XA", "START"], ["XA", "BEGIN"]):
            self._in_transaction = self._explicit = True
        elif words in (["COMMIT"], ["ROLLBACK"]):
            self._end_transaction()
        elif statement[-20:].upper().endswith("START TRANSACTION"):
            self._in_transaction = self._explicit = True  # MySQL's CREATE TABLE ... SELECT: its rows follow
        elif not self._explicit:
            self._end_transaction()

    def _end_transaction(self) -> None:
        if self._gtid:
            self._gtids.add(self._gtid)
            self._replication.gtid_set = str(self._gtids)
        self._leave_transaction()
        self._replication.start_position = self._at

    def _add_earlier_gtids(self, before: GtidSet) -> None:
        """Add the GTIDs before a file, from the file's first events, if they contain all known ones."""
        if self._gtids.issubset(before):
            self._gtids = before
            self._replication.gtid_set = str(before)


class FileProgress(Progress):
    """Like `Progress`, for a file read from disk: positions are offsets in it, and the file stays the same.

    The positions in a relay log, and the files in its ROTATE events, are those of its source.
    """

    def __init__(self, replication: Replication, decoder: Decoder, path: str) -> None:
        self._path = path
        super().__init__(replication, decoder)

    @property
    def where(self) -> str:
        """`path:position` of the last event's end, for errors."""
        return f"{self._path}:{self._at}"

    @property
    def event_start(self) -> str:
        """`path:position` of the last event's beginning, for errors; "" before the first event."""
        return self._start if isinstance(self._start, str) else f"{self._path}:{self._start[1]}"

    def skip_to(self, position: int) -> None:
        """Set the position of the next event."""
        self._at = position

    def _end(self, kind: int, size: int, log_pos: int, flags: int) -> int:
        return self._at + size

    def _rotate(self, event: RotateEvent) -> None:
        self._leave_transaction()
        self._replication.start_position = self._at
