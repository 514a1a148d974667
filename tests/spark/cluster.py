"""A standalone cluster of Spark: a master and workers as separate processes, from the wheel's spark-class."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import pyspark

from tests.support.waiting import patience, until

HOST = "127.0.0.1"
_START_SECONDS = 60.0
_DEPLOY = "org.apache.spark.deploy"


def free_ports(number: int) -> list[int]:
    """Ports nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


class Cluster:
    """A master and two workers of one core and one GiB each, with logs and scratch space in `folder`.

    `environment` is what drivers and executors run with: its PYTHONPATH and PATH say which relay and which Python.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], workers: int = 2) -> None:
        self.folder = folder
        self.workers = workers
        port, self._web = free_ports(2)
        self.url = f"spark://{HOST}:{port}"
        self.environment = dict(environment) | {
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
            "SPARK_NO_DAEMONIZE": "1",
        }
        self._port = port
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._run("master", "master.Master", "--host", HOST, "--port", self._port, "--webui-port", self._web)
            for number in range(self.workers):
                self._run(
                    f"worker-{number}",
                    "worker.Worker",
                    *("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                    *("--work-dir", self.folder / f"work-{number}", self.url),
                )
            self._wait_until_whole()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def executors(self) -> list[psutil.Process]:
        """The executors' processes, of all applications that run."""
        return [
            child
            for process in self._processes[1:]
            for child in psutil.Process(process.pid).children(recursive=True)
            if any("CoarseGrainedExecutorBackend" in word for word in _command(child))
        ]

    def kill_an_executor(self, seconds: float = 60.0) -> int:
        """SIGKILL the first executor there is, or comes; its process id."""
        found: list[psutil.Process] = until(self.executors, seconds, "no executor to kill")
        os.kill(found[0].pid, signal.SIGKILL)
        return found[0].pid

    def _run(self, name: str, entry: str, *arguments: object) -> None:
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), f"{_DEPLOY}.{entry}"]
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, *map(str, arguments)],
                    cwd=self.folder,
                    env=self.environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def _wait_until_whole(self) -> None:
        def logs() -> str:
            return "\n".join(path.read_text()[-2000:] for path in sorted(self.folder.glob("*.log")))

        def whole() -> bool:
            assert all(process.poll() is None for process in self._processes), f"the cluster ended:\n{logs()}"
            return self._alive() >= self.workers

        until(whole, _START_SECONDS, lambda: f"the cluster is not whole:\n{logs()}", 0.2)

    def _alive(self) -> int:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._web}/json/", timeout=patience(5)) as reply:
                return sum(worker["state"] == "ALIVE" for worker in json.load(reply)["workers"])
        except OSError:
            return 0

    def _end(self) -> None:
        for process in reversed(self._processes):
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            process.kill()
            process.wait()


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
