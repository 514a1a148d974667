"""A running relay with a CDC port, for tests of what its clients get."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from tests.support.cdc_client import CdcClient
from tests.support.relay_process import RelayProcess
from tests.support.waiting import patience


class CdcRelay:
    """A relay with a CDC port on a server, and its clients. Other settings: Values="maxscale"."""

    def __init__(self, start: Callable[..., RelayProcess], server: DatabaseServer, **settings: object) -> None:
        self.port = free_port()
        more = {key if "." in key else f"CDC.{key}": value for key, value in settings.items()}
        self.relay = start(server, {"CDC.Enabled": "yes", "CDC.Address": "127.0.0.1", "CDC.Port": self.port, **more})
        self.clients: list[CdcClient] = []

    def client(self, form: str = "JSON") -> CdcClient:
        """A registered client."""
        self.clients.append(CdcClient(self.port, b"\n"))  # without a line end, a command waits for silence
        return self.clients[-1].login(USER, PASSWORD).register(form)

    def encrypted(self, certificate: Path) -> CdcClient:
        """A connection through TLS that trusts that certificate alone."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(certificate)
        plain = socket.create_connection(("127.0.0.1", self.port), patience(20))
        self.clients.append(CdcClient(0, connection=context.wrap_socket(plain)))
        return self.clients[-1]

    def stream(self, name: str, gtid: str = "", form: str = "JSON") -> CdcClient:
        """A client whose stream of the table has begun. Waits until the table exists."""
        return self.client(form).request(name, gtid).begun()

    def close(self) -> None:
        """Closes its clients; the relay ends with the test."""
        for client in self.clients:
            client.socket.close()

    def seen(self) -> dict[str, Any]:
        """The section of the stat document."""
        section: dict[str, Any] = self.relay.stat()["cdc"]
        return section

    def streams(self) -> list[dict[str, Any]]:
        """The connections in the stat document."""
        return [stream for process in self.seen()["processes"] for stream in process["streams"]]
