"""A random life of the schema `life`, beside a relay that exports it to a lake."""

from __future__ import annotations

from pathlib import Path

from examples.dbserver import DatabaseServer
from examples.lakeside import source_position
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until


def settings(lake: Path, **more: object) -> dict[str, object]:
    """The relay's settings; `more` are keys of [Lake]."""
    keys = {"Path": str(lake), "Tables": "life.*", "RollSeconds": 1} | more
    return {"Source.Tables": "life.*"} | {f"Lake.{name}": value for name, value in keys.items()}


def wait_until_read(relay: RelayProcess, server: DatabaseServer) -> None:
    """Wait until the relay has read what was written under the definitions of now.

    MariaDB's events do not tell UUID and INET columns: the relay asks the server what they are.
    """
    written = source_position(server)

    def read() -> bool:
        source = relay.stat()["source"]
        return bool(source["file"] == written.file and source["position"] >= written.position)

    until(read)
