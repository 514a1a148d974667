"""Codec of the classic protocol (docs/protocol.md): requests, replies, payloads and authentication keys, without I/O.

All integers are little-endian, all structures packed. Names are UTF-8 with one trailing NUL that does not belong to
the name; a name without it is the same name.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from relay._native import byte_sum
from relay.errors import ErrorCode, RelayError

VERSION: Final = 0x0001_0100
"""Version that our own clients put into their requests; servers look at the upper half alone."""

HEADER: Final = struct.Struct("<HHIIIIIII")
REPLY: Final = struct.Struct("<BII")
_AUTH: Final = struct.Struct("<QIII")
_AUTH_REPLY: Final = struct.Struct("<QII")
_FILTER: Final = struct.Struct("<BBI")
_POLL_MANY: Final = struct.Struct("<IIIQB")
_U32: Final = struct.Struct("<I")
_MASK32: Final = 0xFFFF_FFFF
_MASK63: Final = 0x7FFF_FFFF_FFFF_FFFF

MAX_NAME: Final = 256
"""Bytes of the longest name of a client, schema or table."""

MAX_REPLY: Final = 1 << 30
"""Bytes of the longest reply payload that a client of ours takes."""


class Command(IntEnum):
    """What a request asks for; from 0x0100 for administrators."""

    PING = 1
    AUTH = 2
    ADD_FILTER = 3
    POLL = 4
    POLL_V2 = 5
    POLL_MANY = 6
    REMOVE_FILTER = 7
    LIST_FILTERS = 8
    STAT = 0x0100
    DRAIN = 0x0101
    STOP = 0x0102
    PAUSE = 0x0103
    RESUME = 0x0104
    FLUSH_CLIENT = 0x0105
    FORGET_CLIENT = 0x0106
    SEEK_CLIENT = 0x0107
    LIST_CLIENTS = 0x0108
    KICK_CLIENT = 0x0109
    EXPLAIN = 0x010A
    RELOAD = 0x010B
    SKIP_ROW = 0x010C


class Result(IntEnum):
    """First byte of a reply."""

    OK = 0x00
    DISCONNECTED = 0xF0
    EMPTY = 0xFC
    ERROR = 0xFF


class Format(IntEnum):
    """How PollMany returns rows."""

    TEXT = 0
    MSGPACK = 1
    ARROW = 2


class Kind(IntEnum):
    """Kinds of rows, or-ed in filters."""

    INSERT = 1
    UPDATE = 2
    DELETE = 4


ALL_KINDS: Final = Kind.INSERT | Kind.UPDATE | Kind.DELETE


class Discard(IntEnum):
    """What goes when a queue with a limit is full."""

    NEWEST_BY_DEFAULT = 0
    OLDEST = 1
    NEWEST = 2


class MalformedPayload(ValueError):
    """The text says what is wrong, and is what the client is answered."""


class Header(NamedTuple):
    """The first 32 bytes of a request."""

    command: int
    subcommand: int
    payload_size: int
    version: int
    client_id: int
    token: int
    checksum: int
    reserved1: int
    reserved2: int

    def expected_checksum(self, payload: bytes) -> int:
        """The checksum that a request with this header and payload has to carry."""
        return (sum(self) - self.checksum + byte_sum(payload)) & _MASK32


class Reply(NamedTuple):
    """A whole reply."""

    result: int
    payload: bytes

    @property
    def text(self) -> str:
        """The payload as the text that goes with an error."""
        return self.payload.removesuffix(b"\0").decode("utf-8", "replace")


class Auth(NamedTuple):
    """Payload of Auth."""

    key: int
    name: str


class Identity(NamedTuple):
    """Payload of a reply to Auth; token and client_id are 0 where it failed."""

    key: int
    token: int
    client_id: int


class TableFilter(NamedTuple):
    """Payload of AddFilter; limit in rows, 0 for none."""

    kinds: int
    discard: int
    limit: int
    schema: str
    table: str


class FilterName(NamedTuple):
    """Payload of RemoveFilter; kinds 0 stands for any."""

    kinds: int
    schema: str
    table: str


class PollMany(NamedTuple):
    """Payload of PollMany: at most max_rows and max_bytes (0: any), waiting at most wait_ms for the first row.

    `confirmed` is the sequence of the last row that the client is done with; with max_rows 0 that is all it does.
    """

    max_rows: int
    max_bytes: int
    wait_ms: int
    confirmed: int
    format: int


def parse_header(data: bytes) -> Header:
    """The header in the first 32 bytes of data."""
    return Header(*HEADER.unpack_from(data))


def encode_request(
    command: int, payload: bytes = b"", *, client_id: int = 0, token: int = 0, version: int = VERSION
) -> bytes:
    """A whole request with its checksum."""
    header = Header(command, 0, len(payload), version, client_id, token, 0, 0, 0)
    return HEADER.pack(*header._replace(checksum=header.expected_checksum(payload))) + payload


def encode_admin_request(command: int, key: int, payload: bytes = b"") -> bytes:
    """A whole request of an administrator; `key` is `fnv1a64` of AdminSecret."""
    return encode_request(command, payload, client_id=key & _MASK32, token=key >> 32)


def encode_reply(result: int, payload: bytes = b"") -> bytes:
    """A whole reply with its checksum."""
    return REPLY.pack(result, len(payload), (result + len(payload) + byte_sum(payload)) & _MASK32) + payload


def encode_error(text: str) -> bytes:
    """A whole reply that refuses, with the reason."""
    return encode_reply(Result.ERROR, text.encode() + b"\0")


class ReplyParser:
    """Cuts a stream of bytes into replies and verifies them."""

    def __init__(self, max_payload: int = MAX_REPLY) -> None:
        self._buffer = bytearray()
        self._max_payload = max_payload

    def feed(self, data: bytes | memoryview) -> None:
        """Take bytes as they arrived."""
        self._buffer += data

    def next(self) -> Reply | None:
        """The next whole reply, None if it has not arrived yet.

        Raises `RelayError` (protocol) if the other side does not speak this protocol.
        """
        if len(self._buffer) < REPLY.size:
            return None
        result, size, checksum = REPLY.unpack_from(self._buffer)
        if size > self._max_payload:
            raise _protocol_error(f"a reply claims {size} bytes of payload, more than {self._max_payload}")
        end = REPLY.size + size
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            payload = bytes(view[REPLY.size : end])
        del self._buffer[:end]
        if checksum != (result + size + byte_sum(payload)) & _MASK32:
            raise _protocol_error("a reply's checksum does not match")
        return Reply(result, payload)


def encode_auth(key: int, name: str) -> bytes:
    """Payload of Auth."""
    raw = name.encode() + b"\0"
    return _AUTH.pack(key, 0, 0, len(raw)) + raw


def parse_auth(payload: bytes) -> Auth:
    """Payload of Auth; raises `MalformedPayload`. Bytes after the name are ignored."""
    if len(payload) < _AUTH.size:
        raise MalformedPayload(f"Auth: payload of {len(payload)} bytes, at least {_AUTH.size} expected")
    key = _AUTH.unpack_from(payload)[0]
    name, _ = _take_name(payload, _AUTH.size - _U32.size, "Auth: client name")
    return Auth(key, name)


def encode_identity(identity: Identity) -> bytes:
    """Payload of a reply to Auth."""
    return _AUTH_REPLY.pack(*identity)


def parse_identity(payload: bytes) -> Identity:
    """Payload of a reply to Auth; raises `RelayError` (protocol)."""
    if len(payload) != _AUTH_REPLY.size:
        raise _protocol_error(f"the reply to Auth has {len(payload)} bytes instead of {_AUTH_REPLY.size}")
    return Identity(*_AUTH_REPLY.unpack(payload))


def encode_filter(wanted: TableFilter) -> bytes:
    """Payload of AddFilter, and of each filter in a reply to ListFilters."""
    return (
        _FILTER.pack(wanted.kinds, wanted.discard, wanted.limit)
        + _encode_name(wanted.schema)
        + _encode_name(wanted.table)
    )


def parse_filter(payload: bytes) -> TableFilter:
    """Payload of AddFilter; raises `MalformedPayload`. Bytes after the table are ignored.

    Unknown kinds are left out; unknown discard types are `Discard.NEWEST`; a limit with the highest bit is none.
    """
    if len(payload) < _FILTER.size:
        raise MalformedPayload(f"AddFilter: payload of {len(payload)} bytes is too short")
    kinds, discard, limit = _FILTER.unpack_from(payload)
    schema, table, _ = _take_table(payload, _FILTER.size, "AddFilter")
    if not kinds & ALL_KINDS:
        raise MalformedPayload(f"AddFilter: type {kinds} asks for no kind of row (1 insert, 2 update, 4 delete)")
    return TableFilter(
        kinds & ALL_KINDS, min(discard, Discard.NEWEST), 0 if limit > 0x7FFF_FFFF else limit, schema, table
    )


def encode_filter_name(name: FilterName) -> bytes:
    """Payload of RemoveFilter."""
    return bytes((name.kinds,)) + _encode_name(name.schema) + _encode_name(name.table)


def parse_filter_name(payload: bytes) -> FilterName:
    """Payload of RemoveFilter; raises `MalformedPayload`."""
    if not payload:
        raise MalformedPayload("RemoveFilter: empty payload")
    schema, table, end = _take_table(payload, 1, "RemoveFilter")
    if end != len(payload):
        raise MalformedPayload(f"RemoveFilter: {len(payload) - end} bytes too many")
    return FilterName(payload[0] & ALL_KINDS, schema, table)


def encode_count(count: int) -> bytes:
    """Payload of a reply to RemoveFilter: how many filters were removed."""
    return _U32.pack(count)


def encode_filters(filters: Iterable[TableFilter]) -> bytes:
    """Payload of a reply to ListFilters."""
    parts = [encode_filter(each) for each in filters]
    return _U32.pack(len(parts)) + b"".join(parts)


def parse_filters(payload: bytes) -> list[TableFilter]:
    """Payload of a reply to ListFilters; raises `RelayError` (protocol)."""
    filters = []
    offset = _U32.size
    try:
        for _ in range(_U32.unpack_from(payload)[0]):
            kinds, discard, limit = _FILTER.unpack_from(payload, offset)
            schema, offset = _take_name(payload, offset + _FILTER.size, "schema")
            table, offset = _take_name(payload, offset, "table")
            filters.append(TableFilter(kinds, discard, limit, schema, table))
    except (struct.error, MalformedPayload) as error:
        raise _protocol_error(f"the reply to ListFilters is malformed: {error}") from None
    return filters


def encode_poll_many(request: PollMany) -> bytes:
    """Payload of PollMany."""
    return _POLL_MANY.pack(*request)


def parse_streams(payload: bytes) -> list[memoryview]:
    """The Arrow streams in a reply to PollMany in format 2; raises `RelayError` (protocol)."""
    streams = []
    view, at = memoryview(payload), 2 * _U32.size
    try:
        for _ in range(_U32.unpack_from(payload, _U32.size)[0]):
            (size,) = _U32.unpack_from(payload, at)
            at += _U32.size + size
            streams.append(view[at - size : at])
    except struct.error:
        at = -1
    if at != len(payload):
        raise _protocol_error("a reply to PollMany is malformed")
    return streams


def fnv1a64(data: bytes) -> int:
    """FNV-1a hash of data, 64 bits."""
    value = 0xCBF2_9CE4_8422_2325
    for byte in data:
        value = ((value ^ byte) * 0x100_0000_01B3) & 0xFFFF_FFFF_FFFF_FFFF
    return value


def shifted_fnv1a64(secret: bytes) -> int:
    """The hash of the original's server and Free Pascal client: off by one, so of a NUL and all bytes but the last."""
    return fnv1a64(b"\0" + secret[:-1] if secret else b"")


def accepted_keys(secret: bytes, *, legacy: bool) -> tuple[int, ...]:
    """The AuthKeys that stand for a secret; with `legacy` also those that the original's clients send."""
    key = fnv1a64(secret)
    if not legacy:
        return (key,)
    shifted = shifted_fnv1a64(secret)
    return (key, shifted, key & _MASK63, shifted & _MASK63)


def key_matches(key: int, accepted: Iterable[int]) -> bool:
    """Whether key is one of those accepted, in a time that does not depend on how much of it is right."""
    sent = key.to_bytes(8, "little")
    found = False
    for each in accepted:
        found |= hmac.compare_digest(sent, each.to_bytes(8, "little"))
    return found


def _encode_name(name: str) -> bytes:
    raw = name.encode() + b"\0"
    return _U32.pack(len(raw)) + raw


def _take_name(payload: bytes, offset: int, what: str) -> tuple[str, int]:
    """The name with its length in front at offset, and the offset after it."""
    start = offset + _U32.size
    if start > len(payload):
        raise MalformedPayload(f"{what}: the payload ends before its length")
    (size,) = _U32.unpack_from(payload, offset)
    if size > len(payload) - start:
        raise MalformedPayload(f"{what}: {size} bytes announced, {len(payload) - start} sent")
    raw = payload[start : start + size].removesuffix(b"\0")
    if not raw:
        raise MalformedPayload(f"{what} is empty")
    if len(raw) > MAX_NAME:
        raise MalformedPayload(f"{what} is longer than {MAX_NAME} bytes")
    try:
        return raw.decode(), start + size
    except UnicodeDecodeError:
        raise MalformedPayload(f"{what} is not UTF-8") from None


def _take_table(payload: bytes, offset: int, what: str) -> tuple[str, str, int]:
    """Schema and table at offset, and the offset after them."""
    schema, offset = _take_name(payload, offset, f"{what}: schema")
    table, offset = _take_name(payload, offset, f"{what}: table")
    return schema, table, offset


def _protocol_error(cause: str) -> RelayError:
    return RelayError(ErrorCode.PROTOCOL, "read reply", cause)
