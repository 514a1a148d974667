"""Table usage of a real relay: a workload's rows are counted once, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from examples.dbserver import DatabaseServer
from relay.monitoring.collector import Collector
from relay.monitoring.usage import Usage
from relay.runtime import process_status
from relay.runtime.context import MonitorContext
from relay.runtime.process_status import MonitorReport, StatusPages, TableUsage
from tests.support.reader_process import Reader
from tests.support.relay_process import RelayProcess
from tests.support.waiting import patience, until
from tests.support.workload import Change, Workload
from tests.whole.test_kill import running

Rows = Counter[tuple[str, str]]


def done(changes: list[Change]) -> Rows:
    return Counter((change.table, change.kind) for change in changes)


def of(tables: list[TableUsage], db: str, window: str = "total") -> Rows:
    found = Rows()
    for table in tables:
        if table.schema == db:
            counts = getattr(table, window)
            found += Rows({(table.table, kind): getattr(counts, kind) for kind in ("insert", "update", "delete")})
    return found


def shown(relay: RelayProcess) -> process_status.Usage:
    return msgspec.convert(relay.stat()["usage"], process_status.Usage)


def wait_until_counted(relay: RelayProcess, db: str, wanted: Rows) -> None:
    found = Rows()

    def counted() -> bool:
        nonlocal found
        with suppress(OSError):  # the monitor, which tells it, is being replaced
            found = of(shown(relay).tables, db)
        return found == wanted

    until(counted, 60, lambda: f"{found} of {wanted}", 0.1)


def get(relay: RelayProcess, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{relay.http_port}{path}", timeout=patience(10)) as reply:
        return json.load(reply)


def test_rows_are_those_of_the_workload(server: DatabaseServer, db: str, make_reader: Callable[..., Reader]) -> None:
    reader = make_reader(server).streaming()
    usage = Usage(reader.context.data_dir / "usage.db", reader.journal_dir)
    workload = Workload(server, db, seed=8)
    workload.run(150)
    workload.close()
    wanted = done(workload.changes)
    assert len(wanted) == 9
    reader.until(lambda: usage.advance(time.time(), reader.arena.flushed) and of(usage.tables(), db) == wanted)
    assert of(usage.tables(), db, "hour") == of(usage.tables(), db, "day") == wanted
    assert (usage.trouble, usage.usage().missed) == ("", 0)
    columns = {known.table: [column.name for column in known.columns] for known in usage.definitions()}
    assert columns["beta"][0] == "id"
    assert columns["beta"][-1] == "raw"
    usage.close()


def test_rows_are_counted_once_over_kills_of_the_monitor_and_of_everything(
    mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Callable[..., RelayProcess]
) -> None:
    relay, db = start_relay(mysql97), make_db(mysql97)
    workload = Workload(mysql97, db, seed=8)
    dice = random.Random(9)
    with running(workload, 300) as work:
        kills = 0
        while kills < 4 or work.is_alive():
            time.sleep(dice.uniform(0.1, 0.5))
            with suppress(OSError):
                os.kill(relay.pids()["monitor"], signal.SIGKILL)
                kills += 1
    wanted = done(workload.changes)
    wait_until_counted(relay, db, wanted)
    relay.kill()
    relay.start()
    mysql97.execute(f"DELETE FROM {db}.alpha")
    wanted += Counter({("alpha", "delete"): len(workload.rows["alpha"])})
    wait_until_counted(relay, db, wanted)
    usage = shown(relay)
    assert (usage.trouble, usage.missed, usage.left_out) == ("", 0, 0)
    detail = get(relay, f"/api/table?schema={db}&table=beta")
    assert {kind: sum(detail["minutes"][kind]) for kind in ("insert", "update", "delete")} == {
        kind: rows for (table, kind), rows in wanted.items() if table == "beta"
    }


def test_a_count_that_cannot_be_kept_is_told_once_in_the_log_and_in_the_document(
    mariadb1011: DatabaseServer, make_reader: Callable[..., Reader]
) -> None:
    reader = make_reader(mariadb1011).streaming()
    told: list[tuple[str, dict[str, object]]] = []
    status_pages = StatusPages()
    (reader.context.data_dir / "usage.db").write_bytes(b"nonsense " * 1000)
    common = (reader.context.config, reader.arena, lambda event, **fields: told.append((event, fields)))
    collector = Collector(MonitorContext("monitor", 0, *common, status_pages=status_pages))
    reader.until(lambda: reader.arena.flushed)
    for _ in range(3):
        assert collector.step()
    reader.until(lambda: collector.step() and status_pages.monitor.decode(MonitorReport).usage.trouble)
    collector.close()
    trouble = status_pages.monitor.decode(MonitorReport).usage.trouble
    assert "file is not a database" in trouble
    assert told == [("usage_failed", {"error": trouble})]
