"""Rows are read when they show what the export has; a transaction is in the binlog before it is visible.

Semi-synchronous replication makes that moment long: a commit is in the binlog, journaled and exported, and its rows are
not visible until a replica, of which there is none, has acknowledged, or a timeout has passed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from relay.lake.documents import Table
from relay.lake.snapshot import keys
from relay.lake.snapshot.plan import plan
from relay.lake.snapshot.session import Session
from relay.lake.snapshot.visible import Visibility
from tests.support.server_variables import global_variable
from tests.support.snapshot_lake import Lake, MakeReader
from tests.support.waiting import until

pytestmark = pytest.mark.brands

HELD_MS = 30_000
CHANGES = 2
MADE = "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 0), (2, 0)"
XA = "XA START 'x'", "UPDATE t SET v = v + 1", "XA END 'x'", "XA PREPARE 'x'"


@pytest.fixture
def lake(server: DatabaseServer, db: str, tmp_path: Path, make_reader: MakeReader) -> Lake:
    server.execute(f"USE {db}", *MADE)
    return Lake(server, db, tmp_path, make_reader)


def role(server: DatabaseServer) -> str:
    """What the variables are called."""
    return "source" if server.kind.mysql else "master"


@contextmanager
def held_back(server: DatabaseServer) -> Iterator[None]:
    """Commits are in the binlog for a while before they are to be seen."""
    semi_sync = f"rpl_semi_sync_{role(server)}"
    wait = "wait_no_replica" if server.kind.mysql else "wait_no_slave"
    if server.kind.mysql:
        server.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
    server.execute(
        f"SET GLOBAL {semi_sync}_wait_point = AFTER_SYNC",
        f"SET GLOBAL {semi_sync}_{wait} = ON",
        f"SET GLOBAL {semi_sync}_timeout = {HELD_MS}",
        f"SET GLOBAL {semi_sync}_enabled = ON",
    )
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {semi_sync}_enabled = OFF")
        if server.kind.mysql:
            server.execute("UNINSTALL PLUGIN rpl_semi_sync_source")


@contextmanager
def committing(server: DatabaseServer, db: str, commit: str) -> Iterator[None]:
    """A commit is under way."""
    with closing(server.connect(database=db)) as connection, connection.cursor() as cursor:
        thread = threading.Thread(target=cursor.execute, args=(commit,))
        thread.start()
        yield
        thread.join()


def read_while_held(lake: Lake, commit: str) -> None:
    """Fetches the table when a change of it is exported and not to be seen; then both together are the table."""
    with held_back(lake.server), committing(lake.server, lake.db, commit):
        until(lambda: lake.exporter.step(roll=True).place.seq >= CHANGES)
        assert lake.server.execute(f"SELECT DISTINCT v FROM {lake.db}.t") == [(0,)], "the change is to be seen already"
        release = threading.Timer(
            0.5, lake.server.execute, [f"SET GLOBAL rpl_semi_sync_{role(lake.server)}_enabled = OFF"]
        )
        release.start()
        lake.fetch()
        release.join()
    lake.export()
    assert lake.server.execute(f"SELECT DISTINCT v FROM {lake.db}.t") == [(1,)]
    lake.check("t")


def test_a_change_in_the_binlog_is_waited_for(lake: Lake) -> None:
    read_while_held(lake, "UPDATE t SET v = 1")


@pytest.mark.parametrize("server", ["mysql97"], indirect=True)
def test_without_order_of_commits_rows_are_read_that_nobody_holds(server: DatabaseServer, lake: Lake) -> None:
    with global_variable(server, "binlog_order_commits", "OFF"):
        read_while_held(lake, "UPDATE t SET v = 1")


@pytest.mark.parametrize("server", ["mariadb118"], indirect=True)
def test_a_prepared_transaction_that_ends_is_waited_for(lake: Lake) -> None:
    lake.server.execute(f"USE {lake.db}", *XA)
    read_while_held(lake, "XA COMMIT 'x'")


def test_writers_are_not_held_up_while_rows_are_read(server: DatabaseServer, db: str, lake: Lake) -> None:
    place = lake.log.state().place
    assert place is not None
    with lake.snapshots() as snapshots, Session(snapshots.source.account, snapshots.source.server) as session:
        _, asking, facts, binlog = snapshots.source
        how = plan(asking, facts, Table(db, "t"), [], lambda _: True)
        visibility = Visibility(binlog, facts, lambda: None)
        with visibility.ensure(place, session) as lock:
            sql = keys.page(how.source, ["id"], how.key, None, 10) + lock
            assert len(session.execute(sql)) == 2
            server.execute(
                f"USE {db}",
                "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1",
                "UPDATE t SET v = 5",
                "DELETE FROM t WHERE id = 1",
                "INSERT INTO t VALUES (3, 3)",
            )
