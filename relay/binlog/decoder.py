"""From the bytes of binlog events to typed structs.

Nothing here reads or waits: whoever has the bytes of one event, from a connection or a file, hands them in.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

from relay.binlog.bodies import control, rows, statements, transactions
from relay.binlog.bodies.state import Reader, State
from relay.binlog.collations import CHARSET_OF
from relay.binlog.compression import inflate_zstd
from relay.binlog.cursor import Cursor, reading
from relay.binlog.events import (
    Event,
    EventType,
    FormatDescriptionEvent,
    Header,
    HeaderFlag,
    RotateEvent,
    RowsEvent,
    TransactionPayloadEvent,
    UnknownEvent,
)
from relay.binlog.learned import Learned
from relay.binlog.rowvalues import Row, RowReader, event_position
from relay.errors import RelayError, StopCode
from relay.journal.frames import Definition

_READ: Final = "read an event"
_HEADER: Final = struct.Struct("<IBIIIH")
_FLAGS_AT: Final = 17
_CHECKSUM_BYTES: Final = 4
_CRC32: Final = 1
_ZSTD, _NOT_COMPRESSED = 0, 255
MAX_PAYLOAD_BYTES: Final = 1 << 30
"""The most that events of a compressed transaction may inflate to: the most that a server accepts of one event."""


class Decoder:
    """Decodes the events of one stream, or of files one after the other, in their order.

    It keeps what later events depend on: the format (how events are laid out, and whether they carry checksums) and the
    table maps.
    """

    def __init__(self, checksums: bool | None = None, *, charset_of: Mapping[int, str] = CHARSET_OF) -> None:
        """`checksums`: whether events carry a CRC-32; None: as each FORMAT_DESCRIPTION says.

        `charset_of` gives the character set's name of a collation's number; by default as servers agree on them.
        """
        self._given = checksums
        self._told: bool | None = None
        self._learned = Learned(charset_of)
        self._state = State(charset_of, self._learned)
        self._file = ""
        self._rows = RowReader(charset_of)

    def decode(self, data: bytes | memoryview) -> Event:
        """The event in `data`: header, body and checksum, as they stand in a file or behind the OK byte of a packet.

        Raises `RelayError`: unknown_event where it is malformed, checksum_mismatch, unsupported_column for a table map
        with a type of which not even the length is known. Types of events that are not known are an `UnknownEvent`.
        """
        raw = bytes(data)
        if len(raw) < _HEADER.size:
            raise self._malformed(f"{len(raw)} bytes are too few for a header", self._file)
        length, end = _HEADER.unpack_from(raw)[3:5]
        position = event_position(end, length, self._file)
        if length != len(raw):
            raise self._malformed(f"it says it has {length} bytes, and there are {len(raw)}", position)
        event = self._event(raw, self._checked(raw, position), position)
        if isinstance(event, FormatDescriptionEvent):
            self._told = event.checksum_algorithm == _CRC32
            self._state.header_lengths = event.post_header_lengths
            self._state.mariadb = control.is_mariadb(event.server_version)
            self._state.table_maps.clear()
        elif isinstance(event, RotateEvent):
            self._file = event.filename
        return event

    def rows(self, event: RowsEvent, definition: Definition | None = None) -> list[Row]:
        """The rows of a rows event, in its order: column names and values, before and after the change.

        What the columns are comes from the statements before them in the stream, where these define the table
        (`TableMapEvent.definition`), and from the event's table map. Where the source has binlog_row_metadata = FULL
        the table map tells nearly everything (`relay.binlog.hidden` lists the rest: MariaDB's UUID and INET columns
        look like BINARY, and nothing tells of ZEROFILL or FLOAT(M,D)). With neither, columns are named by their
        positions (`@1`, `@2` ...), labels of ENUM and SET are numbers, BINARY is without the zeros at its end, and on
        MariaDB, where it says nothing at all, integers are read as signed and strings are bytes. `definition` says it
        in place of both: the table as it was when the rows were written.

        Raises `RelayError`: unknown_event where the rows cannot be read, or their table map was not seen;
        unsupported_column; schema_unproven where `definition` does not fit.
        """
        return self._rows.rows(event, definition, self._state.mariadb is not False)

    def _event(self, raw: bytes, checksum: int | None, position: str) -> Event:
        timestamp, kind, server_id, length, end, flags = _HEADER.unpack_from(raw)
        header = Header(checksum, kind, timestamp, server_id, length, end, flags)
        body = Cursor(raw[_HEADER.size : len(raw) - (0 if checksum is None else _CHECKSUM_BYTES)])
        self._state.position = position
        with reading(_READ, _name(kind), position):
            if kind == EventType.TRANSACTION_PAYLOAD:
                return self._payload(header, body, position)
            read = _READERS.get(kind)
            event = UnknownEvent(header, kind, body.rest()) if read is None else read(header, body, self._state)
        if kind in _LEARNED_FROM or read is None:
            self._learned.note(event)
        return event

    def _payload(self, header: Header, body: Cursor, position: str) -> Event:
        """Fields of (number, length, value), 0 after the last, then the events, which have no checksums."""
        fields: dict[int, int] = {}
        while (number := body.length()) != 0:
            fields[number] = Cursor(body.text()).length()
        data = body.rest()
        size, compression, uncompressed = fields.get(1), fields.get(2, _NOT_COMPRESSED), fields.get(3, len(data))
        if size != len(data):
            raise ValueError(f"it says it holds {size} bytes, and there are {len(data)}")
        if compression not in (_ZSTD, _NOT_COMPRESSED):
            raise ValueError(f"{compression} is no compression that is known")
        if uncompressed > MAX_PAYLOAD_BYTES:
            raise ValueError(f"it says it inflates to {uncompressed} bytes")
        inner = Cursor(inflate_zstd(data, uncompressed) if compression == _ZSTD else data)
        events = []
        while inner:
            length = int.from_bytes(inner.data[inner.at + 9 : inner.at + 13], "little")
            if length < _HEADER.size:
                raise ValueError(f"an event in it says it has {length} bytes")
            if inner.data[inner.at + 4] == EventType.TRANSACTION_PAYLOAD:
                raise ValueError("it holds another one")
            events.append(self._event(inner.take(length), None, position))
        return TransactionPayloadEvent(header, compression, len(data), uncompressed, tuple(events))

    def _checked(self, raw: bytes, position: str) -> int | None:
        """The checksum, if the event carries one. Raises `RelayError` (checksum_mismatch)."""
        told = int.from_bytes(raw[-_CHECKSUM_BYTES:], "little")
        covered: memoryview | bytearray = memoryview(raw)[:-_CHECKSUM_BYTES]
        carries = self._told if self._given is None else self._given
        if raw[4] == EventType.FORMAT_DESCRIPTION:  # the field is there whether checksums are switched on or not
            if not control.knows_checksums(control.server_version(raw[_HEADER.size :])):
                return None
            if raw[-control.CHECKSUM_FIELDS] != _CRC32:
                return told
            carries, covered = True, bytearray(covered)
            covered[_FLAGS_AT] &= ~HeaderFlag.BINLOG_IN_USE & 0xFF  # it is taken away when the file is closed
        if carries is False:
            return None
        if len(covered) >= _HEADER.size and zlib.crc32(covered) == told:
            return told
        if carries is None:  # before any FORMAT_DESCRIPTION
            return None
        cause = f"{_name(raw[4])} does not have the checksum that it came with"
        raise RelayError(StopCode.CHECKSUM_MISMATCH, _READ, cause, position=position)

    @staticmethod
    def _malformed(cause: str, position: str) -> RelayError:
        return RelayError(StopCode.UNKNOWN_EVENT, _READ, f"it is malformed: {cause}", position=position)


_READERS: Final[dict[int, Reader]] = {
    **control.READERS, **statements.READERS, **transactions.READERS, **rows.READERS,
}  # fmt: skip
_LEARNED_FROM: Final = frozenset({
    EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.FORMAT_DESCRIPTION, EventType.MARIADB_GTID,
    EventType.INCIDENT,
})  # fmt: skip
DECODED: Final = frozenset(_READERS) | {EventType.TRANSACTION_PAYLOAD}
"""The types of events that are decoded; all others become an `UnknownEvent`."""


def _name(kind: int) -> str:
    """An event type in words."""
    try:
        return EventType(kind).name
    except ValueError:
        return f"type {kind}"
