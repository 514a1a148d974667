"""A long run without faults: resource use stays constant (`make soak`: an hour; ten minutes in the suite)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from tests.faults import whole
from tests.faults.conftest import Ordeal
from tests.faults.noise import Noise
from tests.faults.ordeal import SCALE, Allows
from tests.faults.usage import MIB, Usage
from tests.support.relay_process import RelayProcess

SECONDS = float(os.environ.get("RELAY_SOAK", max(150, 600 * SCALE)))
KEEP, SEGMENT = 8 * MIB, MIB
SAMPLES = 90

pytestmark = [pytest.mark.faults, pytest.mark.timeout(SECONDS + 600)]
Start = Callable[..., RelayProcess]


def test_a_steady_load_costs_what_it_costs(
    mysql97: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Start,
    ordeal: Ordeal,
    show: Callable[[list[str]], None],
    tmp_path: Path,
) -> None:
    db, beside = make_db(mysql97), make_db(mysql97)
    settings = whole.settings(tmp_path / "data", db) | {
        "Relay.SegmentBytes": SEGMENT,
        "Relay.JournalKeepBytes": KEEP,
        "Relay.JournalKeepAge": "1s",
        "Lake.RollSeconds": "10s",
    }
    relay = start_relay(mysql97, settings)
    usage = Usage(relay, tmp_path / "data")
    with ordeal(
        f"none: a steady load for {SECONDS / 60:.0f} minutes",
        relay,
        mysql97,
        db,
        Allows.NOTHING,
        pause=0.02,
        cdc=settings["CDC.Port"],
    ) as trial:
        noise = Noise(relay.port, mysql97, beside)
        begin = time.monotonic()
        with trial.fault():
            while (passed := time.monotonic() - begin) < SECONDS:
                usage.look()
                time.sleep(max(1.0, SECONDS / SAMPLES))
        noise.stop()
        rate = (len(trial.load.workload.changes) + 2 * noise.written) / passed
    show([*usage.table(passed), f"{rate:.0f} rows a second"])
    assert not any(process["restarts"] for process in relay.stat()["processes"])
    # What waits for the exporter, which commits every ten seconds, stays beyond what is kept in any case.
    usage.check(KEEP + 2 * SEGMENT + int(30 * rate * 200))
    whole.check(trial, relay, tmp_path / "data", db)
