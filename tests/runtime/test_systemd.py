"""The systemd unit, checked by systemd's own tools, and what the relay reports to a service manager."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.dbserver import DatabaseServer, say
from examples.debian import Unpacked
from relay import supervisor
from relay.base.log import logger
from relay.runtime.systemd import Notifier
from tests.support import ROOT
from tests.support.relay_process import RelayProcess
from tests.support.waiting import patience

UNIT = ROOT / "conf/relay.service"
EXPOSURE = 20  # tenths: what `systemd-analyze security` may find at most, 100 being a service without any hardening

Start = Callable[..., RelayProcess]


@pytest.fixture(scope="session")
def analyze() -> Callable[..., subprocess.CompletedProcess[str]]:
    """analyze("verify", path): Debian's systemd-analyze, unpacked, not installed."""
    packages = Unpacked("systemd", "systemd", "bookworm", ("systemd",), say)
    with packages.lock():
        packages.fetch()
    linker, option, libraries, program = packages.program("usr/bin/systemd-analyze")
    own = f"{libraries}:{libraries}/systemd"

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [linker, option, own, program, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=patience(60), check=False)

    return run


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with a program that is there on any machine: that ours is in /opt is up to the installation."""
    path = tmp_path / "relay.service"
    path.write_text(UNIT.read_text().replace("/opt/relay/bin/relay", "/bin/true"))
    return path


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def test_systemd_understands_every_line_of_the_unit(
    analyze: Callable[..., subprocess.CompletedProcess[str]], unit: Path
) -> None:
    done = analyze("verify", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("ProtectHome=", "ProtectHouse="))
    assert "ProtectHouse" in analyze("verify", unit).stderr, "it would be told"


def test_systemd_finds_the_service_little_exposed(
    analyze: Callable[..., subprocess.CompletedProcess[str]], unit: Path
) -> None:
    done = analyze("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}", unit)
    assert done.returncode == 0, done.stdout


def test_the_unit_agrees_with_the_exit_codes_the_defaults_and_the_supervisors_patience() -> None:
    unit = settings()
    [never] = unit["RestartPreventExitStatus"]
    assert f"(`RestartPreventExitStatus={never}`)" in (ROOT / "docs/exit-codes.md").read_text()
    sample = (ROOT / "conf/relay.conf").read_text()
    assert f";DataDir = /var/lib/{unit['StateDirectory'][0]}\n" in sample
    assert f";Path = /var/log/{unit['LogsDirectory'][0]}/\n" in sample
    assert unit["Type"] == ["notify"] and unit["KillMode"] == ["mixed"]
    patience = supervisor.STOP_PATIENCE + supervisor.EXPORT_PATIENCE + 1.0
    assert int(unit["TimeoutStopSec"][0].removesuffix("s")) > patience
    assert int(unit["TimeoutStartSec"][0].removesuffix("s")) > supervisor.READY_PATIENCE


class Manager:
    """The socket of a service manager."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.settimeout(patience(30))
        self.heard: list[str] = []

    def until(self, word: str) -> list[str]:
        """Everything that was told up to the first line that begins with `word`."""
        while not any(line.startswith(word) for line in self.heard):
            self.heard += self._socket.recv(65536).decode().split("\n")
        at = next(number for number, line in enumerate(self.heard) if line.startswith(word))
        told, self.heard = self.heard[: at + 1], self.heard[at + 1 :]
        return told

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    """What started the relays of this test."""
    made = Manager(str(tmp_path / "notify"))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    yield made
    made.close()


def test_the_manager_hears_of_ready_of_life_and_of_the_end(
    mariadb1011: DatabaseServer, start_relay: Start, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    relay = start_relay(mariadb1011)
    before = manager.until("READY=1")
    assert "STOPPING=1" not in before
    assert "WATCHDOG=1" in before or manager.until("WATCHDOG=1")
    for _ in range(3):
        manager.until("WATCHDOG=1")
    relay.signal(signal.SIGTERM)
    manager.until("STOPPING=1")
    assert relay.wait() == 0


def test_a_named_stop_is_the_services_status(mariadb1011: DatabaseServer, start_relay: Start, manager: Manager) -> None:
    relay = start_relay(mariadb1011)
    manager.until("STATUS=streaming")
    relay.stop()
    manager.until("STOPPING=1")
    relay.conf.write_text(relay.conf.read_text().replace("Password = ", "Password = not-"))
    relay.start()
    status = manager.until("STATUS=stopped: source_denied: ")[-1]
    assert "relay check" in status, "with its hint"


def test_a_manager_in_the_abstract_namespace_is_told(tmp_path: Path) -> None:
    name = f"relay-test-{os.urandom(8).hex()}"
    made = Manager(f"\0{name}")
    notifier = Notifier(
        {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "1"}, logger("supervisor")
    )
    notifier.reloading()
    notifier.alive("a\nREADY=1")
    assert made.until("STATUS=")[-1] == "STATUS=a\\nREADY=1", "words from outside stay one line"
    notifier.alive("a\nREADY=1")
    notifier.ready()
    assert made.until("READY=1") == ["READY=1"], "the same status is told once, and the watchdog is another process's"
    made.close()


def test_a_manager_that_is_gone_is_no_reason_to_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}, logger("supervisor")).ready()
    assert "notify_failed" in capfd.readouterr().err


def test_without_a_manager_nothing_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    notifier = Notifier({}, logger("supervisor"))
    notifier.alive("streaming")
    notifier.ready()
    notifier.stopping()
    assert capfd.readouterr().err == ""
