"""Writes, flushes, allocations and renames of each kind of file fail, one at a time, within whole runs of a relay."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import pymysql
import pytest

from examples.dbserver import DatabaseServer
from tests.faults import whole
from tests.faults.conftest import Ordeal
from tests.faults.load import TimedWorkload
from tests.faults.ordeal import Allows, Trial, times
from tests.faults.shim import ALLOCATE, NAME, SYNC, WRITE, Shim, Watch
from tests.support.relay_process import RelayProcess, run_relay
from tests.support.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]
LIFE: Final = 4.0  # seconds
PART: Final = {
    "the journal": "/data/journal",
    "the journal's sync note": "/data/journal/sync",
    "sync notes of SQLite files": ".db-sync",
    "prepared": "/data/journal/prepared",
    "state.db": "/data/state.db",
    "schema.db": "/data/schema.db",
    "usage.db": "/data/usage.db",
    "cdc.db": "/data/cdc.db",
    "the row log": "/data/log",
    "the lake": "/data/lake",
    "the lake's log": "/data/lake/_log",
}
CALLS: Final = {"write": WRITE, "flush": SYNC, "allocate": ALLOCATE, "rename": NAME}
ERRORS: Final = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "short": 0}
_IMPOSSIBLE: Final = {("flush", "short"), ("allocate", "short"), ("rename", "short"), ("rename", "EINTR")}
_NO_SUCH_XID: Final = 1397


class XaWorkload(TimedWorkload):
    """Every fifth transaction is one of XA, which stands prepared for a moment."""

    _xa = ""

    def _run(self, statement: str, values: Any = ()) -> None:
        if statement == "BEGIN":
            self._xa = f"'{self.seed}-{self.next_id}'" if self.random.random() < 0.2 else ""
        if not self._xa or statement not in ("BEGIN", "ROLLBACK", "COMMIT"):
            super()._run(statement, values)
        elif statement == "BEGIN":
            super()._run(f"XA START {self._xa}")
        else:
            super()._run(f"XA END {self._xa}")
            if statement == "COMMIT":
                super()._run(f"XA PREPARE {self._xa}")
                time.sleep(0.01)
            try:
                super()._run(f"XA {statement} {self._xa}")
            except pymysql.MySQLError as error:  # one that changed nothing has ended with its PREPARE
                if error.args[0] != _NO_SUCH_XID:
                    raise


class Case(NamedTuple):
    """A call and how it fails; a life without faults makes `calls` of them."""

    call: str
    error: str
    calls: int


def lived(relay: RelayProcess, shim: Shim, watch: Watch) -> bool:
    """A life with this fault, from its start on, and to its end if it does not come before; whether it came."""
    shim.watch(watch)
    with shim.loaded():
        relay.start()
        with suppress(AssertionError):
            until(lambda: shim.seen()[0] >= watch.at, LIFE)
            time.sleep(1)
            return True
        relay.stop(20)
        came = shim.seen()[0] >= watch.at
        shim.calm()
        relay.start()
    return came


def mended(relay: RelayProcess, shim: Shim) -> None:
    """The disk is well again, and whoever stopped by name is told so."""
    shim.calm()

    def runs() -> bool:
        document = relay.stat()
        stops = [document["stop"], *((document[part] or {}).get("stop") for part in ("lake", "log"))]
        well = not any(stops) and all(process["pid"] for process in document["processes"])
        if not well:
            assert run_relay("resume", "-c", relay.conf).returncode == 0
        return well

    until(runs, 60, "it does not go on", pause=0.5)


def cases(relay: RelayProcess, shim: Shim, part: str) -> list[Case]:
    """What a life without faults calls."""
    relay.stop(20)
    shim.watch(*(Watch(part, call) for call in CALLS.values()))
    with shim.loaded():
        relay.start()
    time.sleep(LIFE)
    relay.stop(20)
    counts = dict(zip(CALLS, shim.seen(), strict=True))
    return [
        Case(call, error, counts[call])
        for call, error in product(CALLS, ERRORS)
        if counts[call] and (call, error) not in _IMPOSSIBLE
    ]


@pytest.mark.parametrize("kind", PART)
def test_each_call_fails_once(
    mariadb1011: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Callable[..., RelayProcess],
    ordeal: Ordeal,
    show: Callable[[list[str]], None],
    tmp_path: Path,
    kind: str,
) -> None:
    dice, shim, data, db = random.Random(kind), Shim(tmp_path), tmp_path / "data", make_db(mariadb1011)
    settings = whole.settings(data, db)
    with shim.loaded():
        relay = start_relay(mariadb1011, settings)
    trial: Trial
    with ordeal(
        f"EIO, ENOSPC, EINTR, short writes: {kind}",
        relay,
        mariadb1011,
        db,
        Allows.LAST_SECOND if kind == "the journal" else Allows.IN_FLIGHT,
        ddl=True,
        pause=0.02,
        workload=XaWorkload,
        cdc=settings["CDC.Port"],
    ) as trial:
        time.sleep(3)  # the clients and their filters are on disk
        found = cases(relay, shim, PART[kind])
        told = [f"{case.calls:6} of {case.call} in {LIFE:.0f} s: {case.error}" for case in found]
        met = 0
        for number in range(times(2 * len(found))):
            case = found[number % len(found)]
            with trial.fault():
                watch = Watch(PART[kind], CALLS[case.call], ERRORS[case.error], dice.randint(1, case.calls))
                met += lived(relay, shim, watch)
                mended(relay, shim)
            trial.catch_up()
            relay.stop(20)
        with shim.loaded():
            relay.start()
    show([*told, f"{met} of {len(trial.faults)} faults met their call"])
    assert met > len(trial.faults) // 2
    whole.check(trial, relay, data, db)
