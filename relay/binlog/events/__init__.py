"""Binlog events as typed structs, which `relay.binlog.decoder.Decoder` decodes from the bytes of a server.

Every event is frozen; its first field is `header`. `Event` is the union of all: msgspec converts it to JSON or
MessagePack and back, with the event's type in the key `event`.
"""

from __future__ import annotations

from typing import TypeAlias

from relay.binlog.events.column_types import MapColumn
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
    """MySQL (binlog_transaction_compression): one event that contains all events of a transaction."""

    compression_type: int
    """0: zstd; 255: none."""
    payload_size: int
    """Bytes of the payload in the event."""
    uncompressed_size: int
    """Bytes of the uncompressed events."""
    events: tuple[Event, ...]
    """The contained events; their headers have no checksums and no positions."""


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
