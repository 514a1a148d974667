"""Bodies of events that begin, end and number transactions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final
from uuid import UUID

from relay._native import Cursor, GtidSet
from relay.binlog.bodies.state import Reader, State, undecoded, utf8
from relay.binlog.events import (
    AnonymousGtidEvent,
    Event,
    EventType,
    GtidEvent,
    GtidExtra,
    GtidListEvent,
    GtidTaggedEvent,
    Header,
    MariadbGtid,
    MariadbGtidEvent,
    MariadbGtidFlag,
    PreviousGtidsEvent,
    TransactionContextEvent,
    ViewChangeEvent,
    XaId,
    XaPrepareEvent,
    XidEvent,
)

_LONGEST_XA_PART: Final = 64


def _xid(header: Header, body: Cursor, state: State) -> Event:
    return XidEvent(header, body.integer(8))


def _xa_id(body: Cursor, format_id: int, gtrid_bytes: int, bqual_bytes: int) -> XaId:
    if max(gtrid_bytes, bqual_bytes) > _LONGEST_XA_PART:
        raise ValueError(f"{gtrid_bytes} and {bqual_bytes} bytes are not valid lengths of an XA id")
    return XaId(format_id, body.take(gtrid_bytes), body.take(bqual_bytes))


def _xa_prepare(header: Header, body: Cursor, state: State) -> Event:
    one_phase = body.integer(1) != 0
    return XaPrepareEvent(header, one_phase, _xa_id(body, body.integer(4), body.integer(4), body.integer(4)))


def _mariadb_gtid(header: Header, body: Cursor, state: State) -> Event:
    number, domain, flags = body.integer(8), body.integer(4), body.integer(1)
    found: dict[str, Any] = {}
    if flags & MariadbGtidFlag.GROUP_COMMIT_ID:
        found["commit_id"] = body.integer(8)
    if flags & (MariadbGtidFlag.PREPARED_XA | MariadbGtidFlag.COMPLETED_XA):
        found["xid"] = _xa_id(body, body.integer(4), body.integer(1), body.integer(1))
    extra = found["flags_extra"] = body.integer(1) if body else 0
    if extra & GtidExtra.MULTI_ENGINE:
        found["extra_engines"] = body.integer(1)
    if extra & (GtidExtra.COMMIT_ALTER | GtidExtra.ROLLBACK_ALTER):
        found["sa_seq_no"] = body.integer(8)
    if extra & GtidExtra.THREAD_ID:
        found["thread_id"] = body.integer(4)
    return MariadbGtidEvent(header, number, domain, flags, **found)


def _gtid_list(header: Header, body: Cursor, state: State) -> Event:
    head = body.integer(4)
    count, flags = head & 0x0FFFFFFF, head >> 28
    if count * 16 > len(body):
        raise ValueError(f"{count} GTIDs do not fit into {len(body)} bytes")
    gtids = tuple(MariadbGtid(body.integer(4), body.integer(4), body.integer(8)) for _ in range(count))
    return GtidListEvent(header, count, gtids, flags)


_ORIGINAL_FOLLOWS: Final = 1 << 55, 1 << 31  # in a commit's timestamp, in a server's version
_LOGICAL_TIMES: Final = 2
_GTID: Final = struct.Struct("<B16sq")
_TIMES: Final = struct.Struct("<qq")


@lru_cache(maxsize=64)
def _uuid(source: bytes) -> str:
    return str(UUID(bytes=source))


def _twice(body: Cursor, count: int, follows: int) -> tuple[int, int]:
    """Two numbers: this server's, and the original one, which is present only if it differs."""
    number = body.integer(count)
    if not number & follows:
        return number, number
    return number ^ follows, body.integer(count)


def gtid(kind: type[GtidEvent], header: Header, body: Cursor, state: State) -> Event:
    """Parse a GTID event. Later servers have appended fields."""
    commit_flag, source, sequence_nr = body.fields(_GTID)
    found: list[Any] = []  # the fields after these, in order
    if body and body.integer(1) == _LOGICAL_TIMES:
        found += body.fields(_TIMES)
        if body:
            found += _twice(body, 7, _ORIGINAL_FOLLOWS[0])
        if body:
            found.append(body.length())
        if body:
            found += _twice(body, 4, _ORIGINAL_FOLLOWS[1])
        if body:
            found.append(body.integer(8))
    return kind(header, commit_flag, _uuid(source), sequence_nr, *found)


_TAGGED_FIELDS: Final[dict[int, tuple[str, Callable[[Cursor], Any]]]] = {
    0: ("commit_flag", Cursor.varlen),
    1: ("source_id", lambda body: _uuid(bytes(body.varlen() for _ in range(16)))),
    2: ("sequence_nr", Cursor.signed_varlen),
    3: ("tag", lambda body: utf8(body.take(body.varlen()))),
    4: ("last_committed", Cursor.signed_varlen),
    5: ("sequence_number", Cursor.signed_varlen),
    6: ("immediate_commit_timestamp", Cursor.varlen),
    7: ("original_commit_timestamp", Cursor.varlen),
    8: ("transaction_length", Cursor.varlen),
    9: ("immediate_server_version", Cursor.varlen),
    10: ("original_server_version", Cursor.varlen),
    11: ("commit_group_ticket", Cursor.varlen),
}


def gtid_tagged(header: Header, body: Cursor, state: State) -> Event:
    """Parse a serialised message: version, size, last field that must be known, then number and value of each field."""
    for _ in range(3):
        body.varlen()
    found: dict[str, Any] = {}
    while body:
        start = body.at
        field = body.varlen()
        if field not in _TAGGED_FIELDS:
            body.at = start
            found["unknown"] = body.rest()
            break
        name, read = _TAGGED_FIELDS[field]
        found[name] = read(body)
    for name in ("commit_timestamp", "server_version"):
        if f"immediate_{name}" in found:
            found.setdefault(f"original_{name}", found[f"immediate_{name}"])
    missing = {"commit_flag", "source_id", "sequence_nr", "tag"} - found.keys()
    if missing:
        raise ValueError(f"without {', '.join(sorted(missing))}")
    return GtidTaggedEvent(header, **found)


def _previous_gtids(header: Header, body: Cursor, state: State) -> Event:
    return PreviousGtidsEvent(header, str(GtidSet.decode(body.rest())))


READERS: Final[dict[int, Reader]] = {
    EventType.XID: _xid,
    EventType.GTID: partial(gtid, GtidEvent),
    EventType.ANONYMOUS_GTID: partial(gtid, AnonymousGtidEvent),
    EventType.PREVIOUS_GTIDS: _previous_gtids,
    EventType.TRANSACTION_CONTEXT: partial(undecoded, TransactionContextEvent),
    EventType.VIEW_CHANGE: partial(undecoded, ViewChangeEvent),
    EventType.XA_PREPARE: _xa_prepare,
    EventType.GTID_TAGGED: gtid_tagged,
    EventType.MARIADB_GTID: _mariadb_gtid,
    EventType.GTID_LIST: _gtid_list,
}
