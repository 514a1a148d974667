"""Each wheel of dist/ works in Debian's Pythons, for glibc, or in one for musl: `make test-wheels`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from examples import dbserver
from examples.dbserver import DatabaseServer
from examples.debian import MACHINES
from relay.client import RelayClient
from scripts.wheels import KINDS, offer_zlib
from tests.queues.ring_mutants import compile_kill_test
from tests.support import ROOT
from tests.support.charset_digests import CHARSETS, digest_here
from tests.support.client_alone import gets_the_same_rows
from tests.support.core_tests import PROGRAMS, compile_test
from tests.support.relay_process import SECRET, RelayProcess, write_conf
from tests.support.waiting import patience
from tests.wheels import musl
from tests.wheels.places import MUSL, SUITES, Place, debian, debian_python

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(900)]

PLACES = [(version, processor, "newest") for processor in MACHINES for version in SUITES]
PLACES += [("3.11", "amd64", "oldest"), ("3.13", "amd64", "oldest")]
PLACES += [(musl.VERSION, processor, "musl") for processor in MACHINES]
IN_CHECK = ("3.13", "arm64", "newest")  # `make test-arm`
# They need no compiler, and with RELAY_TEST_SKIP no database.
TESTS = (
    *("tests/journal/test_journal.py", "tests/journal/test_journal_recovery.py", "tests/values/test_gtid.py"),
    *("tests/protocol", "tests/queues/test_queue.py", "tests/queues/test_checkpoints.py"),
    "tests/queues/test_queue_damage.py",
)
ITS_OWN_PYTHON = "tests/queues/test_queue.py::test_the_module_starts_no_thread"  # it would start it without a loader


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(place, id="-".join(place), marks=pytest.mark.arm if place == IN_CHECK else ()) for place in PLACES
    ],
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A Python, and the wheel in it."""
    version, processor, kind = request.param
    folder = tmp_path_factory.mktemp("place")
    if kind == "musl":
        python = musl.MuslPython(processor)
        with python.lock():
            python.fetch()
        return Place(python.program(f"usr/bin/python{version}"), version, processor, folder, MUSL)
    return Place(debian_python(version, processor), version, processor, folder, oldest=kind == "oldest")


def test_text_is_the_same_in_every_character_set(place: Place, mysql97: DatabaseServer, tmp_path: Path) -> None:
    found = mysql97.execute("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
    names = [str(name) for (name,) in found]
    file, digest = place.run(["-c", CHARSETS, *names], tmp_path).split()
    assert file.startswith(str(place.site))
    assert digest == digest_here(names)


def test_tests_of_the_core_pass(place: Place, tmp_path: Path) -> None:
    for folder in ("tests", "examples", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--deselect={ITS_OWN_PYTHON}", *TESTS]
    place.run(command, tmp_path, RELAY_TEST_SKIP=",".join(dbserver.KINDS))


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """zig for aarch64, and what it needs of zlib."""
    folder, target = tmp_path_factory.mktemp("zlib") / "of", KINDS["glibc-aarch64"]
    offer_zlib(folder, target)
    return (sys.executable, "-m", "ziglang", "c++", "-target", target, f"-I{folder / 'include'}", f"-L{folder}")


@pytest.mark.arm
@pytest.mark.parametrize("name", [*PROGRAMS, "ring"])
def test_tests_of_the_core_in_cpp_pass_on_aarch64(name: str, compiler: tuple[str, ...], tmp_path: Path) -> None:
    system = debian("3.13", "arm64")
    if name == "ring":
        program, arguments = compile_kill_test(tmp_path, "-O2", compiler=compiler), ["1", "3", "3", "0"]
    else:
        program, arguments = compile_test(name, tmp_path, (*compiler, "-O2")), []
    done = subprocess.run(
        [*system.program(str(program)), *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_client_alone_gets_rows(place: Place, tmp_path: Path) -> None:
    gets_the_same_rows(place.command, tmp_path)


def test_a_relay_serves_rows(
    place: Place, mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], tmp_path: Path
) -> None:
    db = make_db(mysql97)
    columns = "id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET gbk, j JSON, d DECIMAL(9, 2), t TIMESTAMP NULL"
    mysql97.execute(f"CREATE TABLE {db}.t ({columns})")
    relay = RelayProcess(write_conf(tmp_path, mysql97, {"Relay.TimeZone": "Europe/Brussels"}))
    relay.command = [*place.command, "-m", "relay"]
    relay.environment = place.environment
    try:
        relay.start(timeout=60)
        with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
            client.add_filter(db)
            one = """1, '中文', '{"a": [1]}', 1.5, FROM_UNIXTIME(1700000000)"""
            mysql97.execute(f"INSERT INTO {db}.t VALUES ({one}), (2, NULL, NULL, -0.01, NULL)")
            rows = [row.after for row in client.poll_many(10, wait=patience(20))]
        assert rows == [
            {"id": 1, "v": "中文", "j": '{"a": [1]}', "d": "1.50", "t": "2023-11-14 23:13:20"},
            {"id": 2, "v": None, "j": None, "d": "-0.01", "t": None},
        ]
        relay.stop()
    finally:
        relay.end()
