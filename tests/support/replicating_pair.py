"""Two servers of which the second replicates the first, for the tests of failover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from examples.dbserver import DatabaseServer, free_port
from relay._native import GtidSet

HOSTS = ("127.0.0.1", "127.0.0.2")


@contextmanager
def pair_of(kind: str, *options: str) -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    """Two servers on one port of two addresses; the second replicates the first."""
    port = free_port()
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(
                DatabaseServer(
                    kind, port, (f"--bind-address={host}", f"--server-id={number}", "--log-slave-updates", *options)
                )
            )
            for number, host in enumerate(HOSTS, 1)
        )
        account = f"127.0.0.1', {{0}}_PORT={port}, {{0}}_USER='relay', {{0}}_PASSWORD='relaypw'"
        if kind == "mysql97":
            second.execute(
                f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{account.format('SOURCE')}, SOURCE_AUTO_POSITION=1,"
                " GET_SOURCE_PUBLIC_KEY=1",
                "START REPLICA",
            )
        else:
            second.execute(
                f"CHANGE MASTER TO MASTER_HOST='{account.format('MASTER')}, MASTER_USE_GTID=slave_pos", "START SLAVE"
            )
        yield first, second


def executed(server: DatabaseServer) -> GtidSet:
    """The transactions that it has executed."""
    variable = "gtid_executed" if server.kind.mysql else "gtid_binlog_pos"
    return GtidSet(server.execute(f"SELECT @@GLOBAL.{variable}")[0][0])
