"""conf/compose.yaml: one command starts a database, the relay and a consumer that prints rows."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from examples.dbserver import free_port
from tests.image import engine
from tests.support import ROOT

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

FILE = ROOT / "conf/compose.yaml"
PROJECT = "relay-test-compose"


@cache
def ports() -> dict[str, str]:
    """Ports of this machine that are free."""
    return {name: str(free_port()) for name in ("RELAY_PORT", "RELAY_HTTP_PORT")}


def compose(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run compose, that of docker or podman-compose."""
    command = ["docker", "compose"] if engine.name() == "docker" else [sys.executable, "-m", "podman_compose"]
    command += ["-p", PROJECT, "-f", str(FILE), *arguments]
    return subprocess.run(command, env=engine.ENVIRONMENT | ports(), capture_output=True, text=True, check=False)


@pytest.fixture
def services() -> Iterator[None]:
    """All services, started."""
    subprocess.run([Path(__file__).with_name("mariadb") / "build.sh"], env=engine.ENVIRONMENT, check=True)
    try:
        started = compose("up", "--detach")
        assert started.returncode == 0, started.stdout + started.stderr
        yield
    finally:
        compose("down", "--volumes")


def test_rows_of_the_database_are_printed(services: None) -> None:
    deadline = time.monotonic() + 120
    while not (rows := [line for line in compose("logs", "rows").stdout.splitlines() if '"orders"' in line]):
        assert time.monotonic() < deadline, compose("logs").stdout
        time.sleep(1)
    row = json.loads(rows[0][rows[0].index("{") : rows[0].rindex("}") + 1])  # a name before it, and colors
    assert row["after"]["article"] in ("bread", "milk", "tea")
