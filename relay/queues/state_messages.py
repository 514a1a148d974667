"""Messages between the broker, which decides what is stored of clients, and the state writer, which stores it.

The broker numbers its messages. The state writer handles them in order, and answers each. Each message that changes
something has the same effect twice as once, so the broker may send again what was not answered. A message that does
not fit a packet travels as a file in memory: it arrives whole or not at all, and is one transaction.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from relay.queues.state import Client, Filter
from relay.runtime import memory_files
from relay.runtime.ipc import MAX_MESSAGE, Message

_IN_FILE: Final = b"\0"  # the packet of a message that is in a file


class Load(Message, frozen=True):
    """Ask for everything that is stored. Reply: `Loaded`."""

    number: int


class Resume(Message, frozen=True):
    """To the state writer that `Began` names: behind this are all messages that were not answered. Reply: `Began`."""

    writer: int


class AddClient(Message, frozen=True):
    """Store a new client. Ids rise and are never used again. Reply, as to all that follow: `Stored`."""

    number: int
    id: int
    name: str


class ForgetClient(Message, frozen=True):
    """Delete the client with its filters and checkpoint."""

    number: int
    id: int


class ReplaceFilters(Message, frozen=True):
    """Store the client's whole list, if the client exists."""

    number: int
    id: int
    filters: list[Filter]


class Checkpoint(Message, frozen=True):
    """Store the position and (client id, packed checkpoint) pairs, and flush everything so far to disk."""

    number: int
    position: int
    clients: list[tuple[int, bytes]]


class SetGeneration(Message, frozen=True):
    """Store the generation of the journal that the positions belong to."""

    number: int
    generation: int


class Loaded(Message, frozen=True):
    """Everything that is stored. `generation`: None before the first start. `last_id`: the highest id ever used."""

    number: int
    generation: int | None
    position: int
    last_id: int
    clients: list[Client]


class Stored(Message, frozen=True):
    """The change is stored, or nothing of it for the reason in `error`. `code`: of the fatal error, if it is one."""

    number: int
    error: str = ""
    code: str = ""


class Began(Message, frozen=True):
    """The state writer with this id has begun, and drops everything before `Resume`: it comes again behind it.

    It is sent again until `Resume` comes, and once more then: the broker learns that the socket has room again.
    """

    writer: int


Change: TypeAlias = AddClient | ForgetClient | ReplaceFilters | Checkpoint | SetGeneration
ToWriter: TypeAlias = Load | Resume | Change
FromWriter: TypeAlias = Began | Loaded | Stored

encode: Final = msgspec.msgpack.Encoder().encode
"""Encode a message."""

decode_to_writer: Final[Callable[[bytes], ToWriter]] = msgspec.msgpack.Decoder(ToWriter).decode
"""Decode the broker's message."""

decode_from_writer: Final[Callable[[bytes], FromWriter]] = msgspec.msgpack.Decoder(FromWriter).decode
"""Decode the state writer's message."""


def send(sock: socket.socket, message: bytes) -> None:
    """Send an encoded message. Raises BlockingIOError if it does not fit now."""
    if len(message) <= MAX_MESSAGE:
        sock.send(message)
    else:
        memory_files.send(sock, _IN_FILE, message)


def receive(sock: socket.socket) -> bytes:
    """Return the next encoded message. Raises OSError: BlockingIOError if there is none."""
    packet, descriptors, _, _ = socket.recv_fds(sock, MAX_MESSAGE, 1)
    if packet != _IN_FILE:
        return packet
    if not descriptors:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return memory_files.read(descriptors[0])
