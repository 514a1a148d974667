"""Real servers, real relays: what every test may ask for.

One database server of each kind serves a whole run; a test that stops or breaks its server makes one of its own, and
has the kind as a parameter. A server that cannot be had fails its tests, unless RELAY_TEST_SKIP=mysql97,... names it:
then they are deselected, and a line says so.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from examples.dbserver import KINDS, DatabaseServer
from tests.cdcbench import Bench, benches
from tests.metadata import full_metadata_of
from tests.readerproc import Reader
from tests.relayproc import RelayProcess, write_conf

# The same examples in each run, however slow the machine is.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None)
hypothesis.settings.load_profile("fixed")

deselected = pytest.StashKey[int]()


def skipped_kinds() -> list[str]:
    """The kinds that RELAY_TEST_SKIP names."""
    names = [name.strip() for name in os.environ.get("RELAY_TEST_SKIP", "").split(",") if name.strip()]
    if unknown := [name for name in names if name not in KINDS]:
        raise pytest.UsageError(f"RELAY_TEST_SKIP names {', '.join(unknown)}; there are {', '.join(KINDS)}")
    return names


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs under test: a shell without job control starts its background with SIGINT ignored,
    and what is ignored is inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skipped = set(skipped_kinds())
    dropped: list[pytest.Item] = []
    for item in items if skipped else []:
        needs = {*getattr(item, "fixturenames", ()), *getattr(getattr(item, "callspec", None), "params", {}).values()}
        if any(isinstance(name, str) and name in skipped for name in needs):
            dropped.append(item)
    config.stash[deselected] = len(dropped)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


def pytest_report_collectionfinish(config: pytest.Config) -> str:
    skipped = skipped_kinds()
    return f"RELAY_TEST_SKIP: {config.stash[deselected]} tests on {', '.join(skipped)} deselected" if skipped else ""


_shared: list[DatabaseServer] = []


def _running(kind: str) -> Iterator[DatabaseServer]:
    with DatabaseServer(kind) as server:
        _shared.append(server)
        yield server
        _shared.remove(server)


@pytest.fixture(autouse=True)
def _shared_servers_live() -> Iterator[None]:
    """A server that died fails the test that it died in, with its last words, and none of those that come after."""
    yield
    for server in _shared:
        if (words := server.died()) is not None:
            server.start()
            pytest.fail(words)


@pytest.fixture(scope="session")
def mariadb1011() -> Iterator[DatabaseServer]:
    """MariaDB 10.11, shared by the run."""
    yield from _running("mariadb1011")


@pytest.fixture(scope="session")
def mariadb118() -> Iterator[DatabaseServer]:
    """MariaDB 11.8, shared by the run."""
    yield from _running("mariadb118")


@pytest.fixture(scope="session")
def mysql97() -> Iterator[DatabaseServer]:
    """MySQL 9.7, shared by the run."""
    yield from _running("mysql97")


@pytest.fixture(scope="session", params=list(KINDS))
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    """Each of the three servers in turn."""
    running: DatabaseServer = request.getfixturevalue(request.param)
    return running


@pytest.fixture
def own_server() -> Iterator[Callable[..., DatabaseServer]]:
    """Makes started servers for this test alone: own_server(kind, *options); they end with it.

    The kind has to come from a parameter or a fixture's name, so that RELAY_TEST_SKIP finds the test.
    """
    with ExitStack() as stack:

        def make(kind: str, *options: str) -> DatabaseServer:
            assert kind not in skipped_kinds(), f"this test makes a {kind}, and no parameter of it says so"
            return stack.enter_context(DatabaseServer(kind, options=options))

        yield make


@pytest.fixture
def make_db() -> Iterator[Callable[[DatabaseServer], str]]:
    """Makes databases with a name that no other test uses: make_db(server) -> name; dropped at the end."""
    made: list[tuple[DatabaseServer, str]] = []

    def make(server: DatabaseServer) -> str:
        name = f"t_{secrets.token_hex(5)}"
        server.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        made.append((server, name))
        return name

    yield make
    for server, name in made:
        server.execute(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture
def db(server: DatabaseServer, make_db: Callable[[DatabaseServer], str]) -> str:
    """A fresh database on `server`."""
    return make_db(server)


@pytest.fixture
def young_binlog(server: DatabaseServer) -> None:
    """The binlog of `server` holds nothing of the tests before: for tests that read it from its beginning."""
    status = "SHOW BINARY LOG STATUS" if server.kind.mysql else "SHOW MASTER STATUS"
    file = server.execute("FLUSH BINARY LOGS", status)[0][0]
    # What a dump thread or MariaDB's checkpoint still holds goes a little later.
    while len(server.execute(f"PURGE BINARY LOGS TO '{file}'", "SHOW BINARY LOGS")) > 1:
        time.sleep(0.05)


@pytest.fixture
def full_metadata(server: DatabaseServer) -> Iterator[None]:
    """binlog_row_metadata=FULL on `server` while this test runs."""
    with full_metadata_of(server):
        yield


@pytest.fixture
def make_reader(tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    """make_reader(server, {"Source.StartPosition": ...}, accept_gap=False): one DataDir for all of a test's readers."""
    with ExitStack() as stack:

        def make(server: DatabaseServer, settings: dict[str, str] | None = None, **more: Any) -> Reader:
            made = Reader(server, tmp_path / "data", settings or {}, **more)
            (tmp_path / "data").mkdir(exist_ok=True)
            stack.callback(made.close)
            return made.start()

        yield make


@pytest.fixture
def relay_conf(tmp_path: Path) -> Callable[..., Path]:
    """Writes a config for a source: relay_conf(server, {"Relay.Workers": 1}) -> its path."""

    def write(server: DatabaseServer, settings: dict[str, object] | None = None) -> Path:
        folder = tmp_path / f"relay-{secrets.token_hex(3)}"
        folder.mkdir()
        return write_conf(folder, server, settings)

    return write


@pytest.fixture
def start_relay(relay_conf: Callable[..., Path]) -> Iterator[Callable[..., RelayProcess]]:
    """Starts relays that end with the test: start_relay(server, {"Relay.Delivery": "at-most-once"})."""
    with ExitStack() as stack:

        def start(server: DatabaseServer, settings: dict[str, object] | None = None, *flags: str) -> RelayProcess:
            process = RelayProcess(relay_conf(server, settings), *flags)
            stack.callback(process.end)
            return process.start()

        yield start


@pytest.fixture
def relay(server: DatabaseServer, start_relay: Callable[..., RelayProcess]) -> RelayProcess:
    """A running relay on `server`, config as `relay_conf` writes it."""
    return start_relay(server)


@pytest.fixture
def bench(start_relay: Callable[..., RelayProcess], server: DatabaseServer) -> Iterator[Callable[..., Bench]]:
    """Starts relays with a CDC port on `server`, whose clients end with the test: bench(Values="maxscale")."""
    with benches(start_relay, server) as make:
        yield make
