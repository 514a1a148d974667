"""What all processes share, made before the first fork: arena, listeners, eventfds, sockets between them."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from relay import memory
from relay._native import Arena, sync_failed
from relay.board import CDC_BYTES, Board, Boards
from relay.config import Config
from relay.errors import ErrorCode, RelayError

_MESSAGE_BUFFER = 1 << 20  # bytes a control socket buffers: as many registrations as arrive while the broker restarts


def worker_count(config: Config) -> int:
    """`Workers`, or one server process a core."""
    return config.relay.workers or len(os.sched_getaffinity(0))


def _listen(address: str, port: int, what: str, section: str = "Server") -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        raise RelayError(ErrorCode.ENVIRONMENT, f"listen for {what}", error, position=f"{address}:{port}",
                         hint=f"free the port, or set another in [{section}]") from error  # fmt: skip
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def _pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE_BUFFER)
    return pair


class Doors(NamedTuple):
    """Listening sockets."""

    listener: socket.socket  # classic protocol
    http: socket.socket
    cdc: socket.socket | None


@dataclass
class Family:
    """The shared things. A packet socket keeps messages whole when a writer is killed; a byte stream would not."""

    arena: Arena
    block: memory.Block
    listener: socket.socket  # classic protocol
    http: socket.socket
    cdc: socket.socket | None
    broker_wake: int
    server_wakes: list[int]
    control: list[tuple[socket.socket, socket.socket]]  # by server: (the server's end, the broker's end)
    inboxes: list[tuple[socket.socket, socket.socket]]  # by server: (receive, send)
    orders: tuple[socket.socket, socket.socket]  # commands for the supervisor: (receive, send)
    boards: Boards

    @property
    def workers(self) -> int:
        return len(self.server_wakes)

    def with_bound_ports(self, config: Config) -> Config:
        """The configuration with the ports that were picked where it left them open (0)."""
        ports = {"server_port": self.listener.getsockname()[1], "http_port": self.http.getsockname()[1]}
        bound = msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, **ports))
        if self.cdc is None:
            return bound
        return msgspec.structs.replace(bound, cdc=msgspec.structs.replace(config.cdc, port=self.cdc.getsockname()[1]))


def listen(config: Config) -> Doors:
    """Binds the ports: the one thing that may need more rights than the relay has while it runs."""
    return Doors(
        listener=_listen(config.server.bind_address, config.server.server_port, "clients"),
        http=_listen(config.server.http_address, config.server.http_port, "the monitoring page"),
        cdc=_listen(config.cdc.address, config.cdc.port, "CDC clients", "CDC") if config.cdc.enabled else None,
    )


def assemble(config: Config, doors: Doors, data_dir: Path) -> Family:
    """Makes everything else; with the arena of a killed predecessor if it left one of the same shape."""
    workers = worker_count(config)
    arena, block = _arena(config, data_dir, workers)
    return Family(
        arena=arena,
        block=block,
        **doors._asdict(),
        broker_wake=os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC),
        server_wakes=[os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(workers)],
        control=[_pair() for _ in range(workers)],
        inboxes=[_pair() for _ in range(workers)],
        orders=_pair(),
        boards=Boards(cdc=[Board(CDC_BYTES) for _ in range(config.cdc.workers if doors.cdc else 0)]),
    )


def renew(family: Family, config: Config) -> None:
    """Empty what the processes share, none of which may live. Their successors begin with what is on disk."""
    for pair in (*family.control, *family.inboxes):
        for end in pair:
            _drain(end)
    memory.wipe(family.block)
    _formatted(family.block, _shape(config, family.workers))


def _shape(config: Config, workers: int) -> tuple[int, int, int]:
    return config.relay.max_clients, workers, config.relay.queue_memory


def _arena(config: Config, data_dir: Path, workers: int) -> tuple[Arena, memory.Block]:
    shape = _shape(config, workers)
    left = memory.find(data_dir)
    if left is not None:
        if Arena.fits(left.view, *shape) and not sync_failed(data_dir / "journal"):
            return Arena(left.view), left
        memory.discard(data_dir, left)
    block = memory.create(data_dir, Arena.size(*shape))
    return _formatted(block, shape), block


def _formatted(block: memory.Block, shape: tuple[int, int, int]) -> Arena:
    memory.allocate(block, 0, Arena.fixed_size(*shape))
    return Arena(block.view, *shape)


def _drain(end: socket.socket) -> None:
    """Drop the messages that wait there, and the descriptors that come with them."""
    with suppress(BlockingIOError):
        while True:
            _, descriptors, _, _ = socket.recv_fds(end, _MESSAGE_BUFFER, 8)
            for descriptor in descriptors:
                os.close(descriptor)
