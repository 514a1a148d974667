"""Split the bytes of a connection into packets of MySQL's protocol, and join those above 16 MB. Bytes in, no I/O."""

from __future__ import annotations

from typing import Final

_HEAD: Final = 4
_LONGEST: Final = 0xFFFFFF  # a packet of this length is continued by the next
_BUFFER_BYTES: Final = 1 << 18


class Packets:
    """Make packets of received bytes."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._data = bytearray()
        self._parts: list[bytes] = []  # of an incomplete packet

    def buffer(self) -> memoryview:
        """Return the buffer to receive into; `received` must follow."""
        return self._buffer

    def received(self, count: int) -> None:
        """Add `count` bytes from the buffer."""
        self._data += self._buffer[:count]

    def next(self) -> bytes | None:
        """Return the next packet's payload, None if it is incomplete."""
        while len(self._data) >= _HEAD:
            size = int.from_bytes(self._data[:3], "little")
            if len(self._data) < _HEAD + size:
                return None
            with memoryview(self._data) as data:
                self._parts.append(bytes(data[_HEAD : _HEAD + size]))
            del self._data[: _HEAD + size]
            if size < _LONGEST:
                payload = b"".join(self._parts)
                self._parts = []
                return payload
        return None
