"""The rows of rows events as values by column name.

The native core decodes them; this module finds the table's definition and translates errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from relay._native import RowImages, complete_rows
from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.binlog.events import (
    DeleteRowsEvent,
    PartialUpdateRowsEvent,
    RowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
    incomplete_metadata,
    table_maps,
)
from relay.binlog.events.damage import event_position, malformed
from relay.journal.frames import Definition
from relay.protocol import extensions

Values: TypeAlias = Literal["text", "msgpack", "python"]
"""What the values of rows are.

"text": `str`, the text that the server prints, so 1.50 of a DECIMAL stays `1.50`, and TIMESTAMP is in UTC; `bytes` for
BINARY, VARBINARY, BLOB, BIT, GEOMETRY and VECTOR, and strings whose character set is unknown. "msgpack": int for
integers and YEAR, float for FLOAT and DOUBLE, else as "text". "python": objects of Python's types
(docs/python-client.md). None is NULL in all.
"""
_FORMS: Final[dict[Values, str]] = {"text": "text", "msgpack": "typed", "python": "extended"}

_READ: Final = "read rows"
_KINDS: Final[dict[type[RowsEvent], int]] = {
    WriteRowsEvent: 1, UpdateRowsEvent: 2, PartialUpdateRowsEvent: 2, DeleteRowsEvent: 4,
}  # fmt: skip
_MOST_TABLES: Final = 4096


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row before and after its change; None for an image that does not exist.

    Columns that an image lacks (binlog_row_image other than FULL) are not keys of it.
    """

    before: dict[str, Any] | None
    after: dict[str, Any] | None


_decode: Final = msgspec.msgpack.Decoder(list[Row], ext_hook=extensions.value_of).decode


class RowReader:
    """Read rows; keep the definitions of tables between events."""

    def __init__(self, charset_of: Mapping[int, str], values: Values) -> None:
        """`charset_of` maps numbers of collations to names of character sets. Raises `RelayError` (usage)."""
        if values not in _FORMS:
            raise RelayError(ErrorCode.USAGE, _READ, f"values = {values!r} is none of {', '.join(map(repr, _FORMS))}")
        self._charset_of = charset_of
        self._form = _FORMS[values]
        self._packed: dict[int, tuple[object, bytes]] = {}  # by id() of the column description, which events share

    def rows(self, event: RowsEvent, definition: Definition | None, mariadb: bool) -> list[Row]:
        """Like `relay.binlog.decoder.Decoder.rows`; `mariadb`: the rows may come from MariaDB."""
        table_map = event.table_map
        if table_map is None:
            if not event.row_data:
                return []  # only ends a statement
            what = f"the rows event of table {event.table_id}"
            raise malformed(_READ, what, _position(event), "no table map came before it")
        source = table_map.columns if table_map.definition is None else table_map.definition
        known = self._packed.get(id(source)) if definition is None else None
        if known is not None and known[0] is source:
            described = known[1]
        else:
            described = self._packed_definition(table_map, definition, mariadb, _position(event))
        try:
            return _decode(RowImages(described, _KINDS[type(event)], _body(event, described)).pack(self._form))
        except LookupError as error:
            cause = f"rows of {table_map.database}.{table_map.table} cannot be decoded: {error}"
            raise RelayError(StopCode.PARTIAL_IMAGE, _READ, cause, position=_position(event)) from error
        except (ValueError, msgspec.MsgspecError) as error:
            what = f"the rows event of {table_map.database}.{table_map.table}"
            raise malformed(_READ, what, _position(event), error) from error

    def _packed_definition(self, event: TableMapEvent, given: Definition | None, mariadb: bool, position: str) -> bytes:
        """Return the packed definition, and keep it if it was not given. Raises `RelayError` (unsupported_column)."""
        table_map = table_maps.TableMap(event.table_id, event.database, event.table, event.columns)
        if given is not None and not table_maps.fits(table_map, given):
            cause = f"{table_map.name} has other columns than the given definition"
            raise RelayError(StopCode.SCHEMA_UNPROVEN, _READ, cause, position=position)
        packed = msgspec.msgpack.encode(given or event.definition or self._described(table_map, mariadb, position))
        if given is None:
            if len(self._packed) >= _MOST_TABLES:
                self._packed.clear()
            source = event.columns if event.definition is None else event.definition
            self._packed[id(source)] = (source, packed)
        return packed

    def _described(self, table_map: table_maps.TableMap, mariadb: bool, position: str) -> Definition:
        """Return the definition from the table map alone."""
        if table_map.full:
            definition = table_maps.definition(table_map, self._charset_of, position)
        else:
            definition = table_maps.provisional(table_map, self._charset_of)
        if mariadb:
            incomplete_metadata.require_lengths(definition, "table maps lack it", position)
        return definition


def _position(event: RowsEvent) -> str:
    return event_position(event.header.next_event_pos, event.header.event_length)


def _body(event: RowsEvent, definition: bytes) -> bytes:
    """Return the event from its column count on, for the native core: images inflated, values complete."""
    count = event.column_count
    head = bytes([count]) if count < 0xFB else b"\xfc" + count.to_bytes(2, "little")
    body = head + event.column_bitmap + event.column_update_bitmap + event.row_data
    return complete_rows(definition, body) if isinstance(event, PartialUpdateRowsEvent) else body
