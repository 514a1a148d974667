"""Avro container files as a stream: a header for each schema, and blocks of records that native code has encoded."""

from __future__ import annotations

import io
import json
import secrets
import zlib
from typing import Any, Final

import fastavro

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_HEADER: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(_MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC_BYTES}},
        ],
    }
)
_BLOCK: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Block",
        "fields": [{"name": "count", "type": "long"}, {"name": "data", "type": "bytes"}],
    }
)


class Container:
    """One container: `header` comes first, then the blocks. `codec` is null or deflate."""

    def __init__(self, schema: dict[str, Any], codec: str = "null") -> None:
        fastavro.parse_schema(schema)  # an invalid schema raises here, not in a client
        self._codec = codec
        self._sync = secrets.token_bytes(_SYNC_BYTES)
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()
        meta = {"avro.codec": codec.encode(), "avro.schema": text}
        self.header: Final = _encoded(_HEADER, {"magic": _MAGIC, "meta": meta, "sync": self._sync})

    def block(self, count: int, records: bytes) -> bytes:
        """Build a block of `count` encoded records."""
        if self._codec == "deflate":
            deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            records = deflate.compress(records) + deflate.flush()
        return _encoded(_BLOCK, {"count": count, "data": records}) + self._sync


def _encoded(schema: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()
