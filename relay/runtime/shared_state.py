"""The shared state, created before the first fork: arena, listeners, eventfds, and sockets between the processes."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from relay._native import Arena, sync_failed
from relay.base.errors import ErrorCode, RelayError
from relay.config.tree import Config
from relay.runtime import admin_socket, shm
from relay.runtime.process_status import CDC_BYTES, StatusPage, StatusPages

_MESSAGE_BUFFER = 1 << 20  # bytes per control socket, for the registrations that arrive while the broker restarts


def _listen(address: str, port: int, what: str, section: str = "Server") -> socket.socket:
    version = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(version, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        raise RelayError(ErrorCode.ENVIRONMENT, f"listen for {what}", error, position=f"{address}:{port}",
                         hint=f"free the port, or set another one in [{section}]") from error  # fmt: skip
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def _pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE_BUFFER)
    return pair


class Listeners(NamedTuple):
    """The listeners of the ports."""

    listener: socket.socket  # classic protocol
    http: socket.socket
    cdc: socket.socket | None


@dataclass
class SharedState:
    """The shared state. A packet socket keeps a message whole if its writer is killed; a byte stream does not."""

    arena: Arena
    block: shm.Block
    listener: socket.socket  # classic protocol
    http: socket.socket
    cdc: socket.socket | None
    broker_wake: int
    server_wakes: list[int]
    broker_wake_ahead: int  # the reader tells the broker that a row may come soon
    servers_wake_ahead: int  # the broker tells all servers the same
    control: list[tuple[socket.socket, socket.socket]]  # by server: (the server's end, the broker's end)
    stored: tuple[socket.socket, socket.socket]  # (the broker's end, the state writer's end)
    inboxes: list[tuple[socket.socket, socket.socket]]  # by server: (receive, send)
    admin: socket.socket  # local admin commands
    inquiries: list[tuple[socket.socket, socket.socket]]  # by server: (the server's end, the monitor's end)
    commands: tuple[socket.socket, socket.socket]  # for the supervisor: (receive, send)
    status_pages: StatusPages

    @property
    def workers(self) -> int:
        """The number of servers."""
        return len(self.server_wakes)

    def with_bound_ports(self, config: Config) -> Config:
        """Return the configuration, with the actual ports instead of 0."""
        ports = {"server_port": self.listener.getsockname()[1], "http_port": self.http.getsockname()[1]}
        bound = msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, **ports))
        if self.cdc is None:
            return bound
        return msgspec.structs.replace(bound, cdc=msgspec.structs.replace(config.cdc, port=self.cdc.getsockname()[1]))


def listen(config: Config) -> Listeners:
    """Bind the ports. No other step needs more rights than the relay has while it runs."""
    return Listeners(
        listener=_listen(config.server.bind_address, config.server.server_port, "clients"),
        http=_listen(config.server.http_address, config.server.http_port, "the monitoring page"),
        cdc=_listen(config.cdc.address, config.cdc.port, "CDC clients", "CDC") if config.cdc.enabled else None,
    )


def assemble(config: Config, listeners: Listeners, data_dir: Path) -> SharedState:
    """Create the rest of the shared state. Use the arena of a killed predecessor if that has the same layout."""
    workers = config.relay.workers or len(os.sched_getaffinity(0))
    arena, block = _arena(config, data_dir, workers)
    return SharedState(
        arena=arena,
        block=block,
        **listeners._asdict(),
        broker_wake=os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC),
        server_wakes=[os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(workers)],
        broker_wake_ahead=os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC),
        servers_wake_ahead=os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC),
        control=[_pair() for _ in range(workers)],
        stored=_pair(),
        inboxes=[_pair() for _ in range(workers)],
        admin=admin_socket.listen(data_dir),
        inquiries=[_pair() for _ in range(workers)],
        commands=_pair(),
        status_pages=StatusPages(
            cdc=[StatusPage(CDC_BYTES) for _ in range(config.cdc.workers if listeners.cdc else 0)]
        ),
    )


def renew(shared: SharedState, config: Config) -> None:
    """Empty the shared state. No process may be alive. Their successors begin with what is on disk."""
    for pair in (*shared.control, shared.stored, *shared.inboxes, *shared.inquiries):
        for end in pair:
            _drain(end)
    shm.wipe(shared.block)
    _formatted(shared.block, _shape(config, shared.workers))


def _shape(config: Config, workers: int) -> tuple[int, int, int]:
    return config.relay.max_clients, workers, config.relay.queue_memory


def _arena(config: Config, data_dir: Path, workers: int) -> tuple[Arena, shm.Block]:
    shape = _shape(config, workers)
    block = shm.find(data_dir)
    if block is not None:
        if Arena.fits(block.view, *shape) and not sync_failed(data_dir / "journal"):
            arena = Arena(block.view)
            arena.release_holds()
            return arena, block
        shm.discard(data_dir, block)
    block = shm.create(data_dir, Arena.size(*shape))
    return _formatted(block, shape), block


def _formatted(block: shm.Block, shape: tuple[int, int, int]) -> Arena:
    shm.allocate(block, 0, Arena.fixed_size(*shape))
    return Arena(block.view, *shape)


def _drain(end: socket.socket) -> None:
    """Discard the messages that wait in the socket, and their descriptors."""
    with suppress(BlockingIOError):
        while True:
            _, descriptors, _, _ = socket.recv_fds(end, _MESSAGE_BUFFER, 8)
            for descriptor in descriptors:
                os.close(descriptor)
