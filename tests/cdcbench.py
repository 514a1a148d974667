"""A running relay with a CDC port, for tests of what its clients get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from examples.dbserver import PASSWORD, USER, DatabaseServer, free_port
from tests.cdcclient import CdcClient
from tests.relayproc import RelayProcess


class Bench:
    """A relay with a CDC port before a server, and clients of it. Other settings: Values="maxscale"."""

    def __init__(self, start: Callable[..., RelayProcess], server: DatabaseServer, **settings: object) -> None:
        self.port = free_port()
        more = {key if "." in key else f"CDC.{key}": value for key, value in settings.items()}
        self.relay = start(server, {"CDC.Enabled": "yes", "CDC.Address": "127.0.0.1", "CDC.Port": self.port, **more})
        self.clients: list[CdcClient] = []

    def client(self, form: str = "JSON") -> CdcClient:
        """One that has registered."""
        self.clients.append(CdcClient(self.port, b"\n"))  # without a line end a command waits for silence
        return self.clients[-1].login(USER, PASSWORD).register(form)

    def stream(self, name: str, gtid: str = "", form: str = "JSON") -> CdcClient:
        """One to which the stream of the table has begun, however long it is until there is such a table."""
        client = self.client(form).request(name, gtid)
        while client.received or client.more():
            if not client.received.startswith(b"E"):
                return client
            assert client.line().startswith(b"ERR NO-FILE")
        raise AssertionError("the server has closed")

    def close(self) -> None:
        """End its clients; the relay ends with the test."""
        for client in self.clients:
            client.socket.close()

    def seen(self) -> dict[str, Any]:
        """The section of the stat document."""
        section: dict[str, Any] = self.relay.stat()["cdc"]
        return section

    def streams(self) -> list[dict[str, Any]]:
        """Connections as the stat document shows them."""
        return [stream for process in self.seen()["processes"] for stream in process["streams"]]


@contextmanager
def benches(start: Callable[..., RelayProcess], server: DatabaseServer) -> Iterator[Callable[..., Bench]]:
    """Makes benches before a server: make(Values="maxscale"). Their clients end with this."""
    with ExitStack() as stack:

        def make(**settings: object) -> Bench:
            made = Bench(start, server, **settings)
            stack.callback(made.close)
            return made

        yield make
