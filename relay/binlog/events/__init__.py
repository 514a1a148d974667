"""Binlog events as typed structs: what `relay.binlog.decoder.Decoder` makes of the bytes that a server sends.

Every event is frozen and has its `header` first. `Event` is the union of them all: msgspec encodes it to JSON or
MessagePack, the key `event` saying which one it is, and back.
"""

from __future__ import annotations

from typing import TypeAlias

from relay.binlog.columntypes import MapColumn
from relay.binlog.events.control import (
    BinlogCheckpointEvent,
    FormatDescriptionEvent,
    HeartbeatEvent,
    HeartbeatV2Event,
    IgnorableEvent,
    IncidentEvent,
    RotateEvent,
    StartEncryptionEvent,
    StopEvent,
    UnknownEvent,
)
from relay.binlog.events.header import BinlogEvent, EventType, Header, HeaderFlag
from relay.binlog.events.rows import (
    DeleteRowsEvent,
    ExtraRowInfo,
    PartialUpdateRowsEvent,
    RowsEvent,
    RowsFlag,
    RowsV0Event,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)
from relay.binlog.events.statements import (
    AnnotateRowsEvent,
    AppendBlockEvent,
    BeginLoadQueryEvent,
    DeleteFileEvent,
    ExecuteLoadQueryEvent,
    IntvarEvent,
    QueryCompressedEvent,
    QueryEvent,
    QueryStatus,
    RandEvent,
    RowsQueryEvent,
    UserVarEvent,
)
from relay.binlog.events.transactions import (
    AnonymousGtidEvent,
    GtidEvent,
    GtidExtra,
    GtidListEvent,
    GtidTaggedEvent,
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


class TransactionPayloadEvent(BinlogEvent, frozen=True, tag="TRANSACTION_PAYLOAD"):
    """MySQL (binlog_transaction_compression): the events of a transaction in one."""

    compression_type: int
    """0: zstd; 255: none."""
    payload_size: int
    """Bytes as they stand in the event."""
    uncompressed_size: int
    """Bytes of the events in it."""
    events: tuple[Event, ...]
    """The events; their headers have no checksums and no positions."""


Event: TypeAlias = (
    AnnotateRowsEvent
    | AnonymousGtidEvent
    | AppendBlockEvent
    | BeginLoadQueryEvent
    | BinlogCheckpointEvent
    | DeleteFileEvent
    | DeleteRowsEvent
    | ExecuteLoadQueryEvent
    | FormatDescriptionEvent
    | GtidEvent
    | GtidListEvent
    | GtidTaggedEvent
    | HeartbeatEvent
    | HeartbeatV2Event
    | IgnorableEvent
    | IncidentEvent
    | IntvarEvent
    | MariadbGtidEvent
    | PartialUpdateRowsEvent
    | PreviousGtidsEvent
    | QueryCompressedEvent
    | QueryEvent
    | RandEvent
    | RotateEvent
    | RowsQueryEvent
    | RowsV0Event
    | StartEncryptionEvent
    | StopEvent
    | TableMapEvent
    | TransactionContextEvent
    | TransactionPayloadEvent
    | UnknownEvent
    | UpdateRowsEvent
    | UserVarEvent
    | ViewChangeEvent
    | WriteRowsEvent
    | XaPrepareEvent
    | XidEvent
)
"""Any event."""

__all__ = [
    "AnnotateRowsEvent",
    "AnonymousGtidEvent",
    "AppendBlockEvent",
    "BeginLoadQueryEvent",
    "BinlogCheckpointEvent",
    "BinlogEvent",
    "DeleteFileEvent",
    "DeleteRowsEvent",
    "Event",
    "EventType",
    "ExecuteLoadQueryEvent",
    "ExtraRowInfo",
    "FormatDescriptionEvent",
    "GtidEvent",
    "GtidExtra",
    "GtidListEvent",
    "GtidTaggedEvent",
    "Header",
    "HeaderFlag",
    "HeartbeatEvent",
    "HeartbeatV2Event",
    "IgnorableEvent",
    "IncidentEvent",
    "IntvarEvent",
    "MapColumn",
    "MariadbGtid",
    "MariadbGtidEvent",
    "MariadbGtidFlag",
    "PartialUpdateRowsEvent",
    "PreviousGtidsEvent",
    "QueryCompressedEvent",
    "QueryEvent",
    "QueryStatus",
    "RandEvent",
    "RotateEvent",
    "RowsEvent",
    "RowsFlag",
    "RowsQueryEvent",
    "RowsV0Event",
    "StartEncryptionEvent",
    "StopEvent",
    "TableMapEvent",
    "TransactionContextEvent",
    "TransactionPayloadEvent",
    "UnknownEvent",
    "UpdateRowsEvent",
    "UserVarEvent",
    "ViewChangeEvent",
    "WriteRowsEvent",
    "XaId",
    "XaPrepareEvent",
    "XidEvent",
]
