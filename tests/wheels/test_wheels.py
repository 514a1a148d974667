"""Each wheel of dist/ works on its processor and C library, in the Pythons that Debian has: `make test-wheels`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer
from examples.debian import MACHINES, Unpacked
from relay.client import RelayClient
from scripts.wheels import KINDS, offer_zlib
from tests.queues.ring_mutants import compile_kill_test
from tests.support import ROOT
from tests.support.charset_digests import CHARSETS, digest_here
from tests.support.core_tests import PROGRAMS, compile_test
from tests.support.relay_process import SECRET, RelayProcess, write_conf
from tests.support.waiting import patience

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(900)]

SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "testing"}
PLACES = [(version, processor) for processor in MACHINES for version in SUITES]
# They need neither a database nor a compiler.
TESTS = ("tests/journal/test_journal.py", "tests/values/test_gtid.py", "tests/protocol", "tests/queues/test_queue.py")


def python_of(version: str, processor: str) -> Unpacked:
    """A Python of Debian, with the libraries that it needs."""
    name = f"python-{SUITES[version]}-{processor}"
    packages = Unpacked(name, f"Python {version}", SUITES[version], ("python3", "tzdata"), print, processor)
    with packages.lock():
        packages.fetch()
    return packages


class Place:
    """A Python of Debian with the wheel and what it depends on, in a folder of their own."""

    def __init__(self, version: str, processor: str, folder: Path) -> None:
        packages = python_of(version, processor)
        machine, _ = MACHINES[processor]
        (wheel,) = (ROOT / "dist").glob(f"*-manylinux_*_{machine}.whl")
        self.site = folder / "site"
        self.command = [*packages.program(f"usr/bin/python{version}"), "-P"]
        platforms = [f"--platform=manylinux{tag}_{machine}" for tag in ("_2_28", "_2_27", "_2_17", "2014")]
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", self.site,
             "--find-links", ROOT / "dist", *platforms,
             f"--python-version={version}", "--implementation=cp", "--only-binary=:all:", wheel,
             "hypothesis", "pytest", "pytest-timeout"],
            check=True,
        )  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """That of its processes."""
        return os.environ | {"PYTHONPATH": str(self.site), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, arguments: Sequence[str], folder: Path) -> str:
        """Run the Python; its output. A failure shows all of it."""
        done = subprocess.run(
            [*self.command, *arguments], cwd=folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout


@pytest.fixture(scope="module", params=PLACES, ids=["-".join(place) for place in PLACES])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A Python, and the wheel in it."""
    version, processor = request.param
    return Place(version, processor, tmp_path_factory.mktemp("place"))


def test_text_is_the_same_in_every_character_set(place: Place, mysql97: DatabaseServer, tmp_path: Path) -> None:
    found = mysql97.execute("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")
    names = [str(name) for (name,) in found]
    file, digest = place.run(["-c", CHARSETS, *names], tmp_path).split()
    assert file.startswith(str(place.site))
    assert digest == digest_here(names)


def test_tests_of_the_core_pass(place: Place, tmp_path: Path) -> None:
    for folder in ("tests", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    place.run(["-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], tmp_path)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """zig for aarch64, and what it needs of zlib."""
    folder, target = tmp_path_factory.mktemp("zlib") / "of", KINDS["glibc-aarch64"]
    offer_zlib(folder, target)
    return (sys.executable, "-m", "ziglang", "c++", "-target", target, f"-I{folder / 'include'}", f"-L{folder}")


@pytest.mark.parametrize("name", [*PROGRAMS, "ring"])
def test_tests_of_the_core_in_cpp_pass_on_aarch64(name: str, compiler: tuple[str, ...], tmp_path: Path) -> None:
    packages = python_of("3.13", "arm64")
    if name == "ring":
        program, arguments = compile_kill_test(tmp_path, "-O2", compiler=compiler), ["1", "3", "3", "0"]
    else:
        program, arguments = compile_test(name, tmp_path, (*compiler, "-O2")), []
    done = subprocess.run(
        [*packages.program(str(program)), *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_relay_serves_rows(
    place: Place, mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], tmp_path: Path
) -> None:
    db = make_db(mysql97)
    columns = "id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET gbk, j JSON, d DECIMAL(9, 2)"
    mysql97.execute(f"CREATE TABLE {db}.t ({columns})")
    relay = RelayProcess(write_conf(tmp_path, mysql97, {}))
    relay.command = [*place.command, "-m", "relay"]
    relay.environment = place.environment
    try:
        relay.start(timeout=60)
        with RelayClient("127.0.0.1", relay.port, "client", SECRET) as client:
            client.add_filter(db)
            mysql97.execute(f"""INSERT INTO {db}.t VALUES (1, '中文', '{{"a": [1]}}', 1.5), (2, NULL, NULL, -0.01)""")
            rows = [row.after for row in client.poll_many(10, wait=patience(20))]
        assert rows == [
            {"id": 1, "v": "中文", "j": '{"a": [1]}', "d": "1.50"},
            {"id": 2, "v": None, "j": None, "d": "-0.01"},
        ]
        relay.stop()
    finally:
        relay.end()
