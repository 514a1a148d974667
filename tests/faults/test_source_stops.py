"""Conditions after which the relay cannot continue: a fatal error under load, its remedy, the accounts afterwards."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest

from examples.dbserver import DatabaseServer
from relay.binlog.dump import Request, open_dump
from relay.source.connect import Account, connect
from relay.source.facts import binlog_end, query_facts
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows, times
from tests.support.fault_proxy import FaultProxy
from tests.support.relay_process import RelayProcess, run_relay
from tests.support.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]
OF_ANOTHER_MAKE = {"mysql97": "mariadb118", "mariadb118": "mysql97", "mariadb1011": "mysql97"}
PASSWORD = "a-password-of-its-own"


def wait_stopped(relay: RelayProcess, code: str, seconds: float = 30) -> None:
    until(lambda: (relay.stat()["stop"] or {}).get("code") == code, seconds, f"no stop {code}")


def resume(relay: RelayProcess) -> None:
    done = run_relay("resume", "-c", relay.conf)
    assert done.returncode == 0, done.stderr
    until(lambda: relay.stat()["state"] == "running", what="it does not go on")


def test_a_server_of_another_make_at_the_address(
    server: DatabaseServer,
    db: str,
    start_relay: Start,
    ordeal: Ordeal,
    proxy: FaultProxy,
    request: pytest.FixtureRequest,
) -> None:
    other: DatabaseServer = request.getfixturevalue(OF_ANOTHER_MAKE[server.name])
    relay = start_relay(server, {"Server.Port": proxy.port})
    with ordeal("Wrong server at the address", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for _ in range(times(3)):
            time.sleep(0.5)
            with trial.fault():
                proxy.target = "127.0.0.1", other.port
                proxy.cut()
                wait_stopped(relay, "wrong_source")
                proxy.target = "127.0.0.1", server.port
                resume(relay)


@pytest.mark.parametrize(
    ("kind", "ahead"), [("mysql97", False), ("mariadb118", False), ("mariadb118", True), ("mariadb1011", True)]
)
def test_a_server_of_the_same_make_that_is_no_replica(
    kind: str,
    ahead: bool,
    request: pytest.FixtureRequest,
    make_db: Callable[[DatabaseServer], str],
    own_server: Callable[..., DatabaseServer],
    start_relay: Start,
    ordeal: Ordeal,
) -> None:
    """Its GTIDs lack what was sent, or are ahead in the same domain and hide that."""
    server: DatabaseServer = request.getfixturevalue(kind)
    other = own_server(kind)
    if ahead:
        other.execute("SET SESSION gtid_seq_no = 1000000000", "CREATE DATABASE d")
    db = make_db(server)
    with FaultProxy(server.port) as proxy:
        relay = start_relay(server, {"Server.Port": proxy.port})
        with ordeal("Wrong server at the address", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
            time.sleep(0.5)
            with trial.fault():
                proxy.target = "127.0.0.1", other.port
                proxy.cut()
                wait_stopped(relay, "gtid_gap", 120)
                proxy.target = "127.0.0.1", server.port
                resume(relay)


def clashes(relay: RelayProcess, account: Account, number: int) -> bool:
    """Ask for the binlog once as a replica does that comes back whenever it is put out: the server may put the relay
    out without a word, and then the relay does the same to us."""
    connection = connect(account)
    about = query_facts(connection)
    end = binlog_end(connection, about)
    with closing(open_dump(connection, about.mariadb, Request(number, end.file, end.position))):
        try:
            wait_stopped(relay, "server_id_clash", 2)
        except AssertionError:
            return False
    return True


def test_another_replica_of_the_same_id(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal) -> None:
    number = 1_234_567_890
    relay = start_relay(server, {"Source.ServerId": number})
    account = Account("127.0.0.1", server.port, "relay", "relaypw")
    with ordeal("Clash of server ids", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for _ in range(times(3)):
            time.sleep(0.5)
            with trial.fault():
                until(lambda: clashes(relay, account, number), 30, "no stop server_id_clash", pause=0)
                resume(relay)


@pytest.fixture
def user(server: DatabaseServer) -> Iterator[str]:
    """An account with no more rights than `relay check` asks for."""
    name = f"u_{secrets.token_hex(4)}"
    create(server, name)
    yield name
    server.execute(f"DROP USER IF EXISTS {name}")


def create(server: DatabaseServer, name: str) -> None:
    server.execute(
        f"CREATE USER {name} IDENTIFIED BY '{PASSWORD}'",
        f"GRANT REPLICATION SLAVE, {'REPLICATION CLIENT' if server.kind.mysql else 'BINLOG MONITOR'} ON *.* TO {name}",
        f"GRANT SELECT ON *.* TO {name}",
    )


TAKEN = {
    "Rights of the account taken away": "REVOKE REPLICATION SLAVE ON *.* FROM {}",
    "Password of the account expired": "ALTER USER {} PASSWORD EXPIRE",
    "Account locked": "ALTER USER {} ACCOUNT LOCK",
    "Account dropped": "DROP USER {}",
}
GIVEN = {
    "Rights of the account taken away": "GRANT REPLICATION SLAVE ON *.* TO {}",
    "Password of the account expired": f"ALTER USER {{}} IDENTIFIED BY '{PASSWORD}'",
    "Account locked": "ALTER USER {} ACCOUNT UNLOCK",
}


@pytest.mark.parametrize("fault", TAKEN)
def test_an_account_that_may_no_longer_read(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal, proxy: FaultProxy, user: str, fault: str
) -> None:
    relay = start_relay(server, {"Server.Port": proxy.port, "Server.Login": user, "Server.Password": PASSWORD})
    with ordeal(fault, relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for _ in range(times(3)):
            with trial.fault():
                server.execute(TAKEN[fault].format(user))
                time.sleep(0.5)  # what is connected is served on
                assert relay.stat()["state"] == "running"
                proxy.cut()
                wait_stopped(relay, "source_denied")
                server.execute(GIVEN[fault].format(user)) if fault in GIVEN else create(server, user)
                resume(relay)
            time.sleep(0.5)


@pytest.mark.parametrize("living", [False, True], ids=["stopped", "cut-off"])
def test_a_binlog_that_is_purged_before_it_is_read(
    server: DatabaseServer,
    db: str,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Start,
    ordeal: Ordeal,
    proxy: FaultProxy,
    living: bool,
) -> None:
    """Of what is purged nothing concerns the clients here, so that nothing is lost once the gap is accepted."""
    relay, elsewhere = start_relay(server, {"Server.Port": proxy.port}), make_db(server)
    server.execute(f"CREATE TABLE {elsewhere}.t (id INT PRIMARY KEY AUTO_INCREMENT)")
    fault = "Binlog purged while the link is cut" if living else "Binlog purged under a stopped relay"
    with ordeal(fault, relay, server, db, Allows.IN_FLIGHT, pause=0.01) as trial:
        for number in range(1, times(3) + 1):
            time.sleep(0.5)
            with trial.fault(), trial.load.paused():
                trial.catch_up()
                if living:
                    proxy.target = "127.0.0.1", 0
                    proxy.cut()
                else:
                    assert relay.stop() == 0
                server.execute(f"INSERT INTO {elsewhere}.t VALUES ()")
                until(lambda: purged(server), what="the source does not purge")
                if living:
                    proxy.target = "127.0.0.1", server.port
                else:
                    relay.start()
                wait_stopped(relay, "binlog_purged")
                relay.accept_gap()
                until(partial(lambda number: len(relay.stat()["gaps"]) == number, number), what="no gap was accepted")


def purged(server: DatabaseServer) -> bool:
    """Purge all but the newest file, which is empty; whether the others are gone."""
    server.execute("FLUSH BINARY LOGS")
    newest = server.execute("SHOW BINARY LOGS")[-1][0]
    return len(server.execute(f"PURGE BINARY LOGS TO '{newest}'", "SHOW BINARY LOGS")) == 1


def test_a_binlog_that_is_begun_anew(
    own: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start, ordeal: Ordeal
) -> None:
    """All that was committed before is read by then; what comes after is read once the gap is accepted."""
    relay, db = start_relay(own), make_db(own)
    with ordeal("Binlog reset (RESET MASTER)", relay, own, db, Allows.IN_FLIGHT, pause=0.01) as trial:
        for _ in range(times(3)):
            time.sleep(0.5)
            with trial.fault():
                with trial.load.paused():
                    trial.catch_up()
                    own.execute("RESET BINARY LOGS AND GTIDS" if own.kind.mysql else "RESET MASTER")
                wait_stopped(relay, "binlog_reset")
                relay.accept_gap()


def test_a_source_that_is_reached_late_at_the_first_start(
    server: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start, ordeal: Ordeal
) -> None:
    """Clients whose filters are acknowledged have all that is committed from then on, however early they came."""
    for _ in range(times(5)):
        with FaultProxy(server.port) as proxy:
            proxy.target = "127.0.0.1", 0
            db, relay = make_db(server), start_relay(server, {"Server.Port": proxy.port})
            reached = threading.Timer(1, setattr, (proxy, "target", ("127.0.0.1", server.port)))
            reached.start()
            with ordeal("Source reached late at the first start", relay, server, db, Allows.NOTHING) as trial:
                with trial.fault():
                    reached.join()
                time.sleep(1)
            assert relay.stop() == 0


def test_a_statement_that_no_row_event_tells(
    server: DatabaseServer,
    db: str,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Start,
    ordeal: Ordeal,
) -> None:
    relay, elsewhere = start_relay(server, {"Relay.OnUnknown": "skip"}), make_db(server)
    server.execute(f"CREATE TABLE {elsewhere}.t (id INT PRIMARY KEY AUTO_INCREMENT)")
    name = "STATEMENT-format DML with OnUnknown = skip"
    with ordeal(name, relay, server, db, Allows.NOTHING, pause=0.005) as trial:
        for _ in range(times(50)):
            with trial.fault():
                server.execute("SET SESSION binlog_format = STATEMENT", f"INSERT INTO {elsewhere}.t VALUES ()")
            time.sleep(0.05)
        trial.catch_up()
        assert relay.stat()["traffic"]["skipped"] >= len(trial.faults), "what was left out is not counted"
