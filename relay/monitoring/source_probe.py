"""Probe the source over a separate connection: the end of its binlog, what the relay lacks, when it purges."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pymysql.connections import Connection

from relay.base.errors import RelayError
from relay.runtime.process_status import Watch
from relay.source import connect, facts
from relay.source.connect import Account
from relay.source.failures import SourceLost

FilePosition = tuple[str, int]
"""A file of the source's binlog, and a position in it."""


class SourceProbe:
    """Probe a source over its own connection, which it keeps open."""

    def __init__(self) -> None:
        self._account: Account | None = None
        self._connection: Connection[Any] | None = None
        self._expiry: int | None = None

    def run(self, account: Account, position: Callable[[], FilePosition]) -> Watch:
        """Query a source, which may take until a timeout.

        `position` returns the binlog position that the journal has reached. Failures are reported in the result.
        """
        try:
            if self._connection is not None and account == self._account:
                try:
                    return self._query(self._connection, position)
                except SourceLost:  # a source closes idle connections, and all when it restarts
                    self.close()
            return self._query(self._connected(account), position)
        except (RelayError, SourceLost, OSError) as error:
            self.close()
            return Watch(at=time.time(), expiry=self._expiry, trouble=str(error))

    def close(self) -> None:
        """Close the connection; the next probe connects again."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _connected(self, account: Account) -> Connection[Any]:
        self.close()
        self._account, self._connection = account, connect.connect(account)
        return self._connection

    def _query(self, connection: Connection[Any], position: Callable[[], FilePosition]) -> Watch:
        server = facts.query_facts(connection)
        self._expiry = server.expiry
        end = facts.binlog_position(connection, server)
        # Read after the query: bytes before that end that the journal lacks now are certainly unread.
        file, offset = position()
        watch = Watch(at=time.time(), file=end.file, position=end.position, expiry=self._expiry)
        if file == end.file:
            watch.lag_bytes = max(0, end.position - offset)
            return watch
        sizes = facts.binlog_sizes(connection)
        if file in sizes and end.file in sizes:
            watch.lag_bytes = bytes_between(sizes, (file, offset), (end.file, end.position))
        else:
            watch.trouble = f"the source has no binlog {file}" if file else "nothing read from the source yet"
        return watch


def bytes_between(sizes: dict[str, int], here: FilePosition, end: FilePosition) -> int:
    """Bytes of binlogs between two positions, 0 if `end` is not after `here`.

    `sizes` are in the order of the binlogs.
    """
    files = list(sizes)
    first, last = files.index(here[0]), files.index(end[0])
    return max(0, sum(sizes[file] for file in files[first:last]) - here[1] + end[1]) if first <= last else 0
