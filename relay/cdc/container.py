"""Avro container files as a stream: a header for each schema, and blocks of records that native code has encoded."""

from __future__ import annotations

import json
import secrets
import zlib
from typing import Any, Final

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16


class Container:
    """One container: `header` comes first, then the blocks. `codec` is null or deflate."""

    def __init__(self, schema: dict[str, Any], codec: str = "null") -> None:
        self._codec = codec
        self._sync = secrets.token_bytes(_SYNC_BYTES)
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()
        meta = {"avro.codec": codec.encode(), "avro.schema": text}
        pairs = b"".join(_avro_bytes(key.encode()) + _avro_bytes(value) for key, value in meta.items())
        self.header: Final = _MAGIC + _avro_long(len(meta)) + pairs + _avro_long(0) + self._sync

    def block(self, count: int, records: bytes) -> bytes:
        """Build a block of `count` encoded records."""
        if self._codec == "deflate":
            deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            records = deflate.compress(records) + deflate.flush()
        return _avro_long(count) + _avro_bytes(records) + self._sync


def _avro_long(number: int) -> bytes:
    """Encode a number that is not negative: twice the number, seven bits a byte, the lowest ones first."""
    number *= 2
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _avro_bytes(data: bytes) -> bytes:
    return _avro_long(len(data)) + data
