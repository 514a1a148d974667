"""Read bytes from a server with bounds checks, and convert the errors of damaged bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from relay.base.errors import RelayError, StopCode


class Cursor:
    """A position in bytes. Reading beyond their end raises `ValueError`. Integers are little-endian."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = bytes(data)
        self.at = 0

    def __len__(self) -> int:
        """Return the number of bytes left."""
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        start = self.at
        taken = self.data[start : start + count]
        if len(taken) != count:
            raise ValueError(f"{count} bytes expected at {start}, but the data has {len(self)}")
        self.at = start + count
        return taken

    def rest(self) -> bytes:
        """All bytes left."""
        return self.take(len(self))

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the values of fields of fixed sizes: one call for all of them."""
        return layout.unpack(self.take(layout.size))

    def integer(self, count: int) -> int:
        """Return an unsigned integer of `count` bytes."""
        return int.from_bytes(self.take(count), "little")

    def signed(self, count: int) -> int:
        """Return a signed integer of `count` bytes."""
        return int.from_bytes(self.take(count), "little", signed=True)

    def length(self) -> int:
        """Return a length-encoded integer."""
        first = self.integer(1)
        if first < 0xFB:
            return first
        if first == 0xFB or first == 0xFF:
            raise ValueError(f"{first:#x} is not a length")
        return self.integer({0xFC: 2, 0xFD: 3, 0xFE: 8}[first])

    def text(self) -> bytes:
        """Return a length-encoded string."""
        return self.take(self.length())

    def varlen(self) -> int:
        """Return an unsigned integer of mysql::serialization.

        The lowest bits of the first byte are a one for each byte that follows, then a zero. The number is above it.
        """
        first = self.integer(1)
        more = (~first & (first + 1)).bit_length() - 1  # its lowest ones
        if more == 8:
            return self.integer(8)
        return first >> (more + 1) | self.integer(more) << (7 - more)

    def signed_varlen(self) -> int:
        """Return a signed integer of mysql::serialization: the lowest bit is the sign."""
        number = self.varlen()
        return ~(number >> 1) if number & 1 else number >> 1

    def short_text(self) -> bytes:
        """Return a string with its length in one byte before it."""
        return self.take(self.integer(1))

    def terminated(self) -> bytes:
        """Return a string up to its zero byte; the cursor moves beyond that."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise ValueError(f"unterminated text at {self.at}")
        return self.take(end - self.at + 1)[:-1]


@contextmanager
def reading(operation: str, what: str, position: str = "") -> Iterator[None]:
    """Convert errors of reading to `RelayError` (unknown_event) with the cause "`what` is malformed"."""
    try:
        yield
    except (ValueError, IndexError) as error:
        raise malformed(operation, what, position, error) from error


def malformed(operation: str, what: str, position: str, cause: Exception | str) -> RelayError:
    """Return the error (unknown_event) that says "`what` is malformed: `cause`"."""
    return RelayError(StopCode.UNKNOWN_EVENT, operation, f"{what} is malformed: {cause}", position=position)
