"""What the supervisor decides about its processes: successors, hangs, signals and the ready line, without a relay."""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Callable

import pytest

from relay._native import Arena
from relay.base.log import logger
from relay.config.load import load
from relay.errors import ExitCode
from relay.runtime import ready
from relay.runtime.child import tie_to
from relay.runtime.child_group import Child, ChildGroup
from relay.runtime.context import Context
from relay.runtime.distributed import Settings
from relay.runtime.restarts import BACKOFF, QUICK, End, decide
from relay.runtime.signals import handled
from relay.runtime.watchdog import FREEZE, LAKE_FREEZE, Watchdog
from tests.support.waiting import until

LONG = QUICK + 1


def ended(code: int, seconds: float = LONG, *, name: str = "broker", quick: int = 0, unsynced: bool = False) -> End:
    return End(name, code, seconds, quick, unsynced, draining=False)


@pytest.mark.parametrize("code", [ExitCode.STOPPED, ExitCode.SOURCE])
def test_a_process_with_a_fatal_error_gets_no_successor(code: ExitCode) -> None:
    assert decide(ended(code)).held


def test_a_failed_sync_gets_one_successor_and_for_the_monitor_always_one() -> None:
    assert not decide(ended(ExitCode.STOPPED, LONG, unsynced=True)).held
    assert decide(ended(ExitCode.STOPPED, QUICK / 2, unsynced=True)).held
    assert not decide(ended(ExitCode.STOPPED, QUICK / 2, name="monitor", unsynced=True)).held


def test_a_process_that_ends_its_work_is_held_only_in_a_drain() -> None:
    done = ended(ExitCode.OK)
    assert not decide(done).held
    assert decide(done._replace(draining=True)).held
    assert not decide(ended(ExitCode.UNEXPECTED)._replace(draining=True)).held


def test_each_quick_death_makes_the_next_wait_longer_up_to_a_limit() -> None:
    quick, waits = 0, []
    for _ in range(len(BACKOFF) + 2):
        decision = decide(ended(ExitCode.UNEXPECTED, QUICK / 2, quick=quick))
        quick = decision.quick_deaths
        waits.append(decision.wait)
    assert waits == [*BACKOFF[1:], *[BACKOFF[-1]] * 3]


def test_a_kill_from_outside_and_a_long_life_are_no_defect() -> None:
    for end in (ended(-signal.SIGKILL, QUICK / 2, quick=3), ended(ExitCode.UNEXPECTED, LONG, quick=3)):
        decision = decide(end)
        assert (decision.held, decision.quick_deaths, decision.wait) == (False, 0, 0.0)


@pytest.mark.parametrize(("process", "limit"), [("broker", FREEZE), ("exporter", LAKE_FREEZE)])
def test_a_silent_process_is_aborted_and_then_killed(process: str, limit: float) -> None:
    watchdog = Watchdog(0.0)
    found = []
    for second in range(int(limit) + 8):
        watchdog.tick(float(second))
        if hang := watchdog.check(process, started=0.0, heartbeat=0.0):
            found.append((hang.silent, hang.signal))
    first = limit + 1
    assert found[:5] == [(first + n, signal.SIGABRT) for n in range(5)]
    assert found[5:] == [(first + n, signal.SIGKILL) for n in range(5, 7)]


def test_a_process_hangs_neither_while_it_is_young_nor_while_the_host_was_suspended() -> None:
    watchdog = Watchdog(0.0)
    for second in range(100):
        watchdog.tick(float(second))
    assert watchdog.check("broker", started=50.0, heartbeat=0.0) is None
    assert watchdog.check("broker", started=0.0, heartbeat=0.0) is not None
    watchdog.tick(99.0 + 3600.0)
    assert watchdog.check("broker", started=0.0, heartbeat=0.0) is None


def test_the_ready_line_has_addresses_and_state_and_the_status_names_a_fatal_error() -> None:
    config, _ = load(None, {}, {"Server.Login": "x", "Server.AuthSecret": "x", "Server.BindAddress": "127.0.0.1"})
    facts = ready.facts(config, "etc/relay.conf", 2, "streaming", None)
    addresses = "classic=127.0.0.1:6001 http=http://127.0.0.1:6081/ source=127.0.0.1:3306"
    assert ready.line(facts) == f"ready {addresses} state=streaming workers=2 pid={os.getpid()} config=etc/relay.conf\n"
    stop = {"code": "disk_full", "text": "write the journal: no space", "hint": "free space"}
    assert ready.facts(config, "", 2, "streaming", stop)["state"] == "stopped:disk_full"
    assert ready.service_status("streaming", None) == "streaming"
    assert ready.service_status("streaming", stop) == "stopped: disk_full: write the journal: no space (free space)"


def group(*runs: Callable[[], int]) -> ChildGroup:
    """A group of processes that run these functions."""
    shape = (4, 1, 0)
    arena = Arena(mmap.mmap(-1, Arena.size(*shape)), *shape)
    config, _ = load(None, {}, {"Server.Login": "x", "Server.AuthSecret": "x"})
    contexts = [Context(f"server-{n}", n, config, arena, logger("test")) for n in range(len(runs))]
    settings = Settings(config, len(runs))
    for context in contexts:
        context.settings = settings
    return ChildGroup([*map(Child, contexts, runs)], arena, settings)


def forever() -> int:
    signal.pause()
    return 0


def test_processes_are_due_until_they_run_and_their_ends_are_collected_once() -> None:
    made = group(lambda: 0, lambda: 3)
    assert made.due(1.0) == list(made)
    for child in made:
        made.fork(child, 1.0)
    assert made.due(2.0) == []
    found: dict[str, int] = {}
    until(lambda: found.update((child.name, code) for child, code in made.ended()) or len(found) == 2)
    assert found == {"server-0": 0, "server-1": 3}
    assert [child.ended_well for child in made] == [True, False]
    assert list(made.ended()) == []


def test_a_killed_process_is_due_unless_it_is_held() -> None:
    made = group(forever, forever)
    first, second = made
    for child in made:
        made.fork(child, 1.0)
    second.held = True
    made.kill_and_restart(made)
    assert (first.pid, second.pid) == (0, 0)
    assert made.due(1.0) == [first]


def test_processes_lag_until_they_have_acknowledged_or_are_held() -> None:
    made = group(forever, forever)
    first, second = made
    assert made.lagging(1) == ["server-0", "server-1"]
    second.held = True
    assert made.lagging(1) == ["server-0"]
    assert first.context.settings is not None
    first.context.settings.acknowledge(first.context.slot, 1)
    assert made.lagging(1) == []


def test_a_sigterm_that_comes_before_a_process_handles_it_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def terminated_at_birth(supervisor: int) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return tie_to(supervisor)

    monkeypatch.setattr("relay.runtime.child.tie_to", terminated_at_birth)
    made = group(lambda: 0 if first.context.stopping else 3)
    (first,) = made
    with handled((signal.SIGTERM,), lambda *_: None):
        made.fork(first, 1.0)
    assert [code for _, code in until(lambda: list(made.ended()))] == [0]
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
