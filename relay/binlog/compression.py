"""What sources compress with zstd: MySQL's transactions. zlib, which MariaDB uses, is in the native core."""

from __future__ import annotations

import zstandard


def inflate_zstd(data: bytes, size: int) -> bytes:
    """The `size` bytes that `data` holds. Raises `ValueError` if it is damaged or holds fewer or more.

    No more than a byte beyond `size` is ever made, whatever the data asks for.
    """
    try:
        inflated = zstandard.ZstdDecompressor().stream_reader(data).read(size + 1)
    except zstandard.ZstdError as error:
        raise ValueError(f"damaged zstd data: {error}") from error
    if len(inflated) != size:
        raise ValueError(f"zstd data holds {len(inflated)} bytes or more, {size} were announced")
    return inflated
