"""The memory of a fresh relay with two servers: alone, and with every feature, process by process."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from bench.run import Run, started
from bench.shapes import FULL
from examples.dbserver import DatabaseServer, free_port
from tests.support.cdc_client import USERS_LINE
from tests.support.relay_process import write_conf
from tests.support.waiting import until

SETTLED = 10.0  # seconds after the ready line, when the monitor has made its first documents
MOST = 80 << 20  # bytes of a relay without features


def measure(run: Run) -> None:
    """Reports proportional set sizes without the journal, which is a mapped file."""
    plain, whole = run.scratch / "plain", run.scratch / "whole"
    for folder in (plain, whole / "log"):
        folder.mkdir(parents=True)
    (whole / "data").mkdir()
    (whole / "data" / "cdcusers").write_text(USERS_LINE)
    features: dict[str, object] = {
        "Logger.Schema": "*",
        "Logger.Path": whole / "log",
        "Lake.Path": whole / "lake",
        "Lake.OpenTables": "delta",
        "CDC.Enabled": "yes",
        "CDC.Port": free_port(),
        "CDC.Address": "127.0.0.1",
    }
    with DatabaseServer("mysql97", options=FULL) as empty:  # tables would have snapshotter and merger work
        run.report.step("a relay without features")
        alone = _fresh(write_conf(plain, empty))
        run.report.step("a relay with every feature")
        all_on = _fresh(write_conf(whole, empty, features))
    run.report.figure("memory of a fresh relay (PSS), two servers", [sum(alone.values())], "B", at_most=MOST)
    run.report.figure("  with every feature", [sum(all_on.values())], "B")
    for name, size in all_on.items():
        run.report.figure(f"  of which {name}", [size], "B")
    run.report.note("Without the journal, a mapped file. A page that processes share counts in parts.")


def _fresh(conf: Path) -> dict[str, int]:
    """Bytes by process of a relay that was started a moment ago."""
    with started(conf) as relay:
        until(lambda: relay.stat()["state"] == "running", 30, "the relay does not run")
        time.sleep(SETTLED)
        names = {process["pid"]: str(process["name"]) for process in relay.stat()["processes"]}
        pids = [relay.pid, *(child.pid for child in psutil.Process(relay.pid).children(recursive=True))]
        return {names.get(pid, "supervisor" if pid == relay.pid else f"process {pid}"): _pss(pid) for pid in pids}


def _pss(pid: int) -> int:
    maps = psutil.Process(pid).memory_maps()
    return sum(each.pss for each in maps if not each.path.endswith(".seg"))
