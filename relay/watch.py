"""A look at the source from the side: where its binlog ends, how much of it the relay lacks, when it purges."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pymysql.connections import Connection

from relay.binlog import connect, facts
from relay.binlog.connect import Account
from relay.binlog.failures import SourceLost
from relay.board import Watch
from relay.errors import RelayError

Place = tuple[str, int]
"""A file of the source's binlog, and a position in it."""


class Watcher:
    """Looks at a source by a connection of its own, which it keeps."""

    def __init__(self) -> None:
        self._account: Account | None = None
        self._connection: Connection[Any] | None = None
        self._expiry: int | None = None

    def look(self, account: Account, place: Callable[[], Place]) -> Watch:
        """Ask a source, which may take until a timeout; `place` tells up to where the journal has its binlog.

        What fails is told in the answer.
        """
        try:
            if self._connection is not None and account == self._account:
                try:
                    return self._look(self._connection, place)
                except SourceLost:  # a source hangs up on idle connections, and when it is started again
                    self.close()
            return self._look(self._connected(account), place)
        except (RelayError, SourceLost, OSError) as error:
            self.close()
            return Watch(at=time.time(), expiry=self._expiry, trouble=str(error))

    def close(self) -> None:
        """Hang up; the next look connects again."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _connected(self, account: Account) -> Connection[Any]:
        self.close()
        self._account, self._connection = account, connect.connect(account)
        return self._connection

    def _look(self, connection: Connection[Any], place: Callable[[], Place]) -> Watch:
        server = facts.facts(connection)
        self._expiry = server.expiry
        end = facts.binlog_position(connection, server)
        # Asked afterwards: what the relay lacks of what there was a moment ago, it does lack.
        file, position = place()
        seen = Watch(at=time.time(), file=end.file, position=end.position, expiry=self._expiry)
        if file == end.file:
            seen.lag_bytes = max(0, end.position - position)
            return seen
        sizes = facts.binlog_sizes(connection)
        if file in sizes and end.file in sizes:
            seen.lag_bytes = bytes_between(sizes, (file, position), (end.file, end.position))
        else:
            seen.trouble = f"the source has no binlog {file}" if file else "nothing was read from the source yet"
        return seen


def bytes_between(sizes: dict[str, int], here: Place, end: Place) -> int:
    """Bytes of binlogs from one place to another, 0 if that is not behind it; `sizes` are in the binlogs' order."""
    files = list(sizes)
    first, last = files.index(here[0]), files.index(end[0])
    return max(0, sum(sizes[file] for file in files[first:last]) - here[1] + end[1]) if first <= last else 0
