"""Packets of MySQL's protocol out of the bytes of a connection, those above 16 MB joined. Bytes in, no I/O."""

from __future__ import annotations

from typing import Final

_HEAD: Final = 4
_LONGEST: Final = 0xFFFFFF  # and continued by the next
_ROOM: Final = 1 << 18


class Packets:
    """Takes what was received as it comes, and gives it back packet by packet."""

    def __init__(self) -> None:
        self._room = memoryview(bytearray(_ROOM))
        self._data = bytearray()
        self._parts: list[bytes] = []  # of a packet that goes on

    def room(self) -> memoryview:
        """Where to receive to; then say how much with `received`."""
        return self._room

    def received(self, count: int) -> None:
        """`count` bytes were put into the room."""
        self._data += self._room[:count]

    def next(self) -> bytes | None:
        """The next packet's payload, None if it is not here yet."""
        while len(self._data) >= _HEAD:
            size = int.from_bytes(self._data[:3], "little")
            if len(self._data) < _HEAD + size:
                return None
            with memoryview(self._data) as data:
                self._parts.append(bytes(data[_HEAD : _HEAD + size]))
            del self._data[: _HEAD + size]
            if size < _LONGEST:
                payload = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts = []
                return payload
        return None
