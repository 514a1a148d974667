"""Purging the binlog of a server under test."""

from __future__ import annotations

from examples.dbserver import DatabaseServer
from tests.support.waiting import until


def purge(server: DatabaseServer) -> None:
    """Purges all files of the binlog but a new one. Waits for those that a dump still reads."""
    # MariaDB keeps its binlog until as many replicas as this have been there.
    if server.execute("SHOW VARIABLES LIKE 'slave_connections_needed_for_purge'"):
        server.execute("SET GLOBAL slave_connections_needed_for_purge = 0")
    server.execute("FLUSH BINARY LOGS")
    purging = f"PURGE BINARY LOGS TO '{server.execute('SHOW BINARY LOGS')[-1][0]}'"
    until(lambda: len(server.execute(purging, "SHOW BINARY LOGS")) == 1, what="the source does not purge", pause=0.1)
