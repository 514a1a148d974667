"""Messages between processes.

They are requests to the broker, inquiries of the monitor, replies, and the handover of a client's socket.

Each message is one msgpack-encoded struct in one packet of an AF_UNIX SOCK_SEQPACKET socket. Requests carry an id that
no other process uses at the same time. A sender without a reply after `RESEND_AFTER` seconds sends the same bytes
again. So a request may be carried out twice, and must then have the same effect as once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, TypeAlias

import msgspec

RESEND_AFTER: Final = 1.0
"""Seconds without a reply after which a request is sent again."""

MAX_MESSAGE: Final = 192 * 1024
"""Bytes of the largest message: the most that one packet of a socket with default buffers can have."""


class Message(msgspec.Struct, frozen=True, gc=False, tag=True, forbid_unknown_fields=True):
    """Base of all messages. The struct's name is its tag."""


class Register(Message, frozen=True):
    """Find or create the client called `name`. Reply: `Registered`."""

    request: int
    name: str


class Registered(Message, frozen=True):
    """The client's stable id (from 1) and its block in the arena. If `error` is set, neither is valid."""

    request: int
    client_id: int = 0
    slot: int = 0
    error: str = ""


class AddFilter(Message, frozen=True):
    """Ask for rows of kinds (1 insert, 2 update, 4 delete, or-ed) in schema.table from now on; `*` matches all.

    The same (kinds, schema, table) again replaces discard (0, 1 drops the oldest, 2 drops the newest) and limit (in
    rows, 0 for none). Reply: `Done`.
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

    Reply: `Done` with data {"removed": number}. It is not an error if there are none.
    """

    request: int
    client_id: int
    schema: str
    table: str
    kinds: int


class ListFilters(Message, frozen=True):
    """List a client's filters. Reply: `Filters`."""

    request: int
    client_id: int


class Filter(msgspec.Struct, frozen=True, gc=False):
    """A filter as in `AddFilter`."""

    schema: str
    table: str
    kinds: int
    discard: int
    limit: int


class Filters(Message, frozen=True):
    """The filters of a client, in the order in which they were added."""

    request: int
    filters: tuple[Filter, ...] = ()
    error: str = ""


class Flush(Message, frozen=True):
    """Drop the waiting rows of the client called `client`. Reply: `Done` with data {"dropped": rows}."""

    request: int
    client: str


class Forget(Message, frozen=True):
    """Remove the client called `client` with its filters, queue and counters. Reply: `Done`.

    The broker sends `Kick` to the server that owns it.
    """

    request: int
    client: str


class Seek(Message, frozen=True):
    """Continue the client called `client` at `position`: newest, oldest, FILE:POS or a journal position.

    Reply: `Done` with data {"position": journal position}.
    """

    request: int
    client: str
    position: str


class Disconnect(Message, frozen=True):
    """End the connection of the client called `client`, which keeps its filters, queue and counters.

    Reply: `Done` with data {"connected": whether there was one}. The broker sends `Kick` to the server that owns it.
    If it is sent twice, it may also end a connection that the client made in between.
    """

    request: int
    client: str


class Skip(Message, frozen=True):
    """Skip row `number` of the client called `client`, if it is the next row to be handed out.

    Reply: `Done`. The broker sends `LeaveOut` to the server that owns the client.
    """

    request: int
    client: str
    number: int


class Done(Message, frozen=True):
    """A request was carried out, or failed for the reason in `error`."""

    request: int
    error: str = ""
    data: dict[str, int | str | bool] | None = None


class Kick(Message, frozen=True):
    """From the broker, without a request: end the client's connection and answer its next request with 0xF0."""

    client_id: int
    reason: str


class LeaveOut(Message, frozen=True):
    """From the broker, without a request: skip row `number` of the client in block `slot`, if it is next."""

    client_id: int
    slot: int
    number: int


class Handover(Message, frozen=True):
    """Hand a client's socket (in the packet's ancillary data) to the server that owns the client.

    `name` and `key` are from its login, `peer` is its address, `received` holds the bytes that it sent after its Auth
    request, and `unsent` those that still have to be sent to it.
    """

    client_id: int
    slot: int
    name: str
    key: int
    peer: str
    received: bytes
    unsent: bytes


class InquireStat(Message, frozen=True):
    """To the monitor: the stat document. The reply to each inquiry is `Answer`."""

    request: int


class InquireClients(Message, frozen=True):
    """To the monitor: all clients, or the one called `client` with its last deliveries."""

    request: int
    client: str = ""


class InquireTable(Message, frozen=True):
    """To the monitor: which clients and outputs get the events of a table, and why."""

    request: int
    schema: str
    table: str


class Answer(Message, frozen=True):
    """From the monitor: a JSON document, as a file in the packet's ancillary data; `error`: why there is none."""

    request: int
    error: str = ""


Request: TypeAlias = Register | AddFilter | RemoveFilter | ListFilters | Flush | Forget | Seek | Disconnect | Skip
Order: TypeAlias = Kick | LeaveOut
Reply: TypeAlias = Registered | Done | Filters
Inquiry: TypeAlias = InquireStat | InquireClients | InquireTable

encode: Final = msgspec.msgpack.Encoder().encode
"""Encode a message."""

decode_request: Final[Callable[[bytes], Request]] = msgspec.msgpack.Decoder(Request).decode
"""Decode a server's message to the broker. Like all decoders here, raises msgspec.DecodeError for anything else."""

decode_from_broker: Final[Callable[[bytes], Reply | Order]] = msgspec.msgpack.Decoder(Reply | Order).decode
"""Decode the broker's message to a server."""

decode_inquiry: Final[Callable[[bytes], Inquiry]] = msgspec.msgpack.Decoder(Inquiry).decode
"""Decode a server's inquiry to the monitor."""

decode_answer: Final[Callable[[bytes], Answer]] = msgspec.msgpack.Decoder(Answer).decode
"""Decode the monitor's answer to a server."""

decode_handover: Final[Callable[[bytes], Handover]] = msgspec.msgpack.Decoder(Handover).decode
"""Decode a server's message to another server."""


def request_ids(pid: int) -> Iterator[int]:
    """Return ids for the requests of the process `pid`, distinct from those of every other living process."""
    return count((pid & 0x7FFFFFFF) << 32)
