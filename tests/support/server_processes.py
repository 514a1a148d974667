"""Server processes on real sockets with the real broker. The test is the reader: it writes the journal itself."""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from relay import broker, server
from relay._native import Arena, JournalWriter
from relay.base.log import Log, logger
from relay.config.load import load
from relay.config.tree import Config
from relay.monitoring import stat, stat_collect
from relay.monitoring.inquiries import Inquiries
from relay.processes import state_writer
from relay.protocol.classic import Command, Result
from relay.runtime import admin_socket, child
from relay.runtime.context import BrokerContext, Context, MonitorContext, ServerContext, StateWriterContext
from relay.runtime.distributed import Settings
from relay.runtime.process_status import StatusPages
from tests.support.classic_client import SECRET, Client
from tests.support.packets import pair
from tests.support.waiting import until

ADMIN_SECRET = "an-admin-secret"
CLIENTS, QUEUE_MEMORY = 64, 1 << 22

COLUMNS: list[list[Any]] = [
    ["id", 11, 3, 0, False, False, True, "", [], "int"],
    ["word", 12, 15, 400, False, True, False, "utf8mb4", [], "varchar(100)"],
]
# The same names, with a word of any length.
LONG_COLUMNS: list[list[Any]] = [COLUMNS[0], ["word", 12, 252, 4, False, True, False, "utf8mb4", [], "longtext"]]
Values = tuple[int, str | None]


class Serving:
    """A broker and some servers, forked from the test; `insert`, `update` and `delete` write rows.

    `settings` override the configuration file `conf`: Server__MaxConnections="5".
    """

    def __init__(self, folder: Path, workers: int = 2, conf: Path | None = None, **settings: str) -> None:
        flags = {
            "Server.AuthSecret": SECRET,
            "Server.AdminSecret": ADMIN_SECRET,
            "Server.Login": "nobody",
            "Relay.DataDir": str(folder),
            "Relay.MaxClients": str(CLIENTS),
            "Relay.QueueMemory": str(QUEUE_MEMORY),
        }
        self._flags = flags | {key.replace("__", "."): value for key, value in settings.items()}
        self._conf = str(conf) if conf else None
        self.config = load(self._conf, {}, self._flags)[0]
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._memory = mmap.mmap(-1, Arena.size(CLIENTS, workers, QUEUE_MEMORY))
        self.arena = Arena(self._memory, CLIENTS, workers, QUEUE_MEMORY)
        self.writer = JournalWriter(folder / "journal", 1 << 20)
        self._position = 4
        self.writer.source(self._position, "binlog.000001", "", "test")
        self._tables: dict[tuple[str, str], int] = {}
        self._publish()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self._wakes = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(workers)]
        self._broker_wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._broker_wake_ahead, self._servers_wake_ahead = (os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2))
        self._control = [pair() for _ in range(workers)]
        self._inboxes = [pair() for _ in range(workers)]
        self._inquiries = [pair() for _ in range(workers)]
        self.admin = admin_socket.listen(folder)
        self.orders = pair()
        self.connections = memoryview(mmap.mmap(-1, 8 * workers)).cast("Q")
        self.allocate: Callable[[int, int], None] = lambda offset, size: None
        self._pids: dict[str, int] = {}
        self._stored = pair()
        self._unstored = Path(tempfile.mkdtemp(dir=folder.parent))
        self._names = ["broker", "state-writer", *(f"server-{index}" for index in range(workers)), "monitor"]
        self._settings = Settings(self.config, len(self._names))

    def __enter__(self) -> Self:
        """Starts all processes."""
        for name in self._names:
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        """Kills what still runs."""
        for name in list(self._pids):
            self.kill(name)
        pairs = self._control + self._inboxes + self._inquiries
        for end in (self.listener, self.admin, *self.orders, *self._stored, *(s for both in pairs for s in both)):
            end.close()

    def start(self, name: str) -> None:
        """Fork the process of that name."""
        others = {"broker": self._broker, "state-writer": self._state_writer, "monitor": self._monitor}
        context, run = others[name]() if name in others else self._server(int(name.removeprefix("server-")))
        context.settings, context.number = self._settings, self._settings.number

        def run_logged() -> int:
            sys.stderr = (self.folder / f"{name}.log").open("a", buffering=1)
            return run()

        self._pids[name] = child.fork_child(context, run_logged)

    def _common(self, name: str) -> tuple[str, int, Config, Arena, Log]:
        return name, self._names.index(name), self.config, self.arena, logger(name)

    def _broker(self) -> tuple[Context, Callable[[], int]]:
        context = BrokerContext(
            *self._common("broker"),
            wake=self._broker_wake,
            wake_ahead=self._broker_wake_ahead,
            servers_wake_ahead=self._servers_wake_ahead,
            server_wakes=self._wakes,
            servers=[end for _, end in self._control],
            state_writer=self._stored[0],
            allocate=self.allocate,
            unstored=self._unstored,
        )
        return context, lambda: broker.run(context)

    def _state_writer(self) -> tuple[Context, Callable[[], int]]:
        context = StateWriterContext(*self._common("state-writer"), broker=self._stored[1])
        return context, lambda: state_writer.run(context)

    def _server(self, index: int) -> tuple[Context, Callable[[], int]]:
        context = ServerContext(
            *self._common(f"server-{index}"),
            index=index,
            workers=len(self._wakes),
            listener=self.listener,
            wake=self._wakes[index],
            wake_ahead=self._servers_wake_ahead,
            inboxes=self._inboxes,
            broker=self._control[index][0],
            broker_wake=self._broker_wake,
            connections=self.connections,
            supervisor=lambda command: self.orders[1].sendall(command.encode()),
            monitor=self._inquiries[index][0],
            admin=self.admin,
        )
        return context, lambda: server.run(context)

    def _monitor(self) -> tuple[Context, Callable[[], int]]:
        """As much of the monitor as answers the servers."""
        context = MonitorContext(*self._common("monitor"), inquiries=[end for _, end in self._inquiries])

        def collect() -> stat.Stat:
            return stat_collect.collect(context.config, self.arena, self.folder, self._names, StatusPages())

        async def serve() -> None:
            Inquiries(context, collect).start(asyncio.get_running_loop())
            while not context.stopping:
                context.beat()
                await asyncio.sleep(0.02)

        def run() -> int:
            asyncio.run(serve())
            return 0

        return context, run

    def reload(self, wait: bool = True, **settings: str) -> None:
        """Publishes the configuration with these settings over the former ones, and waits until all work with it."""
        self._flags |= {key.replace("__", "."): value for key, value in settings.items()}
        self.config = load(self._conf, {}, self._flags)[0]
        number = self._settings.publish(self.config)
        slots = range(len(self._names) if wait else 0)
        until(
            lambda: all(self._settings.acknowledged(slot) == number for slot in slots),
            what="a process does not take the configuration",
        )

    def pid(self, name: str) -> int:
        """Process id."""
        return self._pids[name]

    def settle(self) -> None:
        """Waits until the broker has put everything in the journal into queues."""
        until(lambda: self.arena.broker_scan >= self.arena.committed, pause=0.002)

    def log(self, name: str) -> str:
        """The log of the process; empty until it has begun one."""
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Sends a signal, waits for the end, and returns the exit code (negative: the signal that ended it)."""
        pid = self._pids.pop(name)
        os.kill(pid, number)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    # -- the journal --

    def insert(self, *rows: Values, schema: str = "shop", table: str = "orders") -> None:
        """One transaction that inserts rows of (id, word)."""
        self._write(1, b"\2\3" + b"".join(map(image, rows)), len(rows), schema, table)

    def update(self, *rows: tuple[Values, Values], schema: str = "shop", table: str = "orders") -> None:
        """One transaction that updates rows from the first values to the second."""
        images = b"".join(image(before) + image(after) for before, after in rows)
        self._write(2, b"\2\3\3" + images, len(rows), schema, table)

    def delete(self, *rows: Values, schema: str = "shop", table: str = "orders") -> None:
        """One transaction that deletes rows."""
        self._write(4, b"\2\3" + b"".join(map(image, rows)), len(rows), schema, table)

    def insert_long(self, *rows: Values, schema: str = "shop", table: str = "essays") -> None:
        """One transaction that inserts rows whose words may be long."""
        body = b"\2\3" + b"".join(image(row, "<I") for row in rows)
        self._write(1, body, len(rows), schema, table, LONG_COLUMNS)

    def insert_damaged(self, *, schema: str = "shop", table: str = "orders") -> None:
        """One transaction with a row that ends before its values do."""
        self._write(1, b"\2\3\0\1\0\0\0\5\0ab", 1, schema, table)

    def _write(
        self, kind: int, body: bytes, rows: int, schema: str, table: str, columns: list[list[Any]] = COLUMNS
    ) -> None:
        handle = self._tables.get((schema, table))
        if handle is None:
            number = len(self._tables)
            packed = [schema, table, 700 + number, 1 + number, 101 + number, True, columns]
            handle = self._tables[schema, table] = self.writer.define(msgspec.msgpack.encode(packed))
        self._position += 100
        self.writer.rows(handle, kind, self._position, 1_700_000_000, rows, body)
        self._position += 31
        self.writer.commit(self._position, 1_700_000_000)
        self._publish()
        os.eventfd_write(self._broker_wake, 1)

    def cut(self, position: int) -> None:
        """Deletes the journal's segments before a position, as the reader does for retention."""
        self.arena.cut_request = position
        os.eventfd_write(self._broker_wake, 1)
        until(lambda: self.arena.cut_done >= position, what="the broker does not cut")
        self.writer.drop_before(position)
        self._publish()

    def _publish(self) -> None:
        self.arena.first = self.writer.first()
        self.arena.committed = self.writer.committed()

    # -- clients --

    def connect(self) -> Client:
        """A connection without login."""
        return Client(self.port)

    def once_there_is_room(self) -> Client:
        """A connection without login that is let in."""

        def let_in() -> Client | None:
            with suppress(ConnectionError):
                if (client := self.connect()).ask(Command.PING).result == Result.OK:
                    return client
            return None

        client: Client = until(let_in, pause=0)
        return client

    def client(self, name: str, *tables: str, limit: int = 0, discard: int = 2) -> Client:
        """An authenticated connection with filters on these tables ("shop.orders")."""
        client = Client(self.port)
        client.authenticate(name)
        for each in tables:
            schema, _, table = each.partition(".")
            client.add_filter(schema, table, limit=limit, discard=discard)
        return client

    def stats(self, client: Client) -> dict[str, Any]:
        """The arena's data about a client."""
        for slot in self.arena.client_slots():
            stats: dict[str, Any] = self.arena.client_stats(slot)
            if stats["client_id"] == client.client_id:
                return stats
        raise KeyError(client.client_id)


def image(values: Values, length: str = "<H") -> bytes:
    """A row image of a table with COLUMNS, or with LONG_COLUMNS where lengths are "<I"."""
    number, word = values
    packed = struct.pack("<i", number)
    if word is None:
        return b"\2" + packed
    raw = word.encode()
    return b"\0" + packed + struct.pack(length, len(raw)) + raw
