"""The host loses power: of what was not flushed any part is gone, and nothing is lost."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from tests.faults import whole
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows, times
from tests.faults.powercut import compiled, lose_power
from tests.relayproc import RelayProcess
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]


@pytest.mark.usefixtures("full_metadata")
def test_the_host_loses_power(
    server: DatabaseServer,
    db: str,
    start_relay: Start,
    ordeal: Ordeal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dice = random.Random(1)
    data, mirror = tmp_path / "data", tmp_path / "mirror"
    settings = whole.settings(data, db)
    shutil.copytree(data, mirror)
    monkeypatch.setenv("LD_PRELOAD", str(compiled(tmp_path)))
    monkeypatch.setenv("RELAY_DATA", str(data))
    monkeypatch.setenv("RELAY_MIRROR", str(mirror))
    relay = start_relay(server, settings)
    with ordeal(
        "power cut: any unflushed sectors are gone",
        relay,
        server,
        db,
        Allows.LAST_SECOND,
        ddl=True,
        pause=0.003,
        cdc=settings["CDC.Port"],
    ) as trial:
        time.sleep(3)  # the clients and their filters are on disk
        while len(trial.faults) < times(10):
            time.sleep(dice.uniform(0.05, 2.5))
            with trial.fault():
                relay.kill()
                lose_power(data, mirror, dice)
            relay.start()
    whole.check(trial, relay, data, db)


@pytest.mark.usefixtures("full_metadata")
def test_the_host_loses_power_after_a_flush_that_failed_once(
    server: DatabaseServer,
    db: str,
    start_relay: Start,
    ordeal: Ordeal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dice = random.Random(2)
    data, mirror, order = tmp_path / "data", tmp_path / "mirror", tmp_path / "mirror.fail"
    settings = whole.settings(data, db)
    shutil.copytree(data, mirror)
    monkeypatch.setenv("LD_PRELOAD", str(compiled(tmp_path)))
    monkeypatch.setenv("RELAY_DATA", str(data))
    monkeypatch.setenv("RELAY_MIRROR", str(mirror))
    relay = start_relay(server, settings)
    with ordeal(
        "a flush of the journal fails once, then a power cut",
        relay,
        server,
        db,
        Allows.LAST_SECOND,
        ddl=True,
        pause=0.003,
        cdc=settings["CDC.Port"],
    ) as trial:
        time.sleep(3)  # the clients and their filters are on disk
        while len(trial.faults) < times(10):
            time.sleep(dice.uniform(1, 2.5))
            with trial.fault():
                order.write_text("/journal/")
                until(lambda: not order.exists(), 30, "no flush of the journal came")
                time.sleep(dice.uniform(0, 1))
                if dice.random() < 0.5:  # its successor finds pages that the kernel takes for written
                    relay.kill()
                    relay.start()
                time.sleep(dice.uniform(0, 2))
                relay.kill()
                order.unlink(missing_ok=True)
                lose_power(data, mirror, dice)
            relay.start()
    whole.check(trial, relay, data, db)
