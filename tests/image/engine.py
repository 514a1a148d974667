"""Containers of the image, with docker or podman, whichever is there."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

from tests.support import ROOT
from tests.support.relay_process import SECRET

IMAGE = f"binlog-relay:{os.environ.get('RELAY_IMAGE_ARCH') or 'latest'}"
ENVIRONMENT = os.environ | {"CONTAINERS_CONF": str(Path(__file__).with_name("containers.conf"))}


@cache
def name() -> str:
    """The engine that built the image."""
    return subprocess.check_output(["bash", "-c", ". scripts/engine.sh; echo $engine"], cwd=ROOT, text=True).strip()


def run(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the engine. A failure shows its output, unless `check` is off."""
    done = subprocess.run([name(), *arguments], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if check:
        assert done.returncode == 0, f"{name()} {' '.join(arguments)} exited with {done.returncode}:\n{done.stderr}"
    return done


def inspect(thing: str) -> dict[str, Any]:
    """What the engine knows of an image or a container."""
    (document,) = json.loads(run("inspect", thing).stdout)
    return dict(document)


class Container:
    """A relay in a container that shares the network of this machine; `options` are those of `docker run`."""

    def __init__(self, settings: dict[str, object], options: Sequence[str] = ()) -> None:
        self.settings = settings
        values = {"Server.AuthSecret": SECRET, "Server.BindAddress": "127.0.0.1", "Relay.Workers": 2, **settings}
        variables = [f"--env=RELAY_{key.replace('.', '_').upper()}={value}" for key, value in values.items()]
        self.id = run("run", "--detach", "--network=host", *variables, *options, IMAGE).stdout.strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        run("rm", "--force", "--volumes", self.id)

    def exec(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the container."""
        return run("exec", self.id, *command, check=check)

    def await_health(self, timeout: float = 60) -> None:
        """Wait until the health check of the image says healthy."""
        deadline = time.monotonic() + timeout
        while self.health() != "healthy":
            assert self.running and time.monotonic() < deadline, f"not healthy:\n{self.log()}"
            time.sleep(0.5)

    def health(self) -> str:
        """What the health check says. podman needs systemd to repeat it; so the test does."""
        if name() == "podman":
            run("healthcheck", "run", self.id, check=False)
        state = inspect(self.id)["State"]
        return str((state.get("Health") or state["Healthcheck"])["Status"])

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return bool(inspect(self.id)["State"]["Running"])

    def log(self) -> str:
        """What it has written."""
        done = run("logs", self.id)
        return done.stdout + done.stderr

    def stop(self) -> int:
        """Stop it as the engine does, with SIGTERM; the exit code. SIGKILL after 30 seconds makes it 137."""
        run("stop", "--time", "30", self.id)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return int(run("wait", self.id).stdout)
