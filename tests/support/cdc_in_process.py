"""The CDC service without a relay, on a constructed journal and a port of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from relay.cdc.connection import Connection
from relay.cdc.service import Service
from relay.config.load import load
from relay.config.tree import Config
from relay.runtime.process_status import CDCStatus
from tests.support.cdc_client import USERS_LINE, CdcClient
from tests.support.journal_builder import Made
from tests.support.waiting import patience

T = TypeVar("T")


def config_of(folder: Path, settings: dict[str, str]) -> Config:
    """The configuration of a relay with this DataDir; settings as {"CDC.Tables": "shop.*"}."""
    config, _ = load(None, {}, {"Server.Login": "l", "Server.AuthSecret": "s", "Relay.DataDir": str(folder)} | settings)
    return config


@dataclass
class ServiceInProcess:
    """The service, its journal, and its log records. It may read up to `committed`, while `looking` is set."""

    folder: Path
    made: Made
    service: Service
    port: int
    logged: list[tuple[str, dict[str, object]]]
    loop: asyncio.AbstractEventLoop
    committed: int = 0
    looking: bool = True  # reads the journal
    clients: list[CdcClient] = field(default_factory=list)

    def flush(self) -> None:
        """Lets the service read the whole journal."""
        self.committed = self.made.flush()

    def client(self, form: str = "JSON") -> CdcClient:
        """A registered client."""
        self.clients.append(CdcClient(self.port, b"\n"))
        return self.clients[-1].login().register(form)

    def do(self, what: Callable[[], T]) -> T:
        """Calls the function in the service's thread."""

        async def call() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(patience(20))

    def status(self) -> CDCStatus:
        """The status that the service shows."""
        status = CDCStatus()
        self.do(lambda: self.service.status(status))
        return status


@contextmanager
def inside(folder: Path, made: Made | None = None, **settings: str) -> Iterator[ServiceInProcess]:
    """The service on a journal in the folder, a new one or an existing one. Tables="shop.*" is a setting of [CDC]."""
    made = made or Made(folder / "journal")
    (folder / "cdcusers").write_text(USERS_LINE)
    logged: list[tuple[str, dict[str, object]]] = []
    config = config_of(folder, {f"CDC.{key}": value for key, value in settings.items()})
    running: list[ServiceInProcess] = []
    begun = threading.Event()

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, about: failed.append(about.get("exception") or RuntimeError(about)))
        committed = made.flush()
        service = Service(
            config,
            folder,
            lambda: running[0].committed if running else committed,
            lambda event, **fields: logged.append((event, fields)),
        )
        server = await loop.create_server(lambda: Connection(service, "192.0.2.1", 1), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        running.append(ServiceInProcess(folder, made, service, port, logged, loop, committed))
        begun.set()
        while not ended.is_set():
            if running[0].looking:
                service.step()
            service.take_turns()
            await asyncio.sleep(0.001)
        server.close()
        for connection in list(service.connections):
            connection.abort()
        await asyncio.sleep(0)
        service.close()

    ended = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failed.append(error)
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        begun.wait()
        if failed:
            raise failed[0]
        yield running[0]
    finally:
        ended.set()
        thread.join()
        for client in running[0].clients if running else ():
            client.socket.close()
    if failed:
        raise failed[0]
