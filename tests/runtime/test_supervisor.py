"""The supervisor: one per DataDir, orderly ends, hung children."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from examples.dbserver import DatabaseServer, free_port
from relay.client import RelayClient
from relay.errors import ExitCode
from relay.runtime import child
from relay.runtime.child import schedule_as_batch
from relay.runtime.shm import beside, find
from tests.support.relay_process import SECRET, RelayProcess, run_relay
from tests.support.waiting import patience, until

Start = Callable[..., RelayProcess]


def test_a_second_relay_on_the_same_data_is_refused(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    ports = ("--set", f"Server.ServerPort={free_port()}", "--set", f"Server.HTTPPort={free_port()}")
    second = run_relay("start", "-c", relay.conf, *ports)
    assert second.returncode == ExitCode.ALREADY_RUNNING
    assert f"process {relay.pid} holds the lock" in second.stderr
    assert relay.stat()["state"] == "running"


def test_a_port_that_is_taken_is_named(mariadb1011: DatabaseServer, start_relay: Start, tmp_path: Path) -> None:
    relay = start_relay(mariadb1011)
    second = run_relay("start", "-c", relay.conf, "--set", f"Relay.DataDir={tmp_path / 'other'}")
    assert second.returncode == ExitCode.ENVIRONMENT
    assert f"127.0.0.1:{relay.port}" in second.stderr


def test_ports_that_are_left_open_are_picked_and_named(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011, {"Server.ServerPort": 0, "Server.HTTPPort": 0})
    assert relay.port != 0 != relay.http_port
    addresses = relay.stat()["addresses"]
    assert addresses == {"classic": f"127.0.0.1:{relay.port}", "http": f"http://127.0.0.1:{relay.http_port}/"}
    RelayClient("127.0.0.1", relay.port, "finds-it", SECRET).connect()


def test_no_process_runs_but_those_that_stat_names(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    running = {process.pid for process in psutil.Process(relay.pid).children(recursive=True)}
    assert running == set(relay.pids().values())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_ends_with_its_family_and_its_memory(
    mariadb1011: DatabaseServer, start_relay: Start, number: signal.Signals
) -> None:
    relay = start_relay(mariadb1011)
    block = Path("/dev/shm") / (relay.conf.parent / "data" / "arena").read_text().strip()
    assert block.exists()
    family = psutil.Process(relay.pid).children(recursive=True)
    with RelayClient("127.0.0.1", relay.port, "waits", SECRET, patience=0) as client:
        client.add_filter("*")
        relay.signal(number)
        assert relay.wait() == 0
        client.close()
    assert not psutil.wait_procs(family, timeout=patience(5))[1]
    assert not list(block.parent.glob(f"{block.name}*"))


def test_a_second_signal_ends_it_now(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    os.kill(relay.pids()["server-0"], signal.SIGSTOP)  # it will not end by itself
    relay.signal(signal.SIGTERM)
    until(lambda: "supervisor stopping" in relay.stderr.read_text(), 2, pause=0.01)
    relay.signal(signal.SIGTERM)
    assert relay.wait() == 0
    assert "killed process=server-0" in relay.stderr.read_text()


def test_a_checkpoint_that_the_disk_makes_wait_is_waited_for(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start
) -> None:
    db = make_db(mariadb1011)
    mariadb1011.execute(f"CREATE TABLE {db}.t (id INT)")
    relay = start_relay(mariadb1011)
    data_dir = relay.conf.parent / "data"
    with RelayClient("127.0.0.1", relay.port, "away", SECRET) as client:
        client.add_filter(db)
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (1)")
    until(lambda: relay.stat()["clients"][0]["waiting"] == 1)
    slow = sqlite3.connect(data_dir / "state.db", isolation_level=None)
    slow.execute("BEGIN IMMEDIATE")  # whoever writes waits, as for a disk
    before = relay.stat()["journal"]["committed"]
    mariadb1011.execute(f"INSERT INTO {db}.t VALUES (2)")
    until(lambda: relay.stat()["journal"]["committed"] > before)
    relay.signal(signal.SIGTERM)
    time.sleep(2.5)
    slow.close()
    assert relay.wait() == 0
    assert "killed process=broker" not in relay.stderr.read_text()
    assert find(data_dir) is None, "the queues are stored, and need no memory"
    relay.start()
    until(lambda: relay.stat()["clients"][0]["waiting"] == 2)


def test_shared_memory_that_is_gone_is_rebuilt_from_disk(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    database = "shm_" + os.urandom(4).hex()
    with RelayClient("127.0.0.1", relay.port, "late", SECRET) as client:
        client.add_filter(database)
    mariadb1011.execute(f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    mariadb1011.execute(f"INSERT INTO {database}.t VALUES (1), (2), (3)")
    until(lambda: relay.stat()["clients"][0]["waiting"] >= 3)
    time.sleep(2.5)  # two checkpoints: what a host's loss would leave
    relay.kill()
    block = find(relay.conf.parent / "data")
    assert block is not None
    shutil.rmtree(beside(block))
    Path(f"/dev/shm/{block.name}").unlink()
    relay.start()
    with RelayClient("127.0.0.1", relay.port, "late", SECRET) as client:
        assert [row.after for row in client.poll_many(wait=patience(10))] == [{"id": 1}, {"id": 2}, {"id": 3}]
    mariadb1011.execute(f"DROP DATABASE {database}")


@pytest.mark.parametrize("left", [b"", bytes(13), b"psm_0\0\0\0", b"\xff" * 13, b"psm_not_there\n"])
def test_a_note_of_shared_memory_that_a_loss_of_power_spoilt_is_none(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "arena").write_bytes(left)
    assert find(tmp_path) is None


def test_a_lost_journal_stops_by_name(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
        client.add_filter("*")
    relay.stop()
    shutil.rmtree(relay.conf.parent / "data" / "journal")
    relay.start()
    assert "state=stopped:journal_lost" in relay.ready
    assert relay.stat()["stop"]["code"] == "journal_lost"
    relay.accept_gap()
    assert relay.stat()["state"] == "running"
    [client_facts] = relay.stat()["clients"]
    assert client_facts["filters"], "the filters hold on, from here"
    [gap] = relay.stat()["gaps"]
    assert "journal" in gap["cause"]


def test_its_processes_interrupt_nobody_when_they_are_woken(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    threads = [(name, int(thread)) for name, pid in relay.pids().items() for thread in os.listdir(f"/proc/{pid}/task")]
    assert {name for name, _ in threads} >= {"reader", "broker", "server-0", "monitor"}
    policy = os.sched_getscheduler(0) or os.SCHED_BATCH  # whoever runs the tests may have chosen one
    assert [name for name, thread in threads if os.sched_getscheduler(thread) != policy] == []


def test_a_scheduling_policy_that_somebody_chose_is_kept() -> None:
    def chosen() -> int:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # of this thread only
        schedule_as_batch()
        return os.sched_getscheduler(0)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(chosen).result() == os.SCHED_IDLE


@pytest.mark.parametrize(("priority", "wanted"), [(0, [os.SCHED_BATCH]), (19, [os.SCHED_BATCH]), (-1, [])])
def test_a_precedence_is_kept_and_where_the_policy_may_not_be_changed_it_competes_as_others_do(
    monkeypatch: pytest.MonkeyPatch, priority: int, wanted: list[int]
) -> None:
    asked: list[int] = []

    def forbidden(policy: int) -> None:
        asked.append(policy)
        raise PermissionError

    monkeypatch.setattr(child, "scheduling_policy", lambda: os.SCHED_OTHER)
    monkeypatch.setattr(os, "getpriority", lambda which, who: priority)
    monkeypatch.setattr(child, "set_scheduling_policy", forbidden)
    schedule_as_batch()
    assert asked == wanted


@pytest.mark.slow
def test_a_child_that_hangs_is_replaced(mariadb1011: DatabaseServer, start_relay: Start) -> None:
    relay = start_relay(mariadb1011)
    before = relay.pids()["broker"]
    os.kill(before, signal.SIGSTOP)
    until(lambda: relay.pids().get("broker", before) != before, 120, "the broker still hangs", pause=0.5)
    assert "hung process=broker" in relay.stderr.read_text()
