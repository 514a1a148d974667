"""A table without a key: one SELECT of all its rows, at a place in the binlog that is known exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pymysql.connections import Connection

from relay.binlog.connect import query
from relay.binlog.facts import ServerFacts
from relay.binlog.failures import SourceLost
from relay.binlog.place import Place
from relay.lake.documents import Table
from relay.lake.snapshot.ends import binlog_end
from relay.lake.snapshot.session import Session, literal
from relay.lake.snapshot.source import Source
from relay.lake.snapshot.visible import snapshot_place

_ATTEMPTS: Final = 50
_REST_SECONDS: Final = 0.1


@contextmanager
def frozen(reached: Source, table: Table, source: str, alive: Callable[[], None]) -> Iterator[tuple[Session, Place]]:
    """A session that sees the table as it was at a place: all changes of it up to there, and none after it.

    Writers are held up for no longer than it takes to begin, but for a table whose engine has no transactions: nobody
    can write to such a table while it is read. Raises `SourceLost` if the table cannot be had.
    """
    account, asking, server, binlog = reached
    with Session(account, server) as session:
        if not _has_transactions(asking, table):
            session.execute(f"LOCK TABLES {source} READ")
            yield session, binlog_end(binlog, server)
        elif server.mariadb:
            yield session, _consistent(session, binlog, server, alive)
        else:
            with Session(account, server) as holding:
                holding.execute(f"LOCK TABLES {source} READ")
                session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
                place = binlog_end(binlog, server)
            yield session, place


def _has_transactions(asking: Connection[Any], table: Table) -> bool:
    rows = query(
        asking,
        "SELECT TRANSACTIONS FROM information_schema.ENGINES AS e JOIN information_schema.TABLES AS t USING (ENGINE)"
        f" WHERE TABLE_SCHEMA = {asking.escape(table.schema)} AND TABLE_NAME = {asking.escape(table.table)}",
        f"ask for the engine of {table}",
    )
    return bool(rows) and rows[0][0] == "YES"


def _consistent(session: Session, binlog: Connection[Any], server: ServerFacts, alive: Callable[[], None]) -> Place:
    """MariaDB's consistent snapshots know their place in the binlog, but may miss the rows of an XA COMMIT before it.

    So one is taken while no XA transaction is prepared, and counts if the binlog has no XA COMMIT of since then.
    """
    for _ in range(_ATTEMPTS):
        before = binlog_end(binlog, server)
        if not session.execute("XA RECOVER"):
            session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            place = snapshot_place(session)
            if not _has_xa(binlog, before, place):
                return place
            session.end()
        alive()
        time.sleep(_REST_SECONDS)
    raise SourceLost("XA transactions are prepared all the time, so that no exact snapshot can be taken")


def _has_xa(binlog: Connection[Any], start: Place, end: Place) -> bool:
    if end <= start:
        return False
    if start.file != end.file:
        return True
    sql = f"SHOW BINLOG EVENTS IN {literal(end.file)} FROM {start.position}"
    rows = query(binlog, f"{sql} LIMIT 1000", "look for XA transactions")
    return len(rows) == 1000 or any("XA " in str(row[5]) for row in rows)
