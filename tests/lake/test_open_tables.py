"""Open tables beside a running relay: every engine reads them equal to SELECT."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from examples.lakeside import wait_caught_up
from relay.lake import paths
from relay.lake.delta.log import DeltaLog
from relay.lake.delta.table import APPLIED, folder_of
from relay.lake.documents import Table, TableState
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from tests.support.chance import SEED
from tests.support.engines import ENGINES
from tests.support.lake_life import settings, wait_until_read
from tests.support.lake_rows import difference, in_lake, selected
from tests.support.random_tables import RandomWorkload
from tests.support.relay_process import RelayProcess
from tests.support.waiting import patience, until


@pytest.mark.timeout(300)
def test_every_engine_reads_what_select_prints_after_a_random_life(
    kind: str,
    own_server: Callable[..., DatabaseServer],
    start_relay: Callable[..., RelayProcess],
    tmp_path: Path,
) -> None:
    server = own_server(kind, "--binlog-row-metadata=FULL")
    server.execute("CREATE DATABASE life CHARACTER SET utf8mb4")
    lake = tmp_path / "lake"
    life = RandomWorkload(server, "life", SEED)
    with closing(life):
        life.fill(10)
        relay = start_relay(server, settings(lake, OpenTables="delta", MergeSeconds=1))
        life.before_ddl = lambda: wait_until_read(relay, server)
        for _ in range(2):
            life.run(12)
            life.touch()
            for pid in relay.pids().values():
                os.kill(pid, signal.SIGKILL)
            names = [Table("life", table.name) for table in life.tables]
            state = wait_caught_up(LakeLog(open_storage(str(lake))), server, names, patience(60))
            for name in names:
                known = state.tables[paths.table_key(name)]
                wait_until_merged(lake, known)
                check(server, lake, known)
            until(lambda: answers(relay))


def answers(relay: RelayProcess) -> bool:
    """Whether the monitor runs again."""
    try:
        return bool(relay.stat())
    except OSError:
        return False


def wait_until_merged(lake: Path, known: TableState) -> None:
    """Wait until the open table has all changes."""
    storage, folder = open_storage(str(lake)), folder_of(known.table)
    last = max(file.last for file in known.files.values())
    until(lambda: DeltaLog(storage, folder).transactions.get(APPLIED, -1) >= last)


def check(server: DatabaseServer, lake: Path, known: TableState) -> None:
    """Every engine reads what SELECT prints."""
    table, fields = known.table, known.version.fields
    source = Counter(selected(server, table.schema, table.table, fields))
    for engine, read in ENGINES.items():
        columns = read(str(lake / folder_of(table)))
        rows = len(next(iter(columns.values())))
        wrong = difference(source, Counter(in_lake(columns, fields, rows)), fields)
        assert not wrong, f"seed {SEED}: {table} in {engine}: {wrong}"
