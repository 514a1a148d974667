"""Prometheus from Debian's package: promtool for checks, and a server that scrapes."""

from __future__ import annotations

import http
import json
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from examples.dbserver import free_port
from examples.debian import Unpacked
from tests.support.waiting import patience, until

_PACKAGES = Unpacked(
    "prometheus", "Prometheus", "trixie", ("prometheus",), lambda line: print(line, file=sys.stderr, flush=True)
)


def command(program: str) -> list[str]:
    """The beginning of a command line that runs prometheus or promtool. The package is fetched at first use."""
    with _PACKAGES.lock():
        _PACKAGES.fetch()
    return _PACKAGES.program(f"usr/bin/{program}")


def promtool(*arguments: str | Path, text: bytes = b"") -> str:
    """What promtool prints. A failure is an AssertionError with the output."""
    line = [*command("promtool"), *map(str, arguments)]
    done = subprocess.run(line, input=text, capture_output=True, timeout=patience(60), check=False)
    printed = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, printed
    return printed


class Prometheus:
    """A server that scrapes one target each second, with its data in `folder`."""

    def __init__(self, folder: Path, target: str) -> None:
        self._port = free_port()
        config = folder / "prometheus.yml"
        job = {"job_name": "relay", "static_configs": [{"targets": [target]}]}
        config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))  # JSON is YAML
        self._log = folder / "prometheus.log"
        self._line = ["setpriv", "--pdeathsig", "KILL", *command("prometheus"), f"--config.file={config}"]
        self._line += [f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{self._port}"]

    def __enter__(self) -> Self:
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(self._line, stdout=log, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query. Raises AssertionError if Prometheus does not understand it."""
        url = f"http://127.0.0.1:{self._port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=patience(10)) as reply:
                result: list[dict[str, Any]] = json.load(reply)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.SERVICE_UNAVAILABLE:  # it is still starting
                raise
            raise AssertionError(f"{expression}: {error.read().decode()}") from None
        return result

    def await_samples(self, expression: str, seconds: float = 30) -> list[dict[str, Any]]:
        """The samples of a query, as soon as there are some."""

        def samples() -> list[dict[str, Any]]:
            try:
                return self.query(expression)
            except urllib.error.URLError:
                assert self._process.poll() is None, self._log.read_text()
                return []

        found: list[dict[str, Any]] = until(
            samples, seconds, lambda: f"no samples of {expression}\n{self._log.read_text()[-2000:]}", 0.1
        )
        return found
