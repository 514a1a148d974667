"""The CDC service without a relay around it: on a journal made by hand, behind a port of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from relay.board import CDCStatus
from relay.cdc.connection import Connection
from relay.cdc.service import Service
from relay.config import Config, load
from tests.cdcclient import USERS_LINE, CdcClient
from tests.madejournal import Made

T = TypeVar("T")


def config_of(folder: Path, settings: dict[str, str]) -> Config:
    """That of a relay whose DataDir is the folder; settings as {"CDC.Tables": "shop.*"}."""
    config, _ = load(None, {}, {"Server.Login": "l", "Server.AuthSecret": "s", "Relay.DataDir": str(folder)} | settings)
    return config


@dataclass
class Inside:
    """The service, its journal, and what it has logged. It may read up to `committed`, while it is `looking`."""

    folder: Path
    made: Made
    service: Service
    port: int
    logged: list[tuple[str, dict[str, object]]]
    loop: asyncio.AbstractEventLoop
    committed: int = 0
    looking: bool = True  # at the journal
    clients: list[CdcClient] = field(default_factory=list)

    def flush(self) -> None:
        """Let the service read all that was made."""
        self.committed = self.made.flush()

    def client(self, form: str = "JSON") -> CdcClient:
        """One that has registered."""
        self.clients.append(CdcClient(self.port, b"\n"))
        return self.clients[-1].login().register(form)

    def do(self, what: Callable[[], T]) -> T:
        """Call it where the service runs."""

        async def call() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(20)

    def status(self) -> CDCStatus:
        """What the service shows of itself."""
        status = CDCStatus()
        self.do(lambda: self.service.status(status))
        return status


@contextmanager
def inside(folder: Path, made: Made | None = None, **settings: str) -> Iterator[Inside]:
    """The service on a journal in the folder, made anew or as it is there; Tables="shop.*" is a setting of [CDC]."""
    made = made or Made(folder / "journal")
    (folder / "cdcusers").write_text(USERS_LINE)
    logged: list[tuple[str, dict[str, object]]] = []
    config = config_of(folder, {f"CDC.{key}": value for key, value in settings.items()})
    running: list[Inside] = []
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
        running.append(Inside(folder, made, service, port, logged, loop, committed))
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
