"""Ensure that a SELECT sees every transaction up to a position of the export.

A server writes its binlog first. So for a moment a transaction is in the binlog, and maybe in the journal and the lake,
while its rows are not visible. Rows read in that moment would count as newer than the change that they lack.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pymysql.connections import Connection

from relay.binlog.events.position import BinlogPosition
from relay.lake.documents import ExportPosition
from relay.lake.snapshot.session import Session, literal
from relay.source.connect import query
from relay.source.facts import ServerFacts, gtid_at
from relay.source.failures import SourceLost

_TIMEOUT_SECONDS: Final = 60.0
"""Seconds until what is in the binlog must be visible; semi-synchronous replication may delay it."""
_POLL_SECONDS: Final = 0.02


class Visibility:
    """Make changes visible with the method that suits a source."""

    def __init__(self, binlog: Connection[Any], server: ServerFacts, alive: Callable[[], None]) -> None:
        """`binlog` is a connection of the account that reads the binlog; `alive` is called in waits and may raise."""
        self._binlog = binlog
        self._server = server
        self._alive = alive
        self._executed = ("", 0, "")
        self._in_order = server.has_gtids and not server.mariadb and _commits_in_order(binlog)

    @contextmanager
    def ensure(self, exported: ExportPosition, session: Session) -> Iterator[str]:
        """Inside the block, `session` sees all changes up to `exported`. Yields what to append to each SELECT.

        Raises `SourceLost` if that is impossible.
        """
        if self._server.mariadb and not self._may_commit_prepared(session):
            self._snapshot(exported, session)
            try:
                yield ""
            finally:
                session.end()
        elif not self._server.mariadb and self._server.has_gtids and (self._in_order or not exported.gtid):
            self._wait_for(exported, session)
            yield ""
        else:
            # The SELECT waits for rows that a transaction has locked. It locks no gap, and rows only while it runs.
            session.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            yield " LOCK IN SHARE MODE"

    def _may_commit_prepared(self, session: Session) -> bool:
        """MariaDB: whether a prepared XA transaction may be committing now.

        Its XA COMMIT is in the binlog before its rows are visible, and no consistent snapshot waits for that; until
        then XA RECOVER lists it. A transaction that stays listed is not committing.
        """
        deadline = time.monotonic() + 1
        while session.execute("XA RECOVER"):
            if time.monotonic() > deadline:
                return True
            self._pause()
        return False

    def _snapshot(self, exported: ExportPosition, session: Session) -> None:
        """MariaDB: begin a consistent snapshot, whose binlog position the server reports."""
        wanted = BinlogPosition(exported.file, exported.offset)
        for _ in self._attempts(exported):
            session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            if snapshot_position(session) >= wanted:
                return
            session.end()

    def _wait_for(self, exported: ExportPosition, session: Session) -> None:
        """MySQL: wait until the GTIDs are executed, which means that their transactions are visible."""
        gtids = exported.gtid or self._gtids_before(exported)
        for _ in self._attempts(exported):
            if session.execute(f"SELECT WAIT_FOR_EXECUTED_GTID_SET({literal(gtids)}, 1)") == [(b"0",)]:
                return

    def _gtids_before(self, exported: ExportPosition) -> str:
        """Return the GTIDs at a position that has none of its own."""
        if self._executed[:2] != (exported.file, exported.offset):
            gtids = gtid_at(self._binlog, self._server, exported.file, exported.offset)
            self._executed = (exported.file, exported.offset, gtids)
        return self._executed[2]

    def _attempts(self, exported: ExportPosition) -> Iterator[None]:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            yield
            self._pause()
        raise SourceLost(f"transactions up to {exported.file}:{exported.offset} are in the binlog but not visible")

    def _pause(self) -> None:
        self._alive()
        time.sleep(_POLL_SECONDS)


def snapshot_position(session: Session) -> BinlogPosition:
    """MariaDB: the binlog position of the session's consistent snapshot."""
    found = {name: value or b"" for name, value in session.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")}
    return BinlogPosition(found[b"Binlog_snapshot_file"].decode(), int(found[b"Binlog_snapshot_position"] or b"0"))


def _commits_in_order(binlog: Connection[Any]) -> bool:
    """MySQL: whether transactions become visible in the order of the binlog."""
    return bool(query(binlog, "SELECT @@GLOBAL.binlog_order_commits", "read the source's settings")[0][0])
