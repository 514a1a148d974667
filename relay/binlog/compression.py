"""What sources compress: MariaDB rows and statements with zlib, MySQL transactions with zstd."""

from __future__ import annotations

import zlib

import zstandard


def decompress(algorithm: str, data: bytes, size: int) -> bytes:
    """The `size` bytes that `data` holds, "zlib" or "zstd". Raises `ValueError` if it holds anything else.

    No more than `size` bytes are ever made, whatever the data asks for.
    """
    if algorithm == "zstd":
        try:
            inflated = zstandard.ZstdDecompressor().stream_reader(data).read(size + 1)
        except zstandard.ZstdError as error:
            raise ValueError(f"damaged zstd data: {error}") from error
    else:
        try:
            inflated = zlib.decompressobj().decompress(data, size + 1)
        except zlib.error as error:
            raise ValueError(f"damaged zlib data: {error}") from error
    if len(inflated) != size:
        raise ValueError(f"{algorithm} data holds {len(inflated)} bytes or more, {size} were announced")
    return inflated
