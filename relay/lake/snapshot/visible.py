"""Makes sure that a SELECT sees every transaction up to a place of the export.

A transaction is in the binlog, and may be in the journal and the lake, a moment before its rows are to be seen: the
server writes its binlog first. Rows fetched in that moment would be taken for newer than the change that they lack.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from pymysql.connections import Connection

from relay.binlog.connect import query
from relay.binlog.facts import ServerFacts, gtid_at
from relay.binlog.failures import SourceLost
from relay.binlog.place import Place as BinlogPlace
from relay.lake.documents import Place
from relay.lake.snapshot.session import Session, literal

_PATIENCE: Final = 60.0
"""Seconds for what is in the binlog to be seen; semi-synchronous replication may hold it back for some."""
_LOOK_SECONDS: Final = 0.02


class Reading(NamedTuple):
    """Rows may be read now; `lock` comes last in their SELECT."""

    lock: str = ""


class Visibility:
    """The way that is right for a source."""

    def __init__(self, binlog: Connection[Any], server: ServerFacts, alive: Callable[[], None]) -> None:
        """`binlog`: for questions about it; `alive` is called while this waits, and may raise."""
        self._binlog = binlog
        self._server = server
        self._alive = alive
        self._executed = ("", 0, "")
        self._in_order = server.has_gtids and not server.mariadb and _commits_in_order(binlog)

    @contextmanager
    def of(self, place: Place, session: Session) -> Iterator[Reading]:
        """What `session` reads inside holds all changes up to `place`. Raises `SourceLost` if that cannot be had."""
        if self._server.mariadb and not self._ends_prepared(session):
            self._snapshot(place, session)
            try:
                yield Reading()
            finally:
                session.end()
        elif not self._server.mariadb and self._server.has_gtids and (self._in_order or not place.gtid):
            self._wait_for(place, session)
            yield Reading()
        else:
            # A row that a transaction still holds is waited for; no gap is locked, and no row beyond this statement.
            session.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            yield Reading(" LOCK IN SHARE MODE")

    def _ends_prepared(self, session: Session) -> bool:
        """MariaDB: whether a prepared XA transaction may be ending now.

        Its XA COMMIT is in the binlog before its rows are to be seen, and no consistent snapshot waits for that; until
        then XA RECOVER lists it. Those that are listed for longer are not ending.
        """
        deadline = time.monotonic() + 1
        while session.execute("XA RECOVER"):
            if time.monotonic() > deadline:
                return True
            self._rest()
        return False

    def _snapshot(self, place: Place, session: Session) -> None:
        """MariaDB: a snapshot of which the server says up to where in the binlog it goes."""
        wanted = BinlogPlace(place.file, place.offset)
        for _ in self._attempts(place):
            session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            if snapshot_place(session) >= wanted:
                return
            session.end()

    def _wait_for(self, place: Place, session: Session) -> None:
        """MySQL: GTIDs count as executed once their transactions are to be seen."""
        gtids = place.gtid or self._gtids_before(place)
        for _ in self._attempts(place):
            if session.execute(f"SELECT WAIT_FOR_EXECUTED_GTID_SET({literal(gtids)}, 1)") == [(b"0",)]:
                return

    def _gtids_before(self, place: Place) -> str:
        """Of a place without a transaction of its own."""
        if self._executed[:2] != (place.file, place.offset):
            gtids = gtid_at(self._binlog, self._server, place.file, place.offset)
            self._executed = (place.file, place.offset, gtids)
        return self._executed[2]

    def _attempts(self, place: Place) -> Iterator[None]:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            yield
            self._rest()
        raise SourceLost(f"transactions up to {place.file}:{place.offset} are in the binlog and not to be seen")

    def _rest(self) -> None:
        self._alive()
        time.sleep(_LOOK_SECONDS)


def snapshot_place(session: Session) -> BinlogPlace:
    """MariaDB: the place in the binlog of the consistent snapshot that the session is in."""
    found = {name: value or b"" for name, value in session.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")}
    return BinlogPlace(found[b"Binlog_snapshot_file"].decode(), int(found[b"Binlog_snapshot_position"] or b"0"))


def _commits_in_order(binlog: Connection[Any]) -> bool:
    """MySQL: whether transactions come to be seen in the order of the binlog."""
    return bool(query(binlog, "SELECT @@GLOBAL.binlog_order_commits", "read the source's settings")[0][0])
