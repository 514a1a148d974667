"""What each process is given by the supervisor that forked it: its parts of the shared machinery, nothing global.

All sockets, eventfds and the arena are made before the first fork and outlive any child: a successor carries on with
them.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from relay.board import Board, Boards, Status, Stop
from relay.config import Config
from relay.errors import RelayError, StopCode
from relay.log import Log
from relay.settings import Settings

if TYPE_CHECKING:
    from relay._native import Arena


@dataclass
class Context:
    """Common to all children. `private`: what the process writes is for the relay alone."""

    private: ClassVar[bool] = True

    name: str  # "reader", "broker", "monitor", "exporter", "snapshotter", "logger", "cdc-0", "server-0"
    slot: int  # this process's heartbeat slot in the arena
    config: Config
    arena: Arena
    log: Log
    stopping: bool = False  # set by SIGTERM: finish what is in hand and return
    settings: Settings | None = None  # where a new `config` comes from, None where there is none to come
    number: int = 0  # of `config`
    refused: int = 0  # number of the last configuration that could not be applied
    apply: Callable[[Config], None] = lambda config: None  # has the process work with a new `config`; may refuse it

    def begin(self) -> None:
        """The process that was just forked works with `config`."""
        if self.settings is not None:
            self.settings.acknowledge(self.slot, self.number)
        self.beat()

    def beat(self) -> None:
        """Tells the supervisor that the work loop turns; sent by the loop itself, at least once in some seconds.

        Where a new configuration has come, the process works with it from here on.
        """
        self.arena.beat(self.slot, os.getpid())
        self.take_config()

    def take_config(self) -> None:
        """Works with the newest configuration from here on; for loops that are woken when there is one."""
        if self.settings is not None and self.settings.number != self.number:
            self._take(self.settings)

    def _take(self, settings: Settings) -> None:
        number, config = settings.read()
        try:
            self.apply(config)
        except RelayError as error:  # tried again at the next beat; whoever asked for the reload is told who lags
            if number != self.refused:
                self.log("config_not_applied", number=number, code=error.code, error=error, hint=error.hint)
            self.refused = number
            return
        self.number, self.config = number, config
        settings.acknowledge(self.slot, number)

    def await_journal(self) -> bool:
        """Waits until the journal has its beginning, and has it on disk; False if told to stop before."""
        while not self.arena.committed:
            if self.stopping:
                return False
            self.beat()
            time.sleep(0.01)
        return True

    def failed(self, error: RelayError) -> None:
        """Shows the error that ends this process, if it is a named stop."""
        if isinstance(error.code, StopCode):
            self.arena.set_stop(str(error.code), str(error), error.hint)

    @property
    def data_dir(self) -> Path:
        return Path(self.config.relay.data_dir)

    @property
    def journal_dir(self) -> Path:
        return self.data_dir / "journal"


@dataclass
class ReaderContext(Context):
    broker_wake: int = -1  # the broker's eventfd
    accept_gap: bool = False  # go on after what cannot be resumed, and record the gap


@dataclass
class BrokerContext(Context):
    wake: int = -1  # this process's eventfd
    server_wakes: list[int] = field(default_factory=list)  # the servers' eventfds, by index
    servers: list[socket.socket] = field(default_factory=list)  # control messages, by server index (SOCK_SEQPACKET)
    allocate: Callable[[int, int], None] = lambda offset, size: None  # makes that part of the shared memory real


@dataclass
class ServerContext(Context):
    index: int = 0
    workers: int = 1
    listener: socket.socket | None = None  # shared by all servers, non-blocking
    wake: int = -1  # this server's eventfd
    inboxes: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)  # for sockets: (receive, send)
    broker: socket.socket | None = None  # control messages to the broker (SOCK_SEQPACKET)
    broker_wake: int = -1  # the broker's eventfd: a ring that was full has room again
    connections: memoryview = field(default_factory=lambda: memoryview(bytearray(8)).cast("Q"))  # u64 of each server
    supervisor: Callable[[str], None] = lambda command: None  # "stop", "drain", "pause", "resume", "reload REQUEST"
    reloads: Board = field(default_factory=Board)  # what came of them, by request (relay/reload.py)
    stat: Callable[[], dict[str, object]] = dict  # the stat document, as JSON-able values


@dataclass
class MonitorContext(Context):
    listener: socket.socket | None = None  # listens already, non-blocking
    processes: list[str] = field(default_factory=list)  # names of the heartbeat slots in their order
    boards: Boards = field(default_factory=Boards)


@dataclass
class AsideContext(Context):
    """Of exporter, snapshotter, logger, CDC port. Whatever ends them is shown on their board, and ends nothing else."""

    private: ClassVar[bool] = False  # lake and log are written for others to read: as the umask of the start says

    board: Board = field(default_factory=Board)
    status: Status = field(default_factory=Status)  # of the process's own kind; shown by `report`
    accept_gap: bool = False  # go on after what the journal has lost, and record the gap

    def report(self, state: str) -> None:
        """Shows `status` with this state. A stop that was shown stays until the process is seen to go on."""
        self.status.state = state
        self.status.at = time.time()
        if state not in ("starting", "stopped"):
            self.status.stop = None
        self.board.write(msgspec.msgpack.encode(self.status))

    def failed(self, error: RelayError) -> None:
        """Shows any error: also one after which the process is started again at once."""
        self.status.stop = Stop(str(error.code), str(error)[:1000], error.hint[:500])
        self.report("stopped")


@dataclass
class StreamsContext(AsideContext):
    private: ClassVar[bool] = True

    listener: socket.socket | None = None  # of the CDC port, shared by its processes, non-blocking
