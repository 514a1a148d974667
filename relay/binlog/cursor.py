"""Bounds-checked reading of bytes that came from a server, and the error that damage becomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from relay.errors import RelayError, StopCode


class Cursor:
    """A place in some bytes. Whatever reads beyond their end raises `ValueError`; integers are little-endian."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = bytes(data)
        self.at = 0

    def __len__(self) -> int:
        """How many bytes are left."""
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        start, end = self.at, self.at + count
        if end > len(self.data):
            raise ValueError(f"{count} bytes expected at {start}, {len(self)} there")
        self.at = end
        return self.data[start:end]

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self))

    def integer(self, count: int) -> int:
        """An unsigned integer of `count` bytes."""
        return int.from_bytes(self.take(count), "little")

    def signed(self, count: int) -> int:
        """A signed integer of `count` bytes."""
        return int.from_bytes(self.take(count), "little", signed=True)

    def length(self) -> int:
        """A length-encoded integer."""
        first = self.integer(1)
        if first < 0xFB:
            return first
        if first == 0xFB or first == 0xFF:
            raise ValueError(f"{first:#x} is no length")
        return self.integer({0xFC: 2, 0xFD: 3, 0xFE: 8}[first])

    def text(self) -> bytes:
        """A length-encoded string."""
        return self.take(self.length())

    def varlen(self) -> int:
        """An unsigned integer as mysql::serialization writes it: the ones at the end of the first byte count the bytes
        that follow; the number is above the first zero."""
        first = self.integer(1)
        more = (~first & (first + 1)).bit_length() - 1  # ones at its end
        if more == 8:
            return self.integer(8)
        return first >> (more + 1) | self.integer(more) << (7 - more)

    def signed_varlen(self) -> int:
        """A signed integer as mysql::serialization writes it: the lowest bit is the sign."""
        number = self.varlen()
        return ~(number >> 1) if number & 1 else number >> 1

    def short_text(self) -> bytes:
        """A string after its length in one byte."""
        return self.take(self.integer(1))

    def terminated(self) -> bytes:
        """A string up to its zero byte, which is passed."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise ValueError(f"no end of the text at {self.at}")
        return self.take(end - self.at + 1)[:-1]


@contextmanager
def reading(operation: str, what: str, position: str = "") -> Iterator[None]:
    """Turn what reading raises on damaged bytes into `RelayError` (unknown_event): `what` "is malformed"."""
    try:
        yield
    except (ValueError, IndexError) as error:
        raise RelayError(
            StopCode.UNKNOWN_EVENT, operation, f"{what} is malformed: {error}", position=position
        ) from error
