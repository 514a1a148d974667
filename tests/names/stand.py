"""The servers of the run: a source with its default metadata, and a replica that writes its binlog with FULL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from examples.dbserver import KINDS, PASSWORD, USER, DatabaseServer
from tests.names.workload import SCHEMAS

_OPTIONS: Final = (
    "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--max-binlog-size=64M",
    "--binlog-expire-logs-seconds=300", "--max-connections=500",
)  # fmt: skip
_MYSQL: Final = ("--log-replica-updates", "--replica-parallel-workers=4")
_MARIADB: Final = (
    "--log-slave-updates", "--slave-parallel-threads=4", "--slave-parallel-mode=optimistic",
    "--slave-type-conversions=ALL_NON_LOSSY,ALL_LOSSY",  # MariaDB gives some tables another character set
)  # fmt: skip
_DELAYS: Final = (0, 200_000, 1_000)  # µs


@contextmanager
def servers(kind: str) -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    """The source and its replica, running, with the schemas of the run."""
    mysql = KINDS[kind].mysql
    replicating = ("--binlog-row-metadata=FULL", *(_MYSQL if mysql else _MARIADB))
    with (
        DatabaseServer(kind, options=_OPTIONS) as source,
        DatabaseServer(kind, options=(*_OPTIONS, *replicating)) as replica,
    ):
        source.execute(*(f"CREATE DATABASE {schema}" for schema in SCHEMAS))
        verb, of = ("REPLICATION SOURCE", "SOURCE") if mysql else ("MASTER", "MASTER")
        how = "SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1" if mysql else "MASTER_USE_GTID=slave_pos"
        replica.execute(
            f"CHANGE {verb} TO {of}_HOST='127.0.0.1', {of}_PORT={source.port}, {of}_USER='{USER}',"
            f" {of}_PASSWORD='{PASSWORD}', {how}",
            "START REPLICA",
        )
        yield source, replica


def delay(source: DatabaseServer, phase: int) -> None:
    """Set how long commits wait for each other: none, long (the relay sees statements late), or short, by phase."""
    delay = _DELAYS[phase % len(_DELAYS)]
    if source.kind.mysql:
        source.execute(f"SET GLOBAL binlog_group_commit_sync_delay = {delay}")
    else:
        source.execute(f"SET GLOBAL binlog_commit_wait_count = 100, binlog_commit_wait_usec = {delay}")


def fault(replica: DatabaseServer) -> str:
    """The error that stopped the replica; empty if it runs."""
    if replica.kind.mysql:
        found = replica.execute(
            "SELECT last_error_message FROM performance_schema.replication_applier_status_by_worker"
            " WHERE last_error_number <> 0"
        )
        return "; ".join(str(message) for (message,) in found)
    connection = replica.connect()
    with connection, connection.cursor() as cursor:
        cursor.execute("SHOW REPLICA STATUS")
        names = [str(column[0]) for column in cursor.description or ()]
        return str(dict(zip(names, cursor.fetchall()[0], strict=True))["Last_SQL_Error"])
