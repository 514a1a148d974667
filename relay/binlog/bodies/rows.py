"""Bodies of events that describe tables or contain rows."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from msgspec import structs

from relay._native import Cursor
from relay.binlog.bodies.packed import inflated
from relay.binlog.bodies.state import Reader, State, utf8
from relay.binlog.events import (
    DeleteRowsEvent,
    Event,
    EventType,
    ExtraRowInfo,
    Header,
    PartialUpdateRowsEvent,
    RowsEvent,
    RowsV0Event,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
    table_maps,
)

_TABLE_ID_BYTES: Final = 6
_SHORT_ID_BYTES: Final = 4  # in bodies whose fixed part has 6 bytes


def table_map(header: Header, body: Cursor, state: State) -> Event:
    """Parse a TABLE_MAP.

    Servers repeat it for each statement. A known one is not parsed again, and shares the column descriptions.
    """
    known = state.table_maps.get(int.from_bytes(body.data[:_TABLE_ID_BYTES], "little"))
    event = known[1] if known and known[0] == body.data else _table_map(header, body, state)
    event = structs.replace(event, header=header, definition=state.history.definition(event))
    state.table_maps[event.table_id] = (body.data, event)
    return event


def _table_map(header: Header, body: Cursor, state: State) -> TableMapEvent:
    parsed = table_maps.parse(body.data, state.position, mariadb=bool(state.mariadb))
    table_id, flags = body.integer(_TABLE_ID_BYTES), body.integer(2)
    names = []
    for _ in range(2):
        names.append(utf8(body.short_text()))
        body.take(1)
    types, metadata = body.text(), body.text()
    nullable = body.take(_bitmap_bytes(len(types)))
    return TableMapEvent(
        header, table_id, flags, names[0], names[1], len(types), types, metadata, nullable, body.rest(), parsed.columns,
        parsed.primary_key,
    )  # fmt: skip


def _bitmap_bytes(columns: int) -> int:
    return (columns + 7) // 8


def _extra(data: Cursor, update: bool) -> ExtraRowInfo:
    found: dict[str, Any] = {}
    while data:
        start = data.at
        match data.integer(1):
            case 0:  # NDB: the length includes itself and the format
                count, found["ndb_format"] = data.integer(1), data.integer(1)
                if count < 2:
                    raise ValueError(f"{count} bytes are too few for NDB")
                found["ndb_data"] = data.take(count - 2)
            case 1:
                found["partition_id"] = data.integer(2)
                if update:
                    found["source_partition_id"] = data.integer(2)
            case _:
                data.at = start
                found["unknown"] = data.rest()
    return ExtraRowInfo(**found)


def _rows(kind: type[RowsEvent], version: int, compressed: bool, header: Header, body: Cursor, state: State) -> Event:
    table_id, flags = body.integer(_TABLE_ID_BYTES), body.integer(2)
    update = kind in (UpdateRowsEvent, PartialUpdateRowsEvent)
    extra = None
    if version == 2:
        count = body.integer(2) - 2  # the length includes itself
        if count < 0:
            raise ValueError("its extra row information is shorter than its length")
        extra = _extra(Cursor(body.take(count)), update) if count else None
    columns = body.length()
    bitmap = body.take(_bitmap_bytes(columns))
    update_bitmap = body.take(_bitmap_bytes(columns)) if update else b""
    images = inflated(body.rest()) if compressed else body.rest()
    return kind(  # type: ignore[return-value]
        header, header.event_type, table_id, flags, columns, bitmap, update_bitmap, len(images), images, version,
        compressed, extra, state.table_map(table_id),
    )  # fmt: skip


def _rows_v0(header: Header, body: Cursor, state: State) -> Event:
    short = state.header_length(EventType(header.event_type), 8) == _SHORT_ID_BYTES + 2
    table_id = body.integer(_SHORT_ID_BYTES if short else _TABLE_ID_BYTES)
    return RowsV0Event(header, header.event_type, table_id, body.integer(2), body.rest())


_KINDS: Final[tuple[type[RowsEvent], ...]] = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)
_FIRST_TYPES: Final = (
    (EventType.WRITE_ROWS_V1, 1, False),
    (EventType.WRITE_ROWS, 2, False),
    (EventType.WRITE_ROWS_COMPRESSED_V1, 1, True),
    (EventType.WRITE_ROWS_COMPRESSED, 2, True),
)
"""The first of three type codes, the version, and whether images are compressed."""

READERS: Final[dict[int, Reader]] = {
    EventType.TABLE_MAP: table_map,
    EventType.WRITE_ROWS_V0: _rows_v0,
    EventType.UPDATE_ROWS_V0: _rows_v0,
    EventType.DELETE_ROWS_V0: _rows_v0,
    EventType.PARTIAL_UPDATE_ROWS: partial(_rows, PartialUpdateRowsEvent, 2, False),
    **{
        first + offset: partial(_rows, kind, version, compressed)
        for first, version, compressed in _FIRST_TYPES
        for offset, kind in enumerate(_KINDS)
    },
}
