"""Reads rows of a journal as clients of the CDC protocol get them, without the code that wrote them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

from relay._native import CdcReached, CdcReader, JournalReader
from relay.cdc.container import Container
from relay.cdc.schema import avro_schema, schema_line


class Read(NamedTuple):
    """The result of a read: its stops except `end`, and the bytes of the stream between them."""

    stops: list[CdcReached]
    parts: list[bytes]
    reader: CdcReader

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of all parts; JSON numbers stay as written."""
        return [row for part in self.parts for row in rows_of(part)]


def rows_of(part: bytes) -> list[dict[str, Any]]:
    """The rows of a part of a stream, in either form."""
    if part.startswith(b"Obj\x01"):
        return list(fastavro.reader(io.BytesIO(part)))  # type: ignore[arg-type]
    assert part.endswith(b"\n") or not part
    lines = [line for line in part.split(b"\n")[:-1] if not line.startswith(b'{"namespace":')]
    return [json.loads(line) for line in lines]


def read(
    folder: Path,
    until: int,
    *,
    form: str = "json",
    values: str = "exact",
    codec: str = "null",
    position: int = 0,
    max_bytes: int = 1 << 20,
    seek: tuple[int, int] | None = None,
    schema: str = "shop",
    table: str = "t",
    domain: Any = None,
    **options: Any,
) -> Read:
    """The stream of a table from `position`: one part per schema, beginning with the schema."""
    reader = CdcReader(
        JournalReader(folder), position, schema=schema, table=table, form=form, values=values,
        domain=domain or (lambda source: 1), **options,
    )  # fmt: skip
    if seek:
        reader.seek(*seek)
    stops, parts, container, version = list[CdcReached](), [b""], None, 0
    while True:
        reached = reader.read(until, max_bytes)
        count, content = reader.take()
        if content:
            parts[-1] += container.block(count, content) if container else content
        if reached.why == "end":
            return Read(stops, parts[1:], reader)
        if reached.why not in ("full", "more"):
            stops.append(reached)
        if reached.why == "no_gtid":
            return Read(stops, parts[1:], reader)
        if reached.why == "schema":
            version += 1
            gtid = "-".join(map(str, reader.gtid))
            if form == "avro":
                container = Container(avro_schema(reader.definition, values), codec)
                parts.append(container.header)
            else:
                parts.append(schema_line(reader.definition, version, gtid, values))
