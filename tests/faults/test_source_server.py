"""The source restarts, crashes, rotates and purges its binlog, and is replaced by another server, under load."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from tests.faults.conftest import Ordeal
from tests.faults.load import SurvivingWorkload
from tests.faults.ordeal import Allows, times
from tests.support.fault_proxy import FaultProxy
from tests.support.relay_process import RelayProcess
from tests.support.replicating_pair import HOSTS, executed
from tests.support.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]


def test_a_source_that_restarts(
    own: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start, ordeal: Ordeal
) -> None:
    relay, db = start_relay(own), make_db(own)
    dice = random.Random(1)
    with ordeal("Source restarted", relay, own, db, Allows.NOTHING, pause=0.005, workload=SurvivingWorkload) as trial:
        for _ in range(times(3)):
            time.sleep(dice.uniform(0.2, 1))
            with trial.fault():
                own.restart()


def test_a_source_that_is_killed(
    own: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start, ordeal: Ordeal
) -> None:
    relay, db = start_relay(own), make_db(own)
    dice = random.Random(2)
    with ordeal(
        "SIGKILL of the source", relay, own, db, Allows.NOTHING, pause=0.005, workload=SurvivingWorkload
    ) as trial:
        for _ in range(times(6)):
            time.sleep(dice.uniform(0.1, 1.5))
            with trial.fault():
                own.kill()
                own.start()


def test_a_binlog_that_rotates(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal) -> None:
    relay = start_relay(server)
    dice = random.Random(3)
    with ordeal("Binlog rotated", relay, server, db, Allows.NOTHING, pause=0.005) as trial:
        for _ in range(times(100)):
            with trial.fault():
                server.execute("FLUSH BINARY LOGS")
            time.sleep(dice.uniform(0, 0.1))


def test_a_binlog_that_is_purged_live(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal) -> None:
    relay = start_relay(server)
    dice = random.Random(4)
    with ordeal("Binlog purged behind the relay", relay, server, db, Allows.NOTHING, pause=0.005) as trial:
        for _ in range(times(50)):
            with trial.fault():
                server.execute("FLUSH BINARY LOGS")
                newest = server.execute("SHOW BINARY LOGS")[-1][0]
                server.execute(f"PURGE BINARY LOGS TO '{newest}'")  # but for what a dump still reads
            time.sleep(dice.uniform(0, 0.3))


def replicate(server: DatabaseServer, host: str) -> None:
    """Make a server that was the first of a pair replicate the one on that address."""
    account = f"'{host}', {{0}}_PORT={server.port}, {{0}}_USER='{USER}', {{0}}_PASSWORD='{PASSWORD}'"
    if server.kind.mysql:
        server.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST={account.format('SOURCE')}, SOURCE_AUTO_POSITION=1,"
            " GET_SOURCE_PUBLIC_KEY=1",
            "START REPLICA",
        )
    else:
        server.execute(
            "SET GLOBAL gtid_slave_pos = @@GLOBAL.gtid_binlog_pos",
            f"CHANGE MASTER TO MASTER_HOST={account.format('MASTER')}, MASTER_USE_GTID=slave_pos",
            "START SLAVE",
        )


def test_failover_under_load(
    pair: tuple[DatabaseServer, DatabaseServer], make_db: Callable[[DatabaseServer], str], start_relay: Start,
    ordeal: Ordeal,
) -> None:  # fmt: skip
    """Back and forth; what the relay had not read yet when one died comes from the other."""
    serving, standby = pair
    hosts = dict(zip(pair, HOSTS, strict=True))
    replica = "REPLICA" if serving.kind.mysql else "SLAVE"
    with FaultProxy(serving.port, HOSTS[0]) as one, FaultProxy(serving.port, HOSTS[1], one.port) as other:
        links = dict(zip(pair, (one, other), strict=True))
        settings = {"Server.IPAddr": ", ".join(HOSTS), "Server.Port": one.port, "Source.Heartbeat": "1s"}
        relay, db = start_relay(serving, settings), make_db(serving)
        with ordeal("Failover by GTID", relay, serving, db, Allows.NOTHING, pause=0.01) as trial:
            for _ in range(times(4)):
                time.sleep(1)
                links[serving].half_open()  # it hears nothing of what is written from now on
                time.sleep(1)
                with trial.fault(), trial.load.paused(standby):
                    sent = executed(serving)
                    until(partial(lambda sent, to: sent.issubset(executed(to)), sent, standby), 30, "it lags")
                    serving.kill()
                    links[serving].cut()
                    standby.execute(f"STOP {replica}", f"RESET {replica} ALL")
                trial.catch_up()
                serving.start()
                replicate(serving, hosts[standby])
                serving, standby = standby, serving
