"""Decompress MySQL's compressed transactions (zstd). The native core decompresses MariaDB's zlib."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

_PART: Final = 1 << 17  # the most that a block of zstd holds


def zstd_parts(data: bytes, size: int) -> Iterator[bytes]:
    """Decompress `data` to `size` bytes, in parts: a transaction may be larger than memory.

    Raises `ValueError` if it is damaged or has fewer or more bytes. At most `size` + 1 bytes are decompressed.
    """
    if sys.version_info >= (3, 14):  # imported here: few sources compress, and it takes half a MB
        from compression import zstd
    else:
        from backports import zstd

    decompressor, fed, done = zstd.ZstdDecompressor(), 0, 0
    try:
        while not decompressor.eof and done <= size:
            piece = memoryview(data)[fed : fed + _PART] if decompressor.needs_input else b""
            if decompressor.needs_input and not piece:
                break
            fed += len(piece)
            part = decompressor.decompress(piece, min(_PART, size + 1 - done))
            done += len(part)
            if part and done <= size:
                yield part
    except zstd.ZstdError as error:
        raise ValueError(f"damaged zstd data: {error}") from error
    if done != size:
        raise ValueError(f"zstd data holds {done} bytes or more, {size} were announced")


def inflate_zstd(data: bytes, size: int) -> bytes:
    """Return the parts of `zstd_parts`, joined."""
    return b"".join(zstd_parts(data, size))
