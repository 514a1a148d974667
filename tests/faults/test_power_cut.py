"""The host loses power: of what was not flushed any part is gone, and nothing is lost."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from tests.faults import whole
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows, Trial, times
from tests.faults.powercut import compiled, lose_power
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]
CutOff = Callable[[str], AbstractContextManager[Trial]]


@pytest.fixture
def cut_off(
    server: DatabaseServer,
    db: str,
    full_metadata: None,
    start_relay: Start,
    ordeal: Ordeal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> CutOff:
    """cut_off(fault): around power cuts of a relay with everything on, under load; in the end no row is missing."""
    data, mirror = tmp_path / "data", tmp_path / "mirror"

    @contextmanager
    def around(fault: str) -> Iterator[Trial]:
        settings = whole.settings(data, db)
        shutil.copytree(data, mirror)
        monkeypatch.setenv("LD_PRELOAD", str(compiled(tmp_path)))
        monkeypatch.setenv("RELAY_DATA", str(data))
        monkeypatch.setenv("RELAY_MIRROR", str(mirror))
        relay = start_relay(server, settings)
        cdc = settings["CDC.Port"]
        with ordeal(fault, relay, server, db, Allows.LAST_SECOND, ddl=True, pause=0.003, cdc=cdc) as trial:
            time.sleep(3)  # the clients and their filters are on disk
            yield trial
        whole.check(trial, relay, data, db)

    return around


def test_the_host_loses_power(cut_off: CutOff, tmp_path: Path) -> None:
    dice = random.Random(1)
    with cut_off("power cut: any unflushed sectors are gone") as trial:
        while len(trial.faults) < times(10):
            time.sleep(dice.uniform(0.05, 2.5))
            with trial.fault():
                trial.relay.kill()
                lose_power(tmp_path / "data", tmp_path / "mirror", dice)
            trial.relay.start()


@pytest.mark.parametrize(
    ("what", "part"),
    [("the journal", "/journal/"), ("state.db", "/state.db"), ("the row log", "/log/"), ("the lake", "/lake/")],
    ids=["journal", "state", "log", "lake"],
)
def test_the_host_loses_power_after_a_flush_that_failed_once(
    cut_off: CutOff, tmp_path: Path, what: str, part: str
) -> None:
    dice = random.Random(2)
    order = tmp_path / "mirror.fail"
    with cut_off(f"a flush of {what} fails once, then a power cut") as trial:
        while len(trial.faults) < times(10):
            time.sleep(dice.uniform(1, 2.5))
            with trial.fault():
                order.write_text(part)
                until(lambda: not order.exists(), 30, f"no flush of {what} came")
                time.sleep(dice.uniform(0, 1))
                if dice.random() < 0.5:  # its successor finds pages that the kernel takes for written
                    trial.relay.kill()
                    trial.relay.start()
                time.sleep(dice.uniform(0, 2))
                trial.relay.kill()
                order.unlink(missing_ok=True)
                lose_power(tmp_path / "data", tmp_path / "mirror", dice)
            trial.relay.start()
