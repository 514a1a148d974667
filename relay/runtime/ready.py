"""What the relay reports of itself when it is up: the ready line, and the status for the service manager."""

from __future__ import annotations

import os
from collections.abc import Mapping

from relay.config.tree import Config

Stop = Mapping[str, str] | None
"""The fatal error as `Arena.stop` returns it."""


def facts(config: Config, file: str, workers: int, source_state: str, stop: Stop) -> dict[str, object]:
    """Return the fields of the ready line and of the log event `ready`. `config` has the ports that are bound.

    `file` is the configuration file, "" for none.
    """
    server = config.server
    return {
        "classic": f"{server.bind_address}:{server.server_port}",
        "http": f"http://{server.http_address}:{server.http_port}/",
        **({"cdc": f"{config.cdc.address}:{config.cdc.port}"} if config.cdc.enabled else {}),
        "source": f"{server.ip_addr[0]}:{server.port}",
        "state": f"stopped:{stop['code']}" if stop else source_state,
        "workers": workers,
        "pid": os.getpid(),
        **({"config": file} if file else {}),
    }


def line(shown: Mapping[str, object]) -> str:
    """Return the ready line, for a program that waits for the relay."""
    return " ".join(["ready", *(f"{key}={value}" for key, value in shown.items())]) + "\n"


def service_status(source_state: str, stop: Stop) -> str:
    """Return the status text that the service manager shows."""
    return f"stopped: {stop['code']}: {stop['text']} ({stop['hint']})" if stop else source_state
