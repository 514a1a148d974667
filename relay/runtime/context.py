"""The contexts: what the supervisor passes to each process that it forks. There is no global state.

All sockets, eventfds and the arena are created before the first fork and outlive any child: a successor continues with
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

from relay.base.errors import RelayError, StopCode
from relay.base.log import Log
from relay.config.tree import Config
from relay.runtime.distributed import Settings
from relay.runtime.process_status import ASSUMED_BYTES, Status, StatusPage, StatusPages, Stop

if TYPE_CHECKING:
    from relay._native import Arena


@dataclass
class Context:
    """What all children have. `private`: only the relay's user may read files that the process writes."""

    private: ClassVar[bool] = True

    name: str  # "reader", "broker", "state-writer", "monitor", "exporter", ..., "cdc-0", "server-0"
    slot: int  # this process's heartbeat slot in the arena
    config: Config
    arena: Arena
    log: Log
    stopping: bool = False  # set by SIGTERM: finish the current work and return
    settings: Settings | None = None  # distributes a new `config`; None: `config` never changes
    number: int = 0  # of `config`
    refused: int = 0  # number of the last configuration that the process could not apply
    apply: Callable[[Config], None] = lambda config: None  # makes the process work with it, or raises `RelayError`

    def begin(self) -> None:
        """Set up the process after the fork, with `config`."""
        if self.settings is not None:
            self.settings.acknowledge(self.slot, self.number)
        self.beat()

    def beat(self) -> None:
        """Send a heartbeat, and switch to a new configuration. The work loop itself calls it every few seconds."""
        self.arena.beat(self.slot, os.getpid())
        self.take_config()

    def take_config(self) -> None:
        """Switch to the newest configuration. Loops that are woken for a new one call it."""
        if self.settings is None or self.settings.number == self.number:
            return
        number, config = self.settings.read()
        try:
            self.apply(config)
        except RelayError as error:  # tried again at the next heartbeat; the reload reports the processes that lag
            if number != self.refused:
                self.log("config_not_applied", number=number, code=error.code, error=error, hint=error.hint)
            self.refused = number
            return
        self.number, self.config = number, config
        self.settings.acknowledge(self.slot, number)

    def await_journal(self) -> bool:
        """Wait until the beginning of the journal is on disk. False if the process is to stop before that."""
        while not self.arena.committed:
            if self.stopping:
                return False
            self.beat()
            time.sleep(0.01)
        return True

    def failed(self, error: RelayError) -> None:
        """Report the fatal error that ends this process."""
        if isinstance(error.code, StopCode):
            self.arena.set_stop(str(error.code), str(error), error.remedy)

    @property
    def data_dir(self) -> Path:
        """The folder of all state."""
        return Path(self.config.relay.data_dir)

    @property
    def journal_dir(self) -> Path:
        """The journal's folder in DataDir."""
        return self.data_dir / "journal"


@dataclass
class ReaderContext(Context):
    """The context of the reader."""

    broker_wake: int = -1  # the broker's eventfd
    broker_wake_ahead: int = -1  # the eventfd that tells the broker that a row may come soon
    accept_gap: bool = False  # continue after something that cannot be resumed, and record the gap
    status_page: StatusPage = field(default_factory=StatusPage)  # a `PassedOver`
    assumed_page: StatusPage = field(default_factory=lambda: StatusPage(ASSUMED_BYTES))  # an `AssumedRows`


@dataclass
class BrokerContext(Context):
    """The context of the broker."""

    wake: int = -1  # this process's eventfd
    wake_ahead: int = -1  # the eventfd with which the reader says that a row may come soon
    servers_wake_ahead: int = -1  # the eventfd that tells all servers the same
    server_wakes: list[int] = field(default_factory=list)  # the servers' eventfds, by index
    servers: list[socket.socket] = field(default_factory=list)  # control messages, by server index (SOCK_SEQPACKET)
    state_writer: socket.socket | None = None  # what is to be stored of clients (SOCK_SEQPACKET)
    allocate: Callable[[int, int], None] = lambda offset, size: None  # allocates that part of the arena
    unstored: Path = Path("unstored")  # the folder of filters that are not stored yet; it lives as long as the arena


@dataclass
class StateWriterContext(Context):
    """The context of the state writer."""

    broker: socket.socket | None = None  # the other end of `BrokerContext.state_writer`


@dataclass
class ServerContext(Context):
    """The context of a server."""

    index: int = 0
    workers: int = 1
    listener: socket.socket | None = None  # shared by all servers, non-blocking
    wake: int = -1  # this server's eventfd
    wake_ahead: int = -1  # the eventfd with which the broker says that a row may come soon
    inboxes: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)  # for sockets: (receive, send)
    broker: socket.socket | None = None  # control messages to the broker (SOCK_SEQPACKET)
    broker_wake: int = -1  # the broker's eventfd: a full ring has free slots again
    connections: memoryview = field(default_factory=lambda: memoryview(bytearray(8)).cast("Q"))  # u64 per server
    supervisor: Callable[[str], None] = lambda command: None  # "stop", "drain", "pause", "resume", "reload REQUEST"
    reloads: StatusPage = field(default_factory=StatusPage)  # results by request (relay/runtime/reload.py)
    monitor: socket.socket | None = None  # inquiries of the monitor (SOCK_SEQPACKET)
    admin: socket.socket | None = None  # listens for local admin commands; shared by all servers, non-blocking


@dataclass
class MonitorContext(Context):
    """The context of the monitor."""

    listener: socket.socket | None = None  # already listens, non-blocking
    processes: list[str] = field(default_factory=list)  # names of the heartbeat slots, in order
    status_pages: StatusPages = field(default_factory=StatusPages)
    inquiries: list[socket.socket] = field(default_factory=list)  # from the servers, by index (SOCK_SEQPACKET)


@dataclass
class SideContext(Context):
    """The context of exporter, snapshotter, merger, logger and CDC port.

    Their status page shows the error that ends them, which does not affect other processes.
    """

    private: ClassVar[bool] = False  # other programs read lake and log: the umask at the start applies

    status_page: StatusPage = field(default_factory=StatusPage)
    status: Status = field(default_factory=Status)  # of the process's own type; `report` shows it
    accept_gap: bool = False  # continue after what the journal has lost, and record the gap

    def report(self, state: str) -> None:
        """Show `status` with this state. A fatal error is shown until the process continues."""
        self.status.state = state
        self.status.at = time.time()
        if state not in ("starting", "stopped"):
            self.status.stop = None
        self.status_page.write(msgspec.msgpack.encode(self.status))

    def failed(self, error: RelayError) -> None:
        """Show any error, also one after which the process is restarted at once."""
        self.status.stop = Stop(str(error.code), str(error)[:1000], error.remedy[:500])
        self.report("stopped")


@dataclass
class StreamsContext(SideContext):
    """The context of a process of the CDC port."""

    private: ClassVar[bool] = True

    listener: socket.socket | None = None  # of the CDC port, shared by its processes, non-blocking
