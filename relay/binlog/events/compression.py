"""Decompress MySQL's compressed transactions (zstd). The native core decompresses MariaDB's zlib."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import zstandard

_PART: Final = 1 << 20


def zstd_parts(data: bytes, size: int) -> Iterator[bytes]:
    """Decompress `data` to `size` bytes, in parts: a transaction may be larger than memory.

    Raises `ValueError` if it is damaged or has fewer or more bytes. At most `size` + 1 bytes are decompressed.
    """
    done = 0
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            while part := reader.read(min(_PART, size + 1 - done)):
                done += len(part)
                if done > size:
                    break
                yield part
    except zstandard.ZstdError as error:
        raise ValueError(f"damaged zstd data: {error}") from error
    if done != size:
        raise ValueError(f"zstd data holds {done} bytes or more, {size} were announced")


def inflate_zstd(data: bytes, size: int) -> bytes:
    """Return the parts of `zstd_parts`, joined."""
    return b"".join(zstd_parts(data, size))
