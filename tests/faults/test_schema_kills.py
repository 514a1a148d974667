"""A reader that is killed at every store of the schema history, while definitions and rows alternate."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from examples.dbserver import DatabaseServer
from relay._native import JournalReader
from relay.schema.store import SCHEMA_FILE
from tests.faults.shim import KILL, SYNC, WRITE, Shim, Watch
from tests.support.changing_tables import changing_tables, history_in
from tests.support.lagging_reader import Delivered, delivered, identity
from tests.support.reader_process import Reader
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.every_server, pytest.mark.timeout(900)]
STORES: Final = 40  # those of a start, and of a dozen statements
CATCH_UP: Final = 300  # seconds: a reader stores each definition with a sync, and may be far behind the statements


def test_a_reader_killed_at_every_store_has_the_history_of_one_that_lived(
    server: DatabaseServer,
    db: str,
    make_reader: Callable[..., Reader],
    start_relay: Callable[..., RelayProcess],
    show: Callable[[list[str]], None],
    tmp_path: Path,
) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    lived = make_reader(server, {"Source.Tables": f"{db}.*"}).streaming()
    shim, data = Shim(tmp_path), tmp_path / "killed"
    stores = partial(Watch, f"{data}/{SCHEMA_FILE}"[-63:], WRITE | SYNC)
    with shim.loaded():
        relay = start_relay(server, {"Relay.DataDir": data, "Source.Tables": f"{db}.*"})

    def kill_reader() -> None:
        if pid := relay.pids().get("reader"):  # else its successor is about to start
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    with changing_tables(server, db):
        for at in range(1, STORES + 1):
            shim.watch(stores(KILL, at))
            kill_reader()
            until(lambda: shim.seen()[0] >= at, 60, f"a store number {at} that does not come")  # noqa: B023
    shim.calm()
    server.execute(f"CREATE TABLE {db}.last (id INT)", f"INSERT INTO {db}.last VALUES ({identity('id')})")
    lived.until(partial(lived.count, "last"), CATCH_UP)
    lived.signal(signal.SIGTERM)
    expected = delivered(lived.journal_dir, lived.arena.committed)
    assert all(row.true and row.proven for row in expected)

    def rows() -> list[Delivered]:
        return delivered(data / "journal", JournalReader(data / "journal").flushed())

    until(lambda: len(rows()) >= len(expected), CATCH_UP, "rows that do not come")
    relay.stop(20)
    assert rows() == expected, "kills changed rows or their names"
    assert history_in(data) == history_in(lived.journal_dir.parent)
    show([f"{server.name}: killed at each of {STORES} stores after a start; {len(expected)} rows with their own names"])
