"""Fields of the lake as the columns of a Delta table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from relay.lake.documents import Field

_TYPES: Final = {
    "tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long",
    "array<string>": {"type": "array", "elementType": "string", "containsNull": True},
    "array<binary>": {"type": "array", "elementType": "binary", "containsNull": True},
}  # fmt: skip
"""Delta's names of types that differ from those of the lake."""


def schema_string(fields: Sequence[Field]) -> str:
    """Return the JSON of a table's columns: all may be NULL, with the source's type as metadata."""
    columns: list[dict[str, Any]] = [
        {
            "name": field.name,
            "type": _TYPES.get(field.type, field.type),
            "nullable": True,
            "metadata": {"source_type": field.source_type} if field.source_type and not field.side else {},
        }
        for field in fields
    ]
    return msgspec.json.encode({"type": "struct", "fields": columns}).decode()
