"""Open sessions for tables without a key: one SELECT reads all rows, at an exactly known binlog position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pymysql.connections import Connection

from relay.binlog.events.position import BinlogPosition
from relay.lake.documents import Table
from relay.lake.snapshot.ends import binlog_end
from relay.lake.snapshot.session import Session, literal
from relay.lake.snapshot.source import Source
from relay.lake.snapshot.visible import snapshot_position
from relay.source.connect import query
from relay.source.facts import ServerFacts
from relay.source.failures import SourceLost

_ATTEMPTS: Final = 50
_REST_SECONDS: Final = 0.1


@contextmanager
def consistent_session(
    connections: Source, table: Table, source: str, alive: Callable[[], None]
) -> Iterator[tuple[Session, BinlogPosition]]:
    """Yield a session and a binlog position. The session sees all changes of the table up to there, and none after it.

    Writers are blocked only while the transaction begins, except for a table whose engine has no transactions: it is
    locked while it is read. Raises `SourceLost` if the table cannot be read.
    """
    account, metadata, server, binlog = connections
    with Session(account, server) as session:
        if not _has_transactions(metadata, table):
            session.execute(f"LOCK TABLES {source} READ")
            yield session, binlog_end(binlog, server)
        elif server.mariadb:
            yield session, _begin_consistent(session, binlog, server, alive)
        else:
            with Session(account, server) as holding:
                holding.execute(f"LOCK TABLES {source} READ")
                session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
                position = binlog_end(binlog, server)
            yield session, position


def _has_transactions(metadata: Connection[Any], table: Table) -> bool:
    rows = query(
        metadata,
        "SELECT TRANSACTIONS FROM information_schema.ENGINES AS e JOIN information_schema.TABLES AS t USING (ENGINE)"
        f" WHERE TABLE_SCHEMA = {metadata.escape(table.schema)} AND TABLE_NAME = {metadata.escape(table.table)}",
        f"read the engine of {table}",
    )
    return bool(rows) and rows[0][0] == "YES"


def _begin_consistent(
    session: Session, binlog: Connection[Any], server: ServerFacts, alive: Callable[[], None]
) -> BinlogPosition:
    """Begin a consistent snapshot on MariaDB and return its binlog position.

    Such a snapshot may miss the rows of an earlier XA COMMIT. So it is taken while no XA transaction is prepared, and
    counts only if the binlog has no XA COMMIT since then.
    """
    for _ in range(_ATTEMPTS):
        before = binlog_end(binlog, server)
        if not session.execute("XA RECOVER"):
            session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            position = snapshot_position(session)
            if not _has_xa(binlog, before, position):
                return position
            session.end()
        alive()
        time.sleep(_REST_SECONDS)
    raise SourceLost("prepared XA transactions exist all the time: no exact snapshot is possible")


def _has_xa(binlog: Connection[Any], start: BinlogPosition, end: BinlogPosition) -> bool:
    if end <= start:
        return False
    if start.file != end.file:
        return True
    sql = f"SHOW BINLOG EVENTS IN {literal(end.file)} FROM {start.position}"
    rows = query(binlog, f"{sql} LIMIT 1000", "look for XA transactions")
    return len(rows) == 1000 or any("XA " in str(row[5]) for row in rows)
