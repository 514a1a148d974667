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
    PartialUpdateRowsEvent,
    RowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
    incomplete_metadata,
    table_maps,
)
from relay.binlog.events.cursor import malformed
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
_INSERT, _UPDATE, _DELETE = 1, 2, 4
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
        position = event_position(event.header.next_event_pos, event.header.event_length)
        if event.table_map is None:
            if not event.row_data:
                return []  # only ends a statement
            raise malformed(_READ, f"the rows event of table {event.table_id}", position, "no table map came before it")
        table_map, name = event.table_map, f"{event.table_map.database}.{event.table_map.table}"
        described = self._packed_definition(table_map, definition, mariadb, position)
        try:
            return _decode(RowImages(described, _kind(event), _body(event, described)).pack(self._form))
        except LookupError as error:
            raise RelayError(
                StopCode.PARTIAL_IMAGE, _READ, f"rows of {name} cannot be decoded: {error}", position=position
            ) from error
        except (ValueError, msgspec.MsgspecError) as error:
            raise malformed(_READ, f"the rows event of {name}", position, error) from error

    def _packed_definition(self, event: TableMapEvent, given: Definition | None, mariadb: bool, position: str) -> bytes:
        """Return the packed definition. Raises `RelayError` (unsupported_column)."""
        source = event.columns if event.definition is None else event.definition
        if given is None and (known := self._packed.get(id(source))) and known[0] is source:
            return known[1]
        table_map = table_maps.TableMap(event.table_id, event.database, event.table, event.columns)
        if given is not None and not table_maps.fits(table_map, given):
            cause = f"{table_map.name} has other columns than the given definition"
            raise RelayError(StopCode.SCHEMA_UNPROVEN, _READ, cause, position=position)
        packed = msgspec.msgpack.encode(given or event.definition or self._described(table_map, mariadb, position))
        if given is None:
            if len(self._packed) >= _MOST_TABLES:
                self._packed.clear()
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


def event_position(end: int, length: int, file: str = "") -> str:
    """Return the beginning of an event, for errors, as far as it is known."""
    if end < length:  # an event outside of the file, or without a position
        return file
    return f"{file}:{end - length}" if file else f"position {end - length}"


def _kind(event: RowsEvent) -> int:
    if isinstance(event, UpdateRowsEvent | PartialUpdateRowsEvent):
        return _UPDATE
    return _INSERT if isinstance(event, WriteRowsEvent) else _DELETE


def _body(event: RowsEvent, definition: bytes) -> bytes:
    """Return the event from its column count on, for the native core: images inflated, values complete."""
    count = event.column_count
    head = bytes([count]) if count < 0xFB else b"\xfc" + count.to_bytes(2, "little")
    body = head + event.column_bitmap + event.column_update_bitmap + event.row_data
    return complete_rows(definition, body) if isinstance(event, PartialUpdateRowsEvent) else body
