"""What the processes say to each other: requests to the broker, its replies, and the hand-over of a client's socket.

Each message is one msgpack-encoded struct in one packet of an AF_UNIX SOCK_SEQPACKET socket. Requests carry an id that
no other process uses at the same time; whoever got no reply within `RESEND_AFTER` seconds sends the same bytes again,
so a request may be carried out twice and must then have the same effect as once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final, TypeAlias

import msgspec

RESEND_AFTER: Final = 1.0
"""Seconds without a reply after which a request is sent again."""

MAX_MESSAGE: Final = 192 * 1024
"""Bytes of the largest message: what one packet of a socket with default buffers takes."""


class Message(msgspec.Struct, frozen=True, gc=False, tag=True, forbid_unknown_fields=True):
    """Base of all messages; the struct's name is its tag."""


class Register(Message, frozen=True):
    """Find or make the client called `name`; answered by `Registered`."""

    request: int
    name: str


class Registered(Message, frozen=True):
    """The client's stable id (from 1) and its block in the arena; with `error` neither means anything."""

    request: int
    client_id: int = 0
    slot: int = 0
    error: str = ""


class AddFilter(Message, frozen=True):
    """Rows of kinds (1 insert, 2 update, 4 delete, or-ed) on schema.table, `*` matching all, from now on.

    The same (kinds, schema, table) again replaces discard (0, 1 oldest goes, 2 newest goes) and limit (rows, 0 none).
    Answered by `Done`.
    """

    request: int
    client_id: int
    schema: str
    table: str
    kinds: int
    discard: int
    limit: int


class RemoveFilter(Message, frozen=True):
    """Remove the filters on schema.table with exactly these kinds, or with any kinds if 0.

    Answered by `Done` with data {"removed": number}; none to remove is no error.
    """

    request: int
    client_id: int
    schema: str
    table: str
    kinds: int


class ListFilters(Message, frozen=True):
    """Answered by `Filters`."""

    request: int
    client_id: int


class Filter(msgspec.Struct, frozen=True, gc=False):
    """One filter as `AddFilter` describes it."""

    schema: str
    table: str
    kinds: int
    discard: int
    limit: int


class Filters(Message, frozen=True):
    """The filters of a client, in the order of their addition."""

    request: int
    filters: tuple[Filter, ...] = ()
    error: str = ""


class Flush(Message, frozen=True):
    """Drop what waits in the queue of the client called `client`; answered by `Done` with data {"dropped": rows}."""

    request: int
    client: str


class Forget(Message, frozen=True):
    """Remove the client called `client` with its filters, queue and counters; answered by `Done`.

    The broker sends `Kick` to the server that owns it.
    """

    request: int
    client: str


class Seek(Message, frozen=True):
    """Continue the client called `client` at `position`: newest, oldest, FILE:POS or a journal position.

    Answered by `Done` with data {"position": journal position}.
    """

    request: int
    client: str
    position: str


class Disconnect(Message, frozen=True):
    """End the connection of the client called `client`, which keeps all it has; answered by `Done` with data
    {"connected": whether there was one}.

    The broker sends `Kick` to the server that owns it. Sent twice, it may end a connection that has come in between.
    """

    request: int
    client: str


class Skip(Message, frozen=True):
    """Leave out row `number` of the client called `client`, if it is the one that the client is handed out next.

    Answered by `Done`. The broker sends `LeaveOut` to the server that owns the client.
    """

    request: int
    client: str
    number: int


class Done(Message, frozen=True):
    """A request was carried out, or was not, for the reason in `error`."""

    request: int
    error: str = ""
    data: dict[str, int | str | bool] | None = None


class Kick(Message, frozen=True):
    """From the broker, unasked: the client's connection is to be ended, its next request answered with 0xF0."""

    client_id: int
    reason: str


class LeaveOut(Message, frozen=True):
    """From the broker, unasked: row `number` of the client in the block `slot` is to be left out if it is its next."""

    client_id: int
    slot: int
    number: int


class Handover(Message, frozen=True):
    """A client's socket (in the packet's ancillary data) goes to the server that owns the client.

    `name` and `key` are what it authenticated with, `peer` its address, `received` what it sent after its Auth request,
    `unsent` what it was not yet sent.
    """

    client_id: int
    slot: int
    name: str
    key: int
    peer: str
    received: bytes
    unsent: bytes


Request: TypeAlias = Register | AddFilter | RemoveFilter | ListFilters | Flush | Forget | Seek | Disconnect | Skip
Order: TypeAlias = Kick | LeaveOut
Reply: TypeAlias = Registered | Done | Filters

encode: Final = msgspec.msgpack.Encoder().encode
_requests: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_from_broker: Final[msgspec.msgpack.Decoder[Reply | Order]] = msgspec.msgpack.Decoder(Reply | Order)
_handovers: Final[msgspec.msgpack.Decoder[Handover]] = msgspec.msgpack.Decoder(Handover)


def decode_request(packet: bytes) -> Request:
    """What a server asks of the broker; raises msgspec.DecodeError for anything else."""
    return _requests.decode(packet)


def decode_from_broker(packet: bytes) -> Reply | Order:
    """What the broker says to a server; raises msgspec.DecodeError for anything else."""
    return _from_broker.decode(packet)


def decode_handover(packet: bytes) -> Handover:
    """What a server says to another; raises msgspec.DecodeError for anything else."""
    return _handovers.decode(packet)


def request_ids(pid: int) -> Iterator[int]:
    """Ids for the requests of the process `pid`: distinct from those of every other process alive."""
    return count((pid & 0x7FFFFFFF) << 32)
