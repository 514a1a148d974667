"""What a body needs to know of the events before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from relay._native import decode_text
from relay.binlog.cursor import Cursor
from relay.binlog.events import Event, EventType, Header, TableMapEvent
from relay.binlog.learned import Learned


@dataclass
class State:
    """Of one stream, in its order."""

    charset_of: Mapping[int, str]
    """Character sets by collation."""
    learned: Learned
    """What the statements so far tell of tables."""
    table_maps: dict[int, tuple[bytes, TableMapEvent]] = field(default_factory=dict)
    """The last of each table number, and its body."""
    header_lengths: bytes = b""
    """Bytes of the fixed part of each event type's body, from type 1 on; empty before a FORMAT_DESCRIPTION."""
    mariadb: bool | None = None
    """Whether a MariaDB server wrote it, as its FORMAT_DESCRIPTION says; None before there was one."""
    position: str = ""
    """Of the event that is being read, for errors."""

    def table_map(self, table_id: int) -> TableMapEvent | None:
        """The last of that number."""
        known = self.table_maps.get(table_id)
        return known and known[1]

    def header_length(self, kind: EventType, usual: int) -> int:
        """Bytes of the fixed part of an event's body."""
        return self.header_lengths[kind - 1] if kind <= len(self.header_lengths) else usual

    def text(self, collation: int | None, data: bytes) -> str:
        """As `text_of`."""
        return text_of(self.charset_of, collation, data)


Reader: TypeAlias = Callable[[Header, Cursor, State], Event]
"""Reads a body; raises `ValueError` where it is damaged."""


def utf8(data: bytes) -> str:
    """Names and comments are UTF-8 on every server; U+FFFD stands for bytes that are none."""
    return data.decode("utf-8", "replace")


def text_of(charset_of: Mapping[int, str], collation: int | None, data: bytes) -> str:
    """Text in the character set of a collation; U+FFFD stands for bytes that are none of it.

    UTF-8 where no collation is told; ASCII where the character set is not known here.
    """
    charset = charset_of.get(collation, "") if collation else "utf8mb4"
    if charset in ("binary", "utf8", "utf8mb3", "utf8mb4"):
        return utf8(data)
    try:
        return decode_text(charset, data)
    except LookupError:
        return data.decode("ascii", "replace")
