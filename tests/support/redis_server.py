"""Redis, for recipes and for the benchmark: Debian's server on a loopback port, without persistence."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from examples.dbserver import free_port, say
from examples.debian import Unpacked
from tests.support.waiting import patience, until

PING = b"*1\r\n$4\r\nPING\r\n"  # as client libraries send it; the reply is one line
START_SECONDS = 20.0


class Redis:
    """A server with its default settings except persistence; the `with` block ends it. `version` is what it prints."""

    def __init__(self, scratch: Path, progress: Callable[[str], None] = say) -> None:
        packages = Unpacked("redis", "Redis", "bookworm", ("redis-server",), progress)
        with packages.lock():
            packages.fetch()
        self._program = packages.program("usr/bin/redis-server")
        self._scratch = scratch
        self.port = free_port()
        self.version = packages.run([*self._program, "--version"]).decode().split()[2].removeprefix("v=")

    @property
    def pid(self) -> int:
        """The id of its only process."""
        return self._process.pid

    def __enter__(self) -> Self:
        settings = {"port": self.port, "bind": "127.0.0.1", "dir": self._scratch, "save": "", "appendonly": "no"}
        command = [*self._program, *(part for key, value in settings.items() for part in (f"--{key}", str(value)))]
        with ExitStack() as undo:
            log = undo.enter_context(open(self._scratch / "redis.log", "wb"))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
            undo.callback(self.__exit__)
            until(
                self._answers,
                START_SECONDS,
                lambda: f"Redis does not answer:\n{(self._scratch / 'redis.log').read_text()[-2000:]}",
                0.01,
            )
            undo.pop_all()
            log.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=patience(START_SECONDS)) as connection:
                connection.sendall(PING)
                return connection.recv(16) == b"+PONG\r\n"
        except ConnectionRefusedError:
            return False
