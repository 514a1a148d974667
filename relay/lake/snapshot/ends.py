"""Places in the source's binlog: where what a snapshot saw ends."""

from __future__ import annotations

from typing import Any, Final

from pymysql.connections import Connection

from relay.binlog.connect import query
from relay.binlog.facts import ServerFacts, binlog_position
from relay.binlog.place import Place

_BOOKKEEPING: Final = frozenset({
    "Format_desc", "Previous_gtids", "Rotate", "Stop", "Gtid_list", "Binlog_checkpoint", "Start_encryption",
    "Heartbeat", "Ignorable",
})  # fmt: skip
"""Events that change nothing. The export does not note that it has passed them."""
_PAGE: Final = 1000
_MOST_PAGES: Final = 50
_FIRST: Final = 4
_32_BITS: Final = 1 << 32


def binlog_end(binlog: Connection[Any], server: ServerFacts) -> Place:
    """Where the binlog ends now."""
    end = binlog_position(binlog, server)
    return Place(end.file, end.position)


def last_change(binlog: Connection[Any], start: Place, end: Place) -> Place:
    """The end of the last event between two places that may change rows; `start` if there is none.

    What an export that stands at `start` has to pass until it has all up to `end`. If there is so much between them
    that more is sure to follow, that is `end` itself.
    """
    found, pages = start, 0
    files = [str(row[0]) for row in query(binlog, "SHOW BINARY LOGS", "list the binlog's files")]
    for file in files:
        at = start.position if file == start.file else _FIRST
        while start <= Place(file, at) < end:
            pages += 1
            if pages > _MOST_PAGES or at >= _32_BITS:
                return end
            sql = f"SHOW BINLOG EVENTS IN {binlog.escape(file)} FROM {at} LIMIT {_PAGE}"
            rows = query(binlog, sql, "look at the end of the binlog")
            for _, _, kind, _, after, _ in rows:
                at = int(after)
                if str(kind) not in _BOOKKEEPING:
                    found = max(found, min(Place(file, at), end))
            if len(rows) < _PAGE:
                break
    return found
