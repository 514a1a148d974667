"""A real `relay start` in a process of its own, for tests and for the benchmark."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import psutil

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.config import load
from relay.memory import discard, find

SECRET, ADMIN_SECRET = "a-secret", "an-admin-secret"
RELAY = (sys.executable, "-m", "relay")


def write_conf(folder: Path, server: DatabaseServer, settings: Mapping[str, object] | None = None) -> Path:
    """Write FOLDER/relay.conf for that source: free ports, small segments, two servers, data under FOLDER.

    `settings` go over these: {"Relay.Workers": 1, "Client shop.Secret": "x"}.
    """
    values: dict[str, object] = {
        "Server.IPAddr": "127.0.0.1",
        "Server.Port": server.port,
        "Server.Login": USER,
        "Server.Password": PASSWORD,
        "Server.AuthSecret": SECRET,
        "Server.AdminSecret": ADMIN_SECRET,
        "Server.BindAddress": "127.0.0.1",
        "Server.ServerPort": free_port(),
        "Server.HTTPAddress": "127.0.0.1",
        "Server.HTTPPort": free_port(),
        "Relay.DataDir": folder / "data",
        "Relay.Workers": 2,
        "Relay.SegmentBytes": "4MiB",
        **(settings or {}),
    }
    sections: dict[str, list[str]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, []).append(f"{name} = {value}")
    conf = folder / "relay.conf"
    conf.write_text("\n\n".join("\n".join([f"[{name}]", *lines]) for name, lines in sections.items()) + "\n")
    conf.chmod(0o600)
    return conf


class RelayProcess:
    """`relay start -c CONF`, with what it printed kept in files beside the config.

    `stop` ends it in good order, `kill` with SIGKILL; either way `start` goes on with the same data.
    """

    def __init__(self, conf: Path, *flags: str) -> None:
        self.conf, self.flags = conf, flags
        self.stdout, self.stderr = conf.with_suffix(".out"), conf.with_suffix(".err")
        self.ready = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = 30) -> Self:
        """Start and wait for the ready line; `timeout` in seconds. Fails with what it printed."""
        assert self._process is None, "already running"
        with open(self.stdout, "wb") as output, open(self.stderr, "ab") as errors:
            self._process = subprocess.Popen(
                [*RELAY, "start", "-c", self.conf, *self.flags], stdout=output, stderr=errors
            )
        deadline = time.monotonic() + timeout
        while not (lines := re.findall(r"^ready .*\n", self.stdout.read_text(), re.MULTILINE)):
            status = self._process.poll()
            if status is not None or time.monotonic() > deadline:
                self.kill()
                state = "printed no ready line" if status is None else f"exited with {status}"
                raise AssertionError(f"relay start {state}:\n{self.stderr.read_text()[-4000:]}")
            time.sleep(0.01)
        self.ready = lines[0].strip()
        return self

    @property
    def port(self) -> int:
        """Port of the classic protocol, from the ready line."""
        return int(self._in_ready(r"classic=\S+:(\d+)"))

    @property
    def http_port(self) -> int:
        """Port of the page and of /api/stat, from the ready line."""
        return int(self._in_ready(r"http=http://\S+:(\d+)/"))

    def _in_ready(self, pattern: str) -> str:
        match = re.search(pattern, self.ready)
        assert match, f"no {pattern} in the ready line: {self.ready!r}"
        return match[1]

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        assert self._process is not None, "not running"
        return self._process.pid

    def pids(self) -> dict[str, int]:
        """Process ids of the children that run now, by name: reader, broker, monitor, server-0, ..."""
        processes: list[dict[str, Any]] = self.stat()["processes"]
        return {process["name"]: process["pid"] for process in processes if process["pid"]}

    def stat(self) -> dict[str, Any]:
        """The document of /api/stat, as of now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/api/stat?fresh=1", timeout=10) as reply:
            document: dict[str, Any] = json.load(reply)
        return document

    def cpu_seconds(self) -> float:
        """CPU time, user and system, that the whole family has used so far."""
        supervisor = psutil.Process(self.pid)
        return sum(process_cpu_seconds(each.pid) for each in (supervisor, *supervisor.children(recursive=True)))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor."""
        os.kill(self.pid, number)

    def wait(self, timeout: float = 10) -> int:
        """Wait for the end, which something else brings about, and return the exit code."""
        assert self._process is not None, "not running"
        code = self._process.wait(timeout)
        self._process = None
        return code

    def stop(self, timeout: float = 10) -> int:
        """SIGTERM, wait, and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """SIGKILL the supervisor and wait until no child of it is left."""
        if self._process is None:
            return
        try:
            family = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        self._process.kill()
        self._process.wait()
        self._process = None
        deadline = time.monotonic() + 10
        while left := [process for process in family if _lives(process)]:
            assert time.monotonic() < deadline, f"children outlived the killed supervisor: {left}"
            time.sleep(0.01)

    def end(self) -> None:
        """`kill` for good: nothing is started with this data again, and its shared memory goes too."""
        self.kill()
        data_dir = Path(load(str(self.conf), {}, {})[0].relay.data_dir)
        if (block := find(data_dir)) is not None:
            discard(data_dir, block)


def _lives(process: psutil.Process) -> bool:
    """Whether it does; one that has ended may wait long for whoever inherited it to take notice."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def process_cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, those that have ended too; 0 once it has ended itself.

    From its CPU clock, in nanoseconds: its `times` come in ticks of 10 ms.
    """
    try:
        return time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid(3) makes of it
    except OSError:
        return 0.0


def run_relay(*arguments: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run any verb of the command line to its end: exit code, stdout and stderr as text."""
    return subprocess.run([*RELAY, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False)
