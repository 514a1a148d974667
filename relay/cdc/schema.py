"""Schemas for clients of the CDC protocol (docs/cdc.md): the line before rows in JSON, and Avro schemas."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from relay._native import cdc_fields
from relay.journal.frames import Definition

NAME: Final = "ChangeRecord"
NAMESPACE: Final = "MaxScaleChangeDataSchema.avro"
NUMBERS: Final = ("domain", "server_id", "sequence", "event_number", "timestamp")
"""The fields before those of the columns, all `long`: ids of servers and seconds are unsigned 32-bit numbers."""
EVENT_TYPES: Final = {
    "type": "enum",
    "name": "EVENT_TYPES",
    "symbols": ["insert", "update_before", "update_after", "delete"],
}


def schema_line(definition: bytes, version: int, gtid: str, values: str = "exact") -> bytes:
    """Return the line before rows of a packed definition, with its line end.

    `version` counts the table's definitions from 1; `gtid` is the triplet of the statement that made this definition.
    """
    named = msgspec.msgpack.decode(definition, type=Definition)
    generated: list[dict[str, Any]] = [{"name": name, "type": "long"} for name in NUMBERS]
    columns = [
        {
            "name": field.name,
            "type": ["null", field.type],
            "real_type": field.real_type,
            "length": field.length,
            "unsigned": field.unsigned,
        }
        for field in cdc_fields(definition, values)
    ]
    schema = {
        "namespace": NAMESPACE,
        "type": "record",
        "name": NAME,
        "table": named.table,
        "database": named.schema,
        "version": version,
        "gtid": gtid,
        "fields": [*generated, {"name": "event_type", "type": EVENT_TYPES}, *columns],
    }
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def avro_schema(definition: bytes, values: str = "exact") -> dict[str, Any]:
    """Return the Avro schema of records of a packed definition, in the form of MaxScale's containers."""
    generated: list[dict[str, Any]] = [{"name": name, "type": {"type": "long"}} for name in NUMBERS]
    columns = [
        {
            "name": field.name,
            "type": [{"type": kind} for kind in ("null", field.type, *(["string"] if field.wide else []))],
        }
        for field in cdc_fields(definition, values)
    ]
    return {
        "type": "record",
        "name": NAME,
        "namespace": NAMESPACE,
        "fields": [*generated, {"name": "event_type", "type": EVENT_TYPES}, *columns],
    }
