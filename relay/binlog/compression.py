"""What sources compress with zstd: MySQL's transactions. zlib, which MariaDB uses, is in the native core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import zstandard

_PART: Final = 1 << 20


def zstd_parts(data: bytes, size: int) -> Iterator[bytes]:
    """The `size` bytes that `data` holds, in parts: a transaction may be larger than memory.

    Raises `ValueError` if it is damaged or holds fewer or more. No more than a byte beyond `size` is ever made,
    whatever the data asks for.
    """
    held = 0
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            while part := reader.read(min(_PART, size + 1 - held)):
                held += len(part)
                if held > size:
                    break
                yield part
    except zstandard.ZstdError as error:
        raise ValueError(f"damaged zstd data: {error}") from error
    if held != size:
        raise ValueError(f"zstd data holds {held} bytes or more, {size} were announced")


def inflate_zstd(data: bytes, size: int) -> bytes:
    """All of `zstd_parts` at once."""
    return b"".join(zstd_parts(data, size))
