"""Bodies of events that begin, end and number transactions."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from relay._native import GtidSet
from relay.binlog.bodies.state import Reader, State, utf8
from relay.binlog.cursor import Cursor
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


def xid(header: Header, body: Cursor, state: State) -> Event:
    return XidEvent(header, body.integer(8))


def _xa_id(body: Cursor, format_id: int, gtrid_bytes: int, bqual_bytes: int) -> XaId:
    if max(gtrid_bytes, bqual_bytes) > _LONGEST_XA_PART:
        raise ValueError(f"{gtrid_bytes} and {bqual_bytes} bytes are no parts of an XA id")
    return XaId(format_id, body.take(gtrid_bytes), body.take(bqual_bytes))


def xa_prepare(header: Header, body: Cursor, state: State) -> Event:
    one_phase = body.integer(1) != 0
    return XaPrepareEvent(header, one_phase, _xa_id(body, body.integer(4), body.integer(4), body.integer(4)))


def mariadb_gtid(header: Header, body: Cursor, state: State) -> Event:
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


def gtid_list(header: Header, body: Cursor, state: State) -> Event:
    head = body.integer(4)
    count, flags = head & 0x0FFFFFFF, head >> 28
    if count * 16 > len(body):
        raise ValueError(f"{count} GTIDs do not fit into {len(body)} bytes")
    gtids = tuple(MariadbGtid(body.integer(4), body.integer(4), body.integer(8)) for _ in range(count))
    return GtidListEvent(header, count, gtids, flags)


_ORIGINAL_FOLLOWS: Final = 1 << 55, 1 << 31  # in a commit's timestamp, in a server's version
_LOGICAL_TIMES: Final = 2


def _twice(body: Cursor, count: int, follows: int) -> tuple[int, int]:
    """A number and its original, which is there only where it is another."""
    number = body.integer(count)
    if not number & follows:
        return number, number
    return number ^ follows, body.integer(count)


def _gtid(kind: type[GtidEvent], header: Header, body: Cursor) -> Event:
    """Later servers each added something at the end."""
    found: dict[str, Any] = {
        "commit_flag": body.integer(1), "source_id": str(UUID(bytes=body.take(16))), "sequence_nr": body.signed(8),
    }  # fmt: skip
    if body and body.integer(1) == _LOGICAL_TIMES:
        found["last_committed"], found["sequence_number"] = body.signed(8), body.signed(8)
        if body:
            times = _twice(body, 7, _ORIGINAL_FOLLOWS[0])
            found["immediate_commit_timestamp"], found["original_commit_timestamp"] = times
        if body:
            found["transaction_length"] = body.length()
        if body:
            versions = _twice(body, 4, _ORIGINAL_FOLLOWS[1])
            found["immediate_server_version"], found["original_server_version"] = versions
        if body:
            found["commit_group_ticket"] = body.integer(8)
    return kind(header, **found)


def gtid(header: Header, body: Cursor, state: State) -> Event:
    return _gtid(GtidEvent, header, body)


def anonymous_gtid(header: Header, body: Cursor, state: State) -> Event:
    return _gtid(AnonymousGtidEvent, header, body)


def gtid_tagged(header: Header, body: Cursor, state: State) -> Event:
    """A serialised message: version, size, the last field that must be known, then each field's number and value."""
    for _ in range(3):
        body.varlen()
    found: dict[str, Any] = {}
    while body:
        start = body.at
        match body.varlen():
            case 0:
                found["commit_flag"] = body.varlen()
            case 1:
                found["source_id"] = str(UUID(bytes=bytes(body.varlen() for _ in range(16))))
            case 2:
                found["sequence_nr"] = body.signed_varlen()
            case 3:
                found["tag"] = utf8(body.take(body.varlen()))
            case 4:
                found["last_committed"] = body.signed_varlen()
            case 5:
                found["sequence_number"] = body.signed_varlen()
            case 6:
                found["immediate_commit_timestamp"] = body.varlen()
            case 7:
                found["original_commit_timestamp"] = body.varlen()
            case 8:
                found["transaction_length"] = body.varlen()
            case 9:
                found["immediate_server_version"] = body.varlen()
            case 10:
                found["original_server_version"] = body.varlen()
            case 11:
                found["commit_group_ticket"] = body.varlen()
            case _:
                body.at = start
                found["unknown"] = body.rest()
    for name in ("commit_timestamp", "server_version"):
        if f"immediate_{name}" in found:
            found.setdefault(f"original_{name}", found[f"immediate_{name}"])
    missing = {"commit_flag", "source_id", "sequence_nr", "tag"} - found.keys()
    if missing:
        raise ValueError(f"without {', '.join(sorted(missing))}")
    return GtidTaggedEvent(header, **found)


def previous_gtids(header: Header, body: Cursor, state: State) -> Event:
    return PreviousGtidsEvent(header, str(GtidSet.decode(body.rest())))


def transaction_context(header: Header, body: Cursor, state: State) -> Event:
    return TransactionContextEvent(header, body.rest())


def view_change(header: Header, body: Cursor, state: State) -> Event:
    return ViewChangeEvent(header, body.rest())


READERS: Final[dict[int, Reader]] = {
    EventType.XID: xid,
    EventType.GTID: gtid,
    EventType.ANONYMOUS_GTID: anonymous_gtid,
    EventType.PREVIOUS_GTIDS: previous_gtids,
    EventType.TRANSACTION_CONTEXT: transaction_context,
    EventType.VIEW_CHANGE: view_change,
    EventType.XA_PREPARE: xa_prepare,
    EventType.GTID_TAGGED: gtid_tagged,
    EventType.MARIADB_GTID: mariadb_gtid,
    EventType.GTID_LIST: gtid_list,
}
