"""Difficult streams from a source, and long silence, under load, with the accounts afterwards."""

from __future__ import annotations

import fcntl
import random
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient, Row
from tests.faults.conftest import Ordeal
from tests.faults.load import TimedWorkload
from tests.faults.ordeal import Allows, Line, times
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience, until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]
KINDS = ("mysql97", "mariadb118", "mariadb1011")
MIB = 1 << 20


def assert_nothing_died(relay: RelayProcess) -> None:
    """No process was replaced."""
    assert not {p["name"]: p["restarts"] for p in relay.stat()["processes"] if p["restarts"]}


class AlteringWorkload(TimedWorkload):
    """Every third transaction finds other columns than the one before."""

    def _transaction(self) -> None:
        if self.random.random() < 0.3:
            self._alter(self.random.choice(self.tables))
        super()._transaction()


def storm(server: DatabaseServer, db: str, dice: random.Random) -> Iterator[str]:
    """Statements without end on tables that the load does not know, and that have no rows."""
    tables = 0
    while True:
        if tables < 3:
            tables += 1
            yield f"CREATE TABLE {db}.storm{tables} (id INT PRIMARY KEY, a INT, b VARCHAR(10))"
        table = f"{db}.storm{dice.randrange(1, tables + 1)}"
        yield f"ALTER TABLE {table} ADD COLUMN c{dice.randrange(10**6)} DECIMAL(20,5) FIRST"
        yield f"ALTER TABLE {table} MODIFY a {dice.choice(('BIGINT', 'VARCHAR(20)', 'DATETIME(6)', 'JSON'))}"
        yield f"CREATE INDEX i{dice.randrange(10**6)} ON {table} (b)"
        yield f"TRUNCATE TABLE {table}"
        yield f"RENAME TABLE {table} TO {db}.aside, {db}.aside TO {table}"
        if dice.random() < 0.2:
            yield f"DROP TABLE {db}.storm{tables}"
            tables -= 1


@pytest.mark.parametrize("altering", [False, True], ids=["beside", "amid"])
def test_a_storm_of_ddl(
    server: DatabaseServer,
    db: str,
    start_relay: Start,
    ordeal: Ordeal,
    altering: bool,
    request: pytest.FixtureRequest,
) -> None:
    """On other tables of the schema, whose names are asked for; with names in the events also on those of the load."""
    if altering:
        request.getfixturevalue("full_metadata")
    relay = start_relay(server)
    workload = AlteringWorkload if altering else TimedWorkload
    statements = storm(server, db, random.Random(1))
    with ordeal("Storm of DDL", relay, server, db, Allows.NOTHING, pause=0.01, workload=workload) as trial:
        for _ in range(times(80)):
            with trial.fault():
                server.execute(next(statements))
    assert_nothing_died(relay)


def test_a_transaction_larger_than_memory(
    server: DatabaseServer,
    db: str,
    make_db: Callable[[DatabaseServer], str],
    start_relay: Start,
    ordeal: Ordeal,
) -> None:
    """No process of the relay may have more than 256 MiB above what it has idle; the transaction has 640 MiB."""
    rows, size, huge = max(times(80), 40), 8 * MIB, make_db(server)
    engine = "BLACKHOLE" if server.kind.mysql else "MyISAM"  # the binlog is what matters
    server.execute(
        f"CREATE TABLE {huge}.t (id INT, data LONGBLOB) ENGINE = {engine}",
        f"CREATE TABLE {huge}.numbers (id INT)",
        f"INSERT INTO {huge}.numbers VALUES {', '.join(f'({number})' for number in range(rows))}",
    )
    relay = start_relay(server, {"Relay.MaxBufferedBytes": "32MiB", "Relay.SegmentBytes": "64MiB"})
    supervisor = psutil.Process(relay.pid)
    for process in [supervisor, *supervisor.children(recursive=True)]:
        status = Path(f"/proc/{process.pid}/status").read_text()
        (data,) = [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData")]
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (data + 256 * MIB,) * 2)
    with (
        RelayClient("127.0.0.1", relay.port, "huge", SECRET) as client,
        ordeal("Transaction larger than memory", relay, server, db, Allows.NOTHING, pause=0.01) as trial,
    ):
        client.add_filter(huge, "t")
        with trial.fault():
            server.execute(f"INSERT INTO {huge}.t SELECT id, REPEAT('x', {size}) FROM {huge}.numbers ORDER BY id")
        found: list[tuple[int, int]] = []
        while len(found) < rows:
            some = client.poll_many(wait=patience(60))
            assert some, f"{len(found)} of {rows} rows came"
            found += [(row.after["id"], len(row.after["data"])) for row in some if row.after]
        assert found == [(number, size) for number in range(rows)]
    assert_nothing_died(relay)


@pytest.fixture
def plenty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Memory for one test at a time that takes gigabytes."""
    with open(tmp_path_factory.getbasetemp().parent / "plenty.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.usefixtures("plenty")
@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_row_event(
    kind: str, own_server: Callable[..., DatabaseServer], start_relay: Start, tell: Callable[[Line], None]
) -> None:
    """1 GiB is the most that a server sends in one event; this one has a little less, in two values."""
    size = times(511) * MIB
    server = own_server(kind, "--max-allowed-packet=1G")
    engine = "BLACKHOLE" if server.kind.mysql else "MyISAM"
    server.execute("CREATE DATABASE d", f"CREATE TABLE d.t (id INT, a LONGBLOB, b LONGBLOB) ENGINE = {engine}")
    relay = start_relay(server, {"Relay.MaxBufferedBytes": "4GiB", "Relay.Workers": 1})
    with RelayClient("127.0.0.1", relay.port, "c", SECRET, timeout=patience(300)) as client:
        client.add_filter("d")
        server.execute(f"INSERT INTO d.t VALUES (1, REPEAT('x', {size}), REPEAT('y', {size}))", "FLUSH BINARY LOGS")
        written = time.monotonic()
        server.execute("INSERT INTO d.t VALUES (2, '', '')")
        until(lambda: relay.stat()["clients"][0]["waiting"] == 2, 300, "it does not come")
        server.kill()  # its memory is for the reply and for the client
        found: list[tuple[int, int, int]] = []
        while len(found) < 2:
            some = client.poll_many(wait=patience(120))
            assert some, f"{len(found)} rows came, {relay.stat()['stop']}"
            found += [(row.after["id"], len(row.after["a"]), len(row.after["b"])) for row in some if row.after]
        del some
        recovery = time.monotonic() - written
    assert found == [(1, size, size), (2, 0, 0)]
    assert_nothing_died(relay)
    tell(Line("Largest row event (1 GiB)", 1, 2, 2, 0, 0, Allows.NOTHING.value, round(recovery, 2)))


@pytest.mark.usefixtures("plenty")
@pytest.mark.parametrize("kind", ["mariadb118"])
def test_an_event_that_no_server_sends(
    kind: str, own_server: Callable[..., DatabaseServer], start_relay: Start, tell: Callable[[Line], None]
) -> None:
    """Beyond 1 GiB: a named stop; once it is accepted the relay goes on behind the file, and says what it left out."""
    server = own_server(kind, "--max-allowed-packet=1G")
    server.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT, a LONGBLOB, b LONGBLOB) ENGINE = MyISAM",
        "CREATE TABLE d.small (id INT PRIMARY KEY)",
    )
    relay = start_relay(server)
    with RelayClient("127.0.0.1", relay.port, "c", SECRET) as client:
        client.add_filter("d", "small")
        server.execute(
            "INSERT INTO d.small VALUES (1)",
            f"INSERT INTO d.t VALUES (1, REPEAT('x', {513 * MIB}), REPEAT('y', {513 * MIB}))",
            "INSERT INTO d.small VALUES (2)",
        )
        until(lambda: (relay.stat()["stop"] or {}).get("code") == "event_too_large", 120, "it does not stop")
        written = time.monotonic()
        relay.accept_gap()
        rows: list[Row] = []
        while len(rows) < 2:
            some = client.poll_many(wait=patience(30))
            assert some, f"{len(rows)} rows came, {relay.stat()['stop']}"
            rows += some
        recovery = time.monotonic() - written
        ids = list(dict.fromkeys(row.after["id"] for row in rows if row.after))
    assert ids == [1, 2]
    (gap,) = relay.stat()["gaps"]
    assert "max_allowed_packet" in gap["cause"]
    assert gap["before"] < gap["after"]
    tell(
        Line(
            "Event larger than any server sends", 1, 2, 2, 0, len(rows) - 2, Allows.IN_FLIGHT.value, round(recovery, 2)
        )
    )


class WarpedWorkload(TimedWorkload):
    """Its session's clock stands where `clock` says."""

    clock = "DEFAULT"

    def _transaction(self) -> None:
        self._run(f"SET TIMESTAMP = {self.clock}")
        super()._transaction()


def test_a_clock_that_jumps(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal) -> None:
    relay = start_relay(server)
    dice = random.Random(6)
    now = int(time.time())
    times_of_day = ["1", "1000000000", str(now - 86_400), str(now + 3_600), str(now + 365 * 86_400), "2147483647"]
    with ordeal(
        "Clock of the source jumps", relay, server, db, Allows.NOTHING, pause=0.01, workload=WarpedWorkload
    ) as trial:
        for number in range(times(60)):
            with trial.fault():
                trial.load.workload.clock = "DEFAULT" if number % 3 == 2 else dice.choice(times_of_day)  # type: ignore[attr-defined]
            time.sleep(0.15)
    assert_nothing_died(relay)


@pytest.mark.parametrize("kind", KINDS)
def test_idle_for_longer_than_every_timeout(
    kind: str,
    own_server: Callable[..., DatabaseServer],
    make_db: Callable[[DatabaseServer], str],
    start_relay: Start,
    ordeal: Ordeal,
) -> None:
    """Of the source five seconds; of the relay three heartbeats, 20 seconds for a question, 60 until one is hung."""
    server = own_server(kind, *(f"--{name}-timeout=5" for name in ("wait", "interactive", "net-read", "net-write")))
    db, elsewhere = make_db(server), make_db(server)
    relay = start_relay(server, {"Source.Heartbeat": "1s"})
    with ordeal("Idle for longer than every timeout", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        time.sleep(0.5)
        with trial.fault(), trial.load.paused():
            time.sleep(times(65))
        # A table whose names have to be asked for, over a connection that the source has hung up on.
        server.execute(f"CREATE TABLE {elsewhere}.t (id INT PRIMARY KEY)", f"INSERT INTO {elsewhere}.t VALUES (1)")
        time.sleep(0.5)
    assert "source_lost" not in relay.stderr.read_text()
    assert_nothing_died(relay)
