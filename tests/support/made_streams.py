"""Constructed streams: their beginning, and transactions of one table."""

from __future__ import annotations

from tests.support import binlogs
from tests.support.binlogs import StreamPosition

START = StreamPosition("binlog.000001", 4)


def plain(*packets: bytes, start: StreamPosition = START) -> bytes:
    return binlogs.opening(*start) + b"".join(packets)


def transaction(number: int, at: int, rows: int = 1, table_id: int = 5, table: str = "t") -> bytes:
    """BEGIN, map, rows, COMMIT in the 1000 bytes of the binlog up to `at` + 1000."""
    return (
        binlogs.query("BEGIN", at + 100)
        + binlogs.table_map(table_id, table, at + 200)
        + binlogs.write_rows(table_id, [number] * rows, at + 900)
        + binlogs.xid(at + 1000)
    )
