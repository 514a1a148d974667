"""The state of a stream that event bodies depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from relay._native import Cursor, decode_text
from relay.binlog.events import Event, EventType, Header, TableMapEvent
from relay.binlog.events.damage import event_position
from relay.schema.stream_history import StreamHistory


@dataclass
class State:
    """The state of one stream, after the events so far."""

    charset_of: Mapping[int, str]
    """Character sets by collation."""
    history: StreamHistory
    """The table definitions from the statements so far."""
    table_maps: dict[int, tuple[bytes, TableMapEvent]] = field(default_factory=dict)
    """The last table map of each table number, with its body."""
    header_lengths: bytes = b""
    """The bytes of the fixed part of each event type's body, from type 1 on; empty before a FORMAT_DESCRIPTION."""
    mariadb: bool | None = None
    """Whether a MariaDB server wrote the stream, by its FORMAT_DESCRIPTION; None before the first."""
    file: str = ""
    """The current file, as the last ROTATE names it."""
    end: int = 0
    """Where the current event ends in the file, and `length`, its bytes, as its header says."""
    length: int = 0

    @property
    def position(self) -> str:
        """The position of the current event, for errors."""
        return event_position(self.end, self.length, self.file)

    def table_map(self, table_id: int) -> TableMapEvent | None:
        """Return the last table map of that number."""
        known = self.table_maps.get(table_id)
        return known and known[1]

    def header_length(self, kind: EventType, usual: int) -> int:
        """Return the size of the fixed part of an event's body in bytes; `usual` if unknown."""
        return self.header_lengths[kind - 1] if kind <= len(self.header_lengths) else usual


Reader: TypeAlias = Callable[[Header, Cursor, State], Event]
"""Parses a body; raises `ValueError` if it is damaged."""


def undecoded(kind: Callable[[Header, bytes], Event], header: Header, body: Cursor, state: State) -> Event:
    """Return an event with the bytes of its body."""
    return kind(header, body.rest())


def utf8(data: bytes) -> str:
    """Decode a name or comment, which is UTF-8 on every server; invalid bytes become U+FFFD."""
    return data.decode("utf-8", "replace")


def text_of(charset_of: Mapping[int, str], collation: int | None, data: bytes) -> str:
    """Decode text in the character set of a collation; invalid bytes become U+FFFD.

    The character set is UTF-8 without a collation, and ASCII if it is unknown here.
    """
    charset = charset_of.get(collation, "") if collation else "utf8mb4"
    if charset in ("binary", "utf8", "utf8mb3", "utf8mb4"):
        return utf8(data)
    try:
        return decode_text(charset, data)
    except LookupError:
        return data.decode("ascii", "replace")
