"""Decode the bytes of binlog events to typed structs.

It does no I/O: the caller passes the bytes of one event, from a connection or a file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from relay._native import Cursor
from relay.base.errors import RelayError, StopCode
from relay.binlog.bodies import control, rows, statements, transactions
from relay.binlog.bodies.state import Reader, State
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
from relay.binlog.events.collations import CHARSET_OF
from relay.binlog.events.compression import inflate_zstd
from relay.binlog.events.damage import malformed
from relay.binlog.rowvalues import Row, RowReader, Values
from relay.ddl.syntax import TableName
from relay.journal.frames import Definition
from relay.schema.facts import Fact
from relay.schema.stream_history import AssumedCharset, StreamHistory

_READ: Final = "read an event"
_HEADER: Final = struct.Struct("<IBIIIH")
_FLAGS_AT: Final = 17
_CHECKSUM_BYTES: Final = 4
_CRC32: Final = 1
_INTACT: Final = 0x2144DF1C  # the CRC-32 of bytes with their own CRC-32 behind them
_PAYLOAD: Final = int(EventType.TRANSACTION_PAYLOAD)  # an int: comparing with members of an enumeration costs more
_FORMAT_DESCRIPTION: Final = int(EventType.FORMAT_DESCRIPTION)
_ZSTD, _NOT_COMPRESSED = 0, 255
LearnedDefinitions: TypeAlias = Sequence[tuple[TableName, Fact]]
"""LearnedDefinitions of tables, and of schemas, whose table name is empty."""
MAX_PAYLOAD_BYTES: Final = 1 << 30
"""The most bytes to which the events of a compressed transaction may inflate: the largest event that servers accept."""


class Decoder:
    """Decode the events of one stream, or of several files in order.

    It keeps the state that later events depend on: the format (the layout of events, and whether they have checksums)
    and the table maps.
    """

    def __init__(
        self,
        checksums: bool | None = None,
        *,
        charset_of: Mapping[int, str] = CHARSET_OF,
        values: Values = "text",
    ) -> None:
        """`checksums`: whether events have a CRC-32; None: as each FORMAT_DESCRIPTION says.

        `charset_of` maps numbers of collations to names of character sets; the default has those on which servers
        agree. `values`: those of rows are text, or "python" objects.
        """
        self._checksums = checksums
        self._declared_checksums: bool | None = None
        self._history = StreamHistory(charset_of)
        self._state = State(charset_of, self._history)
        self._rows = RowReader(charset_of, values)

    def decode(self, data: bytes | memoryview) -> Event:
        """Decode the event in `data`: header, body and checksum, as in a file or after the OK byte of a packet.

        Raises `RelayError`: unknown_event if it is malformed; checksum_mismatch; unsupported_column for a table map
        with a type whose length is unknown. Events of unknown types become an `UnknownEvent`.
        """
        raw, state = bytes(data), self._state
        if len(raw) < _HEADER.size:
            raise malformed(_READ, "it", state.file, f"{len(raw)} bytes are too few for a header")
        timestamp, kind, server_id, length, end, flags = _HEADER.unpack_from(raw)
        state.length, state.end = length, end
        if length != len(raw):
            raise malformed(_READ, "it", state.position, f"it declares {length} bytes, but has {len(raw)}")
        checksum = self._verified_checksum(raw)
        body = Cursor(raw[_HEADER.size : length if checksum is None else -_CHECKSUM_BYTES])
        event = self._event(Header(checksum, kind, timestamp, server_id, length, end, flags), body)
        if kind not in _STATE_EVENTS:
            return event
        if isinstance(event, FormatDescriptionEvent):
            self._declared_checksums = event.checksum_algorithm == _CRC32
            state.header_lengths = event.post_header_lengths
            state.mariadb = control.is_mariadb(event.server_version)
            state.table_maps.clear()
        elif isinstance(event, RotateEvent):
            state.file = event.filename
        return event

    def learn(self, definitions: LearnedDefinitions) -> None:
        """Add definitions that hold at this point of the stream, such as those of the source where a stream begins."""
        self._history.learn(definitions)

    @property
    def assumed_charsets(self) -> Mapping[str, AssumedCharset]:
        """The character sets that were assumed so far, by schema: no earlier statement showed the schema's own."""
        return self._history.assumed

    def rows(self, event: RowsEvent, definition: Definition | None = None) -> list[Row]:
        """Return the rows of a rows event, in order: column names and values, before and after the change.

        The columns are known from earlier statements in the stream, if these define the table
        (`TableMapEvent.definition`), and from the event's table map. If the source has binlog_row_metadata = FULL, the
        table map describes nearly everything (`relay.binlog.events.incomplete_metadata` lists the rest: MariaDB's UUID
        and INET columns look like BINARY, and ZEROFILL and FLOAT(M,D) are missing). With neither, columns are named by
        their positions (`@1`, `@2` ...), labels of ENUM and SET are numbers, BINARY lacks the zeros at its end, and on
        MariaDB without any metadata integers are read as signed and strings are bytes. `definition` replaces both: the
        table as it was when the rows were written.

        Raises `RelayError`: unknown_event if the rows cannot be read, or their table map is missing;
        unsupported_column; schema_unproven if `definition` does not fit.
        """
        return self._rows.rows(event, definition, self._state.mariadb is not False)

    def _event(self, header: Header, body: Cursor) -> Event:
        kind = header.event_type
        try:
            if kind == _PAYLOAD:
                return self._payload(header, body)
            read = _READERS.get(kind)
            event = UnknownEvent(header, kind, body.rest()) if read is None else read(header, body, self._state)
        except (ValueError, IndexError) as error:
            raise malformed(_READ, _name(kind), self._state.position, error) from error
        if kind in _DEFINING_EVENTS or read is None:
            self._history.process(event)
        return event

    def _payload(self, header: Header, body: Cursor) -> Event:
        """Parse a compressed transaction.

        It has fields of (number, length, value), 0 after the last, then events without checksums.
        """
        fields: dict[int, int] = {}
        while (number := body.length()) != 0:
            fields[number] = Cursor(body.text()).length()
        data = body.rest()
        size, compression, uncompressed = fields.get(1), fields.get(2, _NOT_COMPRESSED), fields.get(3, len(data))
        if size != len(data):
            raise ValueError(f"it declares {size} bytes of data, but has {len(data)}")
        if compression not in (_ZSTD, _NOT_COMPRESSED):
            raise ValueError(f"compression {compression} is unknown")
        if uncompressed > MAX_PAYLOAD_BYTES:
            raise ValueError(f"it declares {uncompressed} uncompressed bytes")
        inner = Cursor(inflate_zstd(data, uncompressed) if compression == _ZSTD else data)
        events = []
        while inner:
            timestamp, kind, server_id, length, end, flags = inner.fields(_HEADER)
            if length < _HEADER.size:
                raise ValueError(f"an event in it declares {length} bytes")
            if kind == _PAYLOAD:
                raise ValueError("it contains another compressed transaction")
            parsed = Header(None, kind, timestamp, server_id, length, end, flags)
            events.append(self._event(parsed, Cursor(inner.take(length - _HEADER.size))))
        return TransactionPayloadEvent(header, compression, len(data), uncompressed, tuple(events))

    def _verified_checksum(self, raw: bytes) -> int | None:
        """Verify and return the checksum, None if the event has none. Raises `RelayError` (checksum_mismatch)."""
        checked: bytes | bytearray = raw
        has_checksum = self._declared_checksums if self._checksums is None else self._checksums
        if raw[4] == _FORMAT_DESCRIPTION:  # the field is present whether or not checksums are on
            if not control.knows_checksums(control.server_version(raw[_HEADER.size :])):
                return None
            if raw[-control.CHECKSUM_FIELDS] != _CRC32:
                return int.from_bytes(raw[-_CHECKSUM_BYTES:], "little")
            has_checksum, checked = True, bytearray(raw)
            checked[_FLAGS_AT] &= ~HeaderFlag.BINLOG_IN_USE & 0xFF  # the server clears it when it closes the file
        if has_checksum is False:
            return None
        if zlib.crc32(checked) == _INTACT and len(raw) >= _HEADER.size + _CHECKSUM_BYTES:
            return int.from_bytes(raw[-_CHECKSUM_BYTES:], "little")
        if has_checksum is None:  # before any FORMAT_DESCRIPTION
            return None
        cause = f"{_name(raw[4])} does not match its checksum"
        raise RelayError(StopCode.CHECKSUM_MISMATCH, _READ, cause, position=self._state.position)


_READERS: Final[dict[int, Reader]] = {
    **control.READERS, **statements.READERS, **transactions.READERS, **rows.READERS,
}  # fmt: skip
_DEFINING_EVENTS: Final = frozenset({
    EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.FORMAT_DESCRIPTION, EventType.MARIADB_GTID,
    EventType.INCIDENT,
})  # fmt: skip
_STATE_EVENTS: Final = frozenset({EventType.FORMAT_DESCRIPTION, EventType.ROTATE})
"""The types of events that change what the decoder knows of the stream, beside definitions and table maps."""
DECODED: Final = frozenset(_READERS) | {EventType.TRANSACTION_PAYLOAD}
"""The types of events that are decoded; all others become an `UnknownEvent`."""


def _name(kind: int) -> str:
    """Return the name of an event type."""
    try:
        return EventType(kind).name
    except ValueError:
        return f"type {kind}"
