"""Fixtures for all tests: real servers, real relays; options, seeds and patience.

One database server of each kind serves a whole run. A test that takes every kind runs on one of them, which follows
from its name; with the mark `brands` on MySQL and on a MariaDB, with `every_server` or RELAY_SERVERS=all on each.

A test that stops or breaks its server creates its own, and has the kind as a parameter. The tests of a server that is
not available fail, unless RELAY_TEST_SKIP=mysql97,... names it: then they are deselected, and a line says so.
"""

from __future__ import annotations

import os
import random
import resource
import secrets
import signal
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest

from examples import dbserver
from examples.dbserver import KINDS, DatabaseServer
from relay.client import RelayClient
from tests.support.cdc_relay import CdcRelay
from tests.support.chance import SEED
from tests.support.purging import purge
from tests.support.reader_process import Reader
from tests.support.relay_process import RelayProcess, write_conf
from tests.support.replicating_pair import pair_of
from tests.support.server_variables import full_metadata_of
from tests.support.waiting import PATIENCE, patience

# The same examples in each run with the same RELAY_SEED, however slow the machine is.
hypothesis.settings.register_profile("seeded", derandomize=not SEED, database=None, deadline=None)
hypothesis.settings.load_profile("seeded")

# Patience of others than the tests' own.
dbserver.START_SECONDS, dbserver.STOP_SECONDS = patience(dbserver.START_SECONDS), patience(dbserver.STOP_SECONDS)
(RelayClient.__init__.__kwdefaults__ or {})["timeout"] *= PATIENCE

deselected = pytest.StashKey[int]()

SHM = Path("/dev/shm")
ROOMY = 8 << 30  # bytes: six servers need one or two GiB


def skipped_kinds() -> list[str]:
    """The kinds that RELAY_TEST_SKIP names."""
    names = [name.strip() for name in os.environ.get("RELAY_TEST_SKIP", "").split(",") if name.strip()]
    if unknown := [name for name in names if name not in KINDS]:
        raise pytest.UsageError(f"RELAY_TEST_SKIP names {', '.join(unknown)}; there are {', '.join(KINDS)}")
    return names


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--order", default="", help="order of the tests: reversed, or random:SEED")


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C reach the programs under test: a shell without job control starts its background with SIGINT ignored,
    and what is ignored is inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.option.hypothesisseed = SEED or None
    if folder := _scratch():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))


def pytest_sessionstart() -> None:
    for folder in (SHM, Path(tempfile.gettempdir())):
        dbserver.remove_abandoned(folder)


def pytest_report_header() -> str:
    return f"RELAY_SEED={SEED} RELAY_PATIENCE={PATIENCE:g}"


def server_kind(item: pytest.Item) -> str | None:
    """The kind of server that a parameter of the test names."""
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return next((value for value in values if isinstance(value, str) and value in KINDS), None)


def chosen_kinds(kinds: list[str], test: str, mark: str) -> list[str]:
    """Those of the kinds that a test runs on: one of them, which follows from its name.

    With the mark "brands": MySQL and a MariaDB. With "every_server": all.
    """
    if mark == "every_server":
        return kinds
    number = zlib.crc32(test.encode())
    if mark == "brands":
        families = ([kind for kind in kinds if KINDS[kind].mysql is mysql] for mysql in (True, False))
        return [family[number % len(family)] for family in families if family]
    return [kinds[number % len(kinds)]]


def left_to_other_runs(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests on kinds of servers that are not chosen for them; none with RELAY_SERVERS=all."""
    if os.environ.get("RELAY_SERVERS") == "all":
        return []
    variants: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        if kind := server_kind(item):
            variants.setdefault(item.nodeid.replace(kind, "*"), {}).setdefault(kind, []).append(item)
    left = []
    for test, of_kinds in variants.items():
        if len(of_kinds) < len(KINDS):  # its author chose them
            continue
        [(one, *_), *_] = of_kinds.values()
        mark = next((mark for mark in ("every_server", "brands") if one.get_closest_marker(mark)), "")
        chosen = chosen_kinds(sorted(of_kinds), test, mark)
        left += [item for kind, those in of_kinds.items() if kind not in chosen for item in those]
    return left


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skipped = set(skipped_kinds())
    dropped: set[pytest.Item] = set()
    for item in items if skipped else []:
        needs = {*getattr(item, "fixturenames", ()), server_kind(item)}
        if needs & skipped:
            dropped.add(item)
    config.stash[deselected] = len(dropped)
    dropped.update(left_to_other_runs([item for item in items if item not in dropped]))
    if dropped:
        config.hook.pytest_deselected(items=list(dropped))
        items[:] = [item for item in items if item not in dropped]
    put_in_order(items, config.getoption("--order"))
    for item in items if PATIENCE != 1 else []:
        marker = item.get_closest_marker("timeout")
        seconds = marker.args[0] if marker else config.getoption("--timeout") or config.getini("timeout")
        item.add_marker(pytest.mark.timeout(patience(float(seconds))), append=False)


def put_in_order(items: list[pytest.Item], order: str) -> None:
    """Shuffle the files, or also the tests in each, or reverse all.

    Neighbours in the tree are alike: if each worker ran a quarter of it, all would wait, or all compute, at a time.
    """
    if order == "reversed":
        items.reverse()
        return
    seed = order.removeprefix("random:") or str(SEED)

    def place(item: pytest.Item) -> list[float]:
        path = item.path.relative_to(item.config.rootpath)
        return [random.Random(f"{seed} {name}").random() for name in ([path, item.nodeid] if order else [path])]

    items.sort(key=place)


def pytest_report_collectionfinish(config: pytest.Config) -> str:
    skipped = skipped_kinds()
    return f"RELAY_TEST_SKIP: {config.stash[deselected]} tests on {', '.join(skipped)} deselected" if skipped else ""


_shared: list[DatabaseServer] = []


def _scratch() -> Path | None:
    """Memory for the files of tests and servers, where there is plenty: thousands of them would wait for the disk."""
    if SHM.is_dir() and min(psutil.disk_usage(str(SHM)).free, psutil.virtual_memory().available) > ROOMY:
        return SHM
    return None


def _running(kind: str) -> Iterator[DatabaseServer]:
    with DatabaseServer(kind, scratch=_scratch()) as server:
        _shared.append(server)
        yield server
        _shared.remove(server)


@pytest.fixture(autouse=True)
def _shared_servers_live() -> Iterator[None]:
    """A server that died fails the test that it died in, with its last words, and none of those that come after."""
    yield
    for server in _shared:
        if (words := server.unexpected_exit()) is not None:
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


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    """The name of each kind of server in turn."""
    return str(request.param)


@pytest.fixture
def pair(kind: str) -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    """Two servers on one port of two addresses; the second replicates the first."""
    with pair_of(kind) as servers:
        yield servers


@pytest.fixture
def own_server() -> Iterator[Callable[..., DatabaseServer]]:
    """Makes started servers for this test alone: own_server(kind, *options); they end with it.

    The kind has to come from a parameter or a fixture's name, so that RELAY_TEST_SKIP finds the test.
    """
    with ExitStack() as stack:

        def make(kind: str, *options: str) -> DatabaseServer:
            assert kind not in skipped_kinds(), f"this test makes a {kind}, and no parameter of it says so"
            return stack.enter_context(DatabaseServer(kind, options=options, scratch=_scratch()))

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
    purge(server)


@pytest.fixture
def full_metadata(server: DatabaseServer) -> Iterator[None]:
    """binlog_row_metadata=FULL on `server` while this test runs."""
    with full_metadata_of(server):
        yield


@pytest.fixture
def limit_files() -> Iterator[Callable[[int], None]]:
    """Limits the size of files, in bytes: what exceeds it fails as on a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, old)
    signal.signal(signal.SIGXFSZ, handler)


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
def bench(start_relay: Callable[..., RelayProcess], server: DatabaseServer) -> Iterator[Callable[..., CdcRelay]]:
    """Starts relays with a CDC port on `server`, whose clients end with the test: bench(Values="maxscale")."""
    with ExitStack() as stack:

        def make(**settings: object) -> CdcRelay:
            made = CdcRelay(start_relay, server, **settings)
            stack.callback(made.close)
            return made

        yield make
