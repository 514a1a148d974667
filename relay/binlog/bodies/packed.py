"""Decompress the parts of events that MariaDB compresses (log_bin_compress)."""

from __future__ import annotations

from relay._native import Cursor, inflate_zlib


def inflated(data: bytes) -> bytes:
    """Decompress a statement or row images: a head with the size, and a zlib stream.

    The head is a byte (0x80 | algorithm << 4 | bytes of the size) and the size, big-endian.
    """
    packed = Cursor(data)
    head = packed.integer(1)
    width = head & 0x07
    if not head & 0x80 or head & 0x70 or not 1 <= width <= 4:
        raise ValueError(f"{head:#x} is not a header of compressed data")
    size = int.from_bytes(packed.take(width), "big")
    return inflate_zlib(packed.rest(), size)
