"""A real `relay start` in its own process, for tests and for the benchmark."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

import psutil

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from relay.config.load import load
from relay.runtime.shm import discard, find
from tests.support.waiting import patience, until

SECRET, ADMIN_SECRET = "a-secret", "an-admin-secret"
RELAY = (sys.executable, "-m", "relay")
UNHURRIED = (
    sys.executable,
    "-c",
    "from relay import cli, supervisor; supervisor.READY_PATIENCE = float('inf'); cli.main()",
)
"""`relay` whose ready line comes when all processes are up, and at no other time."""


def write_conf(folder: Path, server: DatabaseServer, settings: Mapping[str, object] | None = None) -> Path:
    """Writes FOLDER/relay.conf for that source: free ports, small segments, two servers, data under FOLDER.

    `settings` override these: {"Relay.Workers": 1, "Client shop.Secret": "x"}.
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
    """`relay start -c CONF`, with its output in files beside the configuration.

    `stop` ends it in an orderly way, `kill` with SIGKILL; after either, `start` continues with the same data.
    """

    def __init__(self, conf: Path, *flags: str) -> None:
        self.conf, self.flags = conf, flags
        self.stdout, self.stderr = conf.with_suffix(".out"), conf.with_suffix(".err")
        self.command: Sequence[str] = RELAY
        self.configured_by: Sequence[str | Path] = ("-c", conf)
        self.environment: dict[str, str] | None = None  # None: that of the tests
        self.ready = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = 30) -> Self:
        """Starts it and waits `patience(timeout)` for the ready line. A failure shows its output."""
        self.begin()
        return self.await_ready(timeout)

    def begin(self) -> None:
        """Starts it. It stops in an orderly way if the thread that started it ends."""
        assert self._process is None, "already running"
        line: list[str | Path] = ["setpriv", "--pdeathsig", "TERM", *self.command, "start"]
        line += [*self.configured_by, *self.flags]
        with open(self.stdout, "wb") as output, open(self.stderr, "ab") as errors:
            self._process = subprocess.Popen(line, env=self.environment, stdout=output, stderr=errors)

    def await_ready(self, timeout: float = 30) -> Self:
        """Waits `patience(timeout)` for the ready line."""
        assert self._process is not None, "not running"
        deadline = time.monotonic() + patience(timeout)
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
        """The current document of /api/stat."""
        url = f"http://127.0.0.1:{self.http_port}/api/stat?fresh=1"
        with urllib.request.urlopen(url, timeout=patience(10)) as reply:
            document: dict[str, Any] = json.load(reply)
        return document

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The lines of an event in the log, which has to be in JSON."""
        lines = [json.loads(line) for line in self.stderr.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def cpu_seconds(self) -> float:
        """CPU time, user and system, of all its processes so far."""
        supervisor = psutil.Process(self.pid)
        return sum(process_cpu_seconds(each.pid) for each in (supervisor, *supervisor.children(recursive=True)))

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the supervisor."""
        os.kill(self.pid, number)

    def wait(self, timeout: float = 10) -> int:
        """Waits `patience(timeout)` for the end, which something else causes, and returns the exit code."""
        assert self._process is not None, "not running"
        code = self._process.wait(patience(timeout))
        self._process = None
        return code

    def stop(self, timeout: float = 10) -> int:
        """Sends SIGTERM, waits, and returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def accept_gap(self) -> None:
        """Stops it in an orderly way and starts it with --accept-gap, this time only."""
        assert self.stop() == 0
        usual, self.flags = self.flags, ("--accept-gap",)
        self.start()
        self.flags = usual

    def kill(self) -> None:
        """Sends SIGKILL to the supervisor and waits until none of its children is left."""
        if self._process is None:
            return
        try:
            family = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        self._process.kill()
        self._process.wait()
        self._process = None

        def left() -> list[psutil.Process]:
            return [process for process in family if _is_alive(process)]

        until(lambda: not left(), 10, lambda: f"children outlived the killed supervisor: {left()}", 0.01)

    def end(self) -> None:
        """`kill` for good: nothing is started with this data again, and its shared memory is removed too."""
        self.kill()
        data_dir = Path(load(str(self.conf), {}, {})[0].relay.data_dir)
        if (block := find(data_dir)) is not None:
            discard(data_dir, block)


def _is_alive(process: psutil.Process) -> bool:
    """Whether the process is alive. A dead process may wait long for its parent to reap it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def process_cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, including ended ones; 0 once the process has ended.

    From its CPU clock, in nanoseconds: its `times` have ticks of 10 ms.
    """
    try:
        return time.clock_gettime(~pid << 3 | 2)  # the result of clock_getcpuclockid(3)
    except OSError:
        return 0.0


def run_relay(*arguments: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs a command of the command line to its end: exit code, stdout and stderr as text."""
    command = [*RELAY, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience(timeout), check=False)


class Program(subprocess.Popen[str]):
    """A command of the relay that runs until a signal ends it, with its output in pipes; leaving the block kills it.

    `wait(seconds)` waits `patience(seconds)`.
    """

    stdout: IO[str]
    stderr: IO[str]

    def __init__(self, *arguments: str | Path) -> None:
        command = [*RELAY, *map(str, arguments)]
        super().__init__(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait(self, timeout: float | None = None) -> int:
        return super().wait(timeout and patience(timeout))

    def __exit__(self, *error: Any) -> None:
        self.kill()
        super().__exit__(*error)
