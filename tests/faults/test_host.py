"""Faults of the whole host, which affect every process of the relay at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import psutil
import pytest

from examples.dbserver import DatabaseServer
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows
from tests.support.relay_process import RelayProcess

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
FREEZE = 62  # seconds: more than a process may be silent


def test_a_host_that_stands_still(
    mariadb1011: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Callable[..., RelayProcess],
    ordeal: Ordeal,
) -> None:
    """As a virtual machine does that is suspended. Nobody hangs; the supervisor, which wakes up first, sees that."""
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011)
    supervisor = psutil.Process(relay.pid)
    with ordeal("Host at a standstill", relay, mariadb1011, db, Allows.NOTHING, pause=0.05) as trial:
        time.sleep(1)
        family = [supervisor, *supervisor.children(recursive=True)]
        with trial.fault(), trial.load.paused():
            for process in family:
                os.kill(process.pid, signal.SIGSTOP)
            time.sleep(FREEZE)
            for process in family:
                os.kill(process.pid, signal.SIGCONT)
                time.sleep(0.5)
        time.sleep(1)
    assert "hung" not in relay.stderr.read_text()
    assert not [process["name"] for process in relay.stat()["processes"] if process["restarts"]]
