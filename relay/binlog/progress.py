"""Where a stream stands: file, position and GTID set, followed event by event. Bytes in, no I/O."""

from __future__ import annotations

import struct
from typing import Final

from relay._native import GtidSet
from relay.binlog.commands import FIRST_POSITION
from relay.binlog.decoder import Decoder
from relay.binlog.errors import for_callers
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
from relay.errors import RelayError, StopCode

_HEADER: Final = struct.Struct("<4xB4xIIH")  # type, size, end, flags
HEADER_SIZE: Final = 19

# What says where a stream stands, and what later events need to be read; all else is passed by its header.
_READ: Final = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.ROTATE,
        EventType.QUERY,
        EventType.QUERY_COMPRESSED,
        EventType.GTID,
        EventType.ANONYMOUS_GTID,
        EventType.GTID_TAGGED,
        EventType.PREVIOUS_GTIDS,
        EventType.MARIADB_GTID,
        EventType.GTID_LIST,
    }
)
_MADE_UP: Final = int(HeaderFlag.ARTIFICIAL)
_HEARTBEATS: Final = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
_ENDS: Final = frozenset({EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD, EventType.INCIDENT})
# What stands between transactions.
_BETWEEN: Final = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.PREVIOUS_GTIDS,
        EventType.GTID_LIST,
        EventType.BINLOG_CHECKPOINT,
        EventType.START_ENCRYPTION,
        EventType.STOP,
    }
)


def event_end(at: int, kind: int, size: int, log_pos: int, flags: int) -> int:
    """Where an event ends that comes after `at`, counted beyond 4 GiB; `at` itself if it stands in no file.

    Its header has the low 32 bits of that, or none inside transactions of MariaDB 11.4 and later.
    """
    made_up = flags & _MADE_UP or (kind == EventType.FORMAT_DESCRIPTION and not log_pos)
    if made_up or kind in _HEARTBEATS:
        return at
    if not log_pos:
        return at + size
    end = (at & ~0xFFFFFFFF) | log_pos
    return end + (1 << 32) if end + (1 << 31) < at else end


class Progress:
    """Keeps a description up to date with the events of its stream."""

    def __init__(self, replication: Replication, decoder: Decoder) -> None:
        self._replication = replication
        self._decoder = decoder
        self._gtids = GtidSet(replication.gtid_set)
        self._by_gtid = bool(replication.flags & Flag.GTID)
        self._at = replication.position = FIRST_POSITION if self._by_gtid else replication.start_position
        self._gtid = ""  # of the transaction under way
        self._group = False  # one is under way
        self._explicit = False  # and ends with a COMMIT, not with its first statement
        self.began = ""
        """`file:position` at which the last event began, for errors; "" before the first."""

    @property
    def where(self) -> str:
        """`file:position` of the last event's end, for errors; before the first, where the stream is to begin."""
        if self.began:
            return f"{self._replication.file_name}:{self._at}"
        if self._by_gtid:
            return f"GTID {self._replication.gtid_set or '(none)'}"
        return f"{self._replication.file_name or 'the oldest file'}:{self._at}"

    def passed(self, data: memoryview) -> Event | None:
        """Take note of one event, header first; the event, if it had to be read for that. Raises `BinlogError`."""
        if len(data) < HEADER_SIZE or _HEADER.unpack_from(data)[1] != len(data):
            cause = f"{len(data)} bytes came as an event whose size is not its own"
            raise for_callers(RelayError(StopCode.UNKNOWN_EVENT, "read the binlog", cause), self.where)
        kind, size, log_pos, flags = _HEADER.unpack_from(data)
        self.began = self.where
        event = self.decoded(data) if kind in _READ else None
        self._at = self._end(kind, size, log_pos, flags)
        self._replication.position = self._at
        try:
            self._follow(kind, flags, event)
        except ValueError as error:  # a GTID that is none, or not of the kind of those before
            raise for_callers(RelayError(StopCode.UNKNOWN_EVENT, "read the binlog", error), self.began) from error
        return event

    def decoded(self, data: memoryview) -> Event:
        """The typed event. Raises `BinlogError` with the place."""
        try:
            return self._decoder.decode(data)
        except RelayError as error:
            raise for_callers(error, self.began) from error

    def _end(self, kind: int, size: int, log_pos: int, flags: int) -> int:
        return event_end(self._at, kind, size, log_pos, flags)

    def _follow(self, kind: int, flags: int, event: Event | None) -> None:
        match event:
            case RotateEvent():
                self._rotate(event)
            case GtidEvent() | MariadbGtidEvent():
                self._gtid = event.gtid
                self._group = True
                self._explicit = isinstance(event, MariadbGtidEvent) and not event.flags & MariadbGtidFlag.STANDALONE
            case QueryEvent():
                self._statement(event.statement)
            case PreviousGtidsEvent() if not self._by_gtid:
                self._know(GtidSet(event.gtid_set))
            case GtidListEvent() if not self._by_gtid and not flags & _MADE_UP:
                newest = {gtid.domain_id: gtid for gtid in event.gtid}  # a domain's newest comes last
                self._know(GtidSet(",".join(map(str, newest.values()))))
            case None if kind in _ENDS:
                self._end_group()
        if kind in _BETWEEN and not self._group:
            self._replication.start_position = self._at

    def _rotate(self, event: RotateEvent) -> None:
        self._no_group()
        self._at = event.position
        self._replication.file_name = event.filename
        self._replication.start_position = self._replication.position = event.position

    def _no_group(self) -> None:
        """None is under way: it ended, or its server died within it."""
        self._group = self._explicit = False
        self._gtid = ""

    def _statement(self, statement: str) -> None:
        words = statement[:20].upper().split()
        if words == ["BEGIN"] or words[:2] in (["XA", "START"], ["XA", "BEGIN"]):
            self._group = self._explicit = True
        elif words in (["COMMIT"], ["ROLLBACK"]):
            self._end_group()
        elif statement[-20:].upper().endswith("START TRANSACTION"):
            self._group = self._explicit = True  # MySQL's CREATE TABLE ... SELECT: its rows follow
        elif not self._explicit:
            self._end_group()

    def _end_group(self) -> None:
        if self._gtid:
            self._gtids.add(self._gtid)
            self._replication.gtid_set = str(self._gtids)
        self._no_group()
        self._replication.start_position = self._at

    def _know(self, before: GtidSet) -> None:
        """A file says what came before it."""
        if self._gtids.issubset(before):
            self._gtids = before
            self._replication.gtid_set = str(before)


class FileProgress(Progress):
    """As `Progress`, in a file that is read from its disk: positions are those of its bytes, and it stays the file.

    A relay log's positions, and the files that its ROTATE events name, are those of its source.
    """

    def __init__(self, replication: Replication, decoder: Decoder, path: str) -> None:
        self._path = path
        super().__init__(replication, decoder)

    @property
    def where(self) -> str:
        """`path:position` of the last event's end, for errors."""
        return f"{self._path}:{self._at}"

    def skip_to(self, position: int) -> None:
        """The next event begins there."""
        self._at = position

    def _end(self, kind: int, size: int, log_pos: int, flags: int) -> int:
        return self._at + size

    def _rotate(self, event: RotateEvent) -> None:
        self._no_group()
        self._replication.start_position = self._at
