"""Binlog positions that mark the end of what a snapshot has read."""

from __future__ import annotations

from typing import Any, Final

from pymysql.connections import Connection

from relay.binlog.events.position import BinlogPosition
from relay.source.connect import query
from relay.source.facts import ServerFacts, binlog_position

_BOOKKEEPING: Final = frozenset({
    "Format_desc", "Previous_gtids", "Rotate", "Stop", "Gtid_list", "Binlog_checkpoint", "Start_encryption",
    "Heartbeat", "Ignorable",
})  # fmt: skip
"""Events that change nothing. The export does not record that it has passed them."""
_PAGE: Final = 1000
_MOST_PAGES: Final = 50
_FIRST: Final = 4
_32_BITS: Final = 1 << 32


def binlog_end(binlog: Connection[Any], server: ServerFacts) -> BinlogPosition:
    """Return the current end of the binlog."""
    end = binlog_position(binlog, server)
    return BinlogPosition(end.file, end.position)


def last_change(binlog: Connection[Any], start: BinlogPosition, end: BinlogPosition) -> BinlogPosition:
    """Return the end of the last event between two positions that may change rows; `start` if there is none.

    An export at `start` has everything up to `end` once it has passed this position. If there is so much between the
    two that more will certainly follow, the result is `end` itself.
    """
    found, pages = start, 0
    files = [str(row[0]) for row in query(binlog, "SHOW BINARY LOGS", "list the binlog's files")]
    for file in files:
        at = start.position if file == start.file else _FIRST
        while start <= BinlogPosition(file, at) < end:
            pages += 1
            if pages > _MOST_PAGES or at >= _32_BITS:
                return end
            sql = f"SHOW BINLOG EVENTS IN {binlog.escape(file)} FROM {at} LIMIT {_PAGE}"
            rows = query(binlog, sql, "read the end of the binlog")
            for _, _, kind, _, after, _ in rows:
                at = int(after)
                if str(kind) not in _BOOKKEEPING:
                    found = max(found, min(BinlogPosition(file, at), end))
            if len(rows) < _PAGE:
                break
    return found
