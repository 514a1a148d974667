"""Codec of the classic protocol (docs/protocol.md): requests, replies and payloads. No I/O.

All integers are little-endian, all structures packed. Names are UTF-8 with one trailing NUL that does not belong to the
name; a name without it is the same name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from relay.base.errors import ErrorCode, RelayError

try:
    from relay._native import byte_sum
except ModuleNotFoundError:  # the client alone, without the core
    byte_sum = sum  # type: ignore[assignment]

VERSION: Final = 0x0001_0100
"""The version that the relay's own clients send; servers check only the upper half."""

HEADER: Final = struct.Struct("<HHIIIIIII")
REPLY: Final = struct.Struct("<BII")
_AUTH: Final = struct.Struct("<QIII")
_AUTH_REPLY: Final = struct.Struct("<QII")
_FILTER: Final = struct.Struct("<BBI")
_POLL_MANY: Final = struct.Struct("<IIIQB")
_U32: Final = struct.Struct("<I")
_MASK32: Final = 0xFFFF_FFFF

MAX_NAME: Final = 256
"""The bytes of the longest name of a client, schema or table."""

MAX_REPLY: Final = 1 << 30
"""The bytes of the longest reply payload that the relay's own clients accept."""


class Command(IntEnum):
    """The command of a request; from 0x0100 for administrators."""

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
    """The first byte of a reply."""

    OK = 0x00
    DISCONNECTED = 0xF0
    EMPTY = 0xFC
    ERROR = 0xFF


class Format(IntEnum):
    """The format of rows in PollMany."""

    TEXT = 0
    MSGPACK = 1
    ARROW = 2
    EXTENDED = 3


class Kind(IntEnum):
    """Kinds of rows, or-ed in filters."""

    INSERT = 1
    UPDATE = 2
    DELETE = 4


ALL_KINDS: Final = Kind.INSERT | Kind.UPDATE | Kind.DELETE


class Discard(IntEnum):
    """The rows to drop when a queue with a limit is full."""

    NEWEST_BY_DEFAULT = 0
    OLDEST = 1
    NEWEST = 2


class MalformedPayload(ValueError):
    """The payload is invalid; the text says why, and is sent to the client."""


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
        """Return the checksum that a request with this header and payload must have."""
        return (sum(self) - self.checksum + byte_sum(payload)) & _MASK32


class Reply(NamedTuple):
    """A complete reply."""

    result: int
    payload: bytes

    @property
    def text(self) -> str:
        """The payload as the text of an error."""
        return self.payload.removesuffix(b"\0").decode("utf-8", "replace")


class Auth(NamedTuple):
    """The payload of Auth."""

    key: int
    name: str


class Identity(NamedTuple):
    """The payload of a reply to Auth; token and client_id are 0 if it failed."""

    key: int
    token: int
    client_id: int


class TableFilter(NamedTuple):
    """The payload of AddFilter; limit in rows, 0 for none."""

    kinds: int
    discard: int
    limit: int
    schema: str
    table: str


class FilterName(NamedTuple):
    """The payload of RemoveFilter; kinds 0 means any."""

    kinds: int
    schema: str
    table: str


class PollMany(NamedTuple):
    """The payload of PollMany: at most max_rows and max_bytes (0: any), waiting at most wait_ms for the first row.

    `confirmed` is the sequence of the last row that the client has processed; with max_rows 0 the request only
    confirms.
    """

    max_rows: int
    max_bytes: int
    wait_ms: int
    confirmed: int
    format: int


def encode_request(
    command: int, payload: bytes = b"", *, client_id: int = 0, token: int = 0, version: int = VERSION
) -> bytes:
    """Return a complete request with its checksum."""
    header = Header(command, 0, len(payload), version, client_id, token, 0, 0, 0)
    return HEADER.pack(*header._replace(checksum=header.expected_checksum(payload))) + payload


def encode_admin_request(command: int, key: int, payload: bytes = b"") -> bytes:
    """Return a complete request of an administrator; `key` is `classic_keys.fnv1a64` of AdminSecret."""
    return encode_request(command, payload, client_id=key & _MASK32, token=key >> 32)


def encode_reply(result: int, payload: bytes = b"") -> bytes:
    """Return a complete reply with its checksum."""
    return REPLY.pack(result, len(payload), (result + len(payload) + byte_sum(payload)) & _MASK32) + payload


def encode_error(text: str) -> bytes:
    """Return a complete error reply with the reason."""
    return encode_reply(Result.ERROR, text.encode() + b"\0")


class ReplyParser:
    """Split a stream of bytes into replies and verify them."""

    def __init__(self, max_payload: int = MAX_REPLY) -> None:
        self._buffer = bytearray()
        self._max_payload = max_payload

    def feed(self, data: bytes | memoryview) -> None:
        """Add received bytes."""
        self._buffer += data

    def next(self) -> Reply | None:
        """Return the next complete reply, None if it is incomplete.

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
    """Return the payload of Auth."""
    raw = name.encode() + b"\0"
    return _AUTH.pack(key, 0, 0, len(raw)) + raw


def parse_auth(payload: bytes) -> Auth:
    """Parse the payload of Auth; raises `MalformedPayload`. Bytes after the name are ignored."""
    if len(payload) < _AUTH.size:
        raise MalformedPayload(f"Auth: payload of {len(payload)} bytes, at least {_AUTH.size} expected")
    key = _AUTH.unpack_from(payload)[0]
    name, _ = _take_name(payload, _AUTH.size - _U32.size, "Auth: client name")
    return Auth(key, name)


def encode_identity(identity: Identity) -> bytes:
    """Return the payload of a reply to Auth."""
    return _AUTH_REPLY.pack(*identity)


def parse_identity(payload: bytes) -> Identity:
    """Parse the payload of a reply to Auth; raises `RelayError` (protocol)."""
    if len(payload) != _AUTH_REPLY.size:
        raise _protocol_error(f"the reply to Auth has {len(payload)} bytes instead of {_AUTH_REPLY.size}")
    return Identity(*_AUTH_REPLY.unpack(payload))


def encode_filter(wanted: TableFilter) -> bytes:
    """Return the payload of AddFilter, and of each filter in a reply to ListFilters."""
    return (
        _FILTER.pack(wanted.kinds, wanted.discard, wanted.limit)
        + _encode_name(wanted.schema)
        + _encode_name(wanted.table)
    )


def parse_filter(payload: bytes) -> TableFilter:
    """Parse the payload of AddFilter; raises `MalformedPayload`. Bytes after the table are ignored.

    Unknown kinds are ignored; unknown discard types become `Discard.NEWEST`; a limit with the highest bit means no
    limit.
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
    """Return the payload of RemoveFilter."""
    return bytes((name.kinds,)) + _encode_name(name.schema) + _encode_name(name.table)


def parse_filter_name(payload: bytes) -> FilterName:
    """Parse the payload of RemoveFilter; raises `MalformedPayload`."""
    if not payload:
        raise MalformedPayload("RemoveFilter: empty payload")
    schema, table, end = _take_table(payload, 1, "RemoveFilter")
    if end != len(payload):
        raise MalformedPayload(f"RemoveFilter: {len(payload) - end} bytes too many")
    return FilterName(payload[0] & ALL_KINDS, schema, table)


def encode_count(count: int) -> bytes:
    """Return the payload of a reply to RemoveFilter: how many filters were removed."""
    return _U32.pack(count)


def encode_filters(filters: Iterable[TableFilter]) -> bytes:
    """Return the payload of a reply to ListFilters."""
    parts = [encode_filter(each) for each in filters]
    return _U32.pack(len(parts)) + b"".join(parts)


def parse_filters(payload: bytes) -> list[TableFilter]:
    """Parse the payload of a reply to ListFilters; raises `RelayError` (protocol)."""
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
    """Return the payload of PollMany."""
    return _POLL_MANY.pack(*request)


def parse_streams(payload: bytes) -> list[memoryview]:
    """Return the Arrow streams in a reply to PollMany in format 2. Raises `RelayError` (protocol)."""
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


def _encode_name(name: str) -> bytes:
    raw = name.encode() + b"\0"
    return _U32.pack(len(raw)) + raw


def _take_name(payload: bytes, offset: int, what: str) -> tuple[str, int]:
    """Return the name at `offset`, behind its length, and the offset after it."""
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
    """Return schema and table at `offset`, and the offset after them."""
    schema, offset = _take_name(payload, offset, f"{what}: schema")
    table, offset = _take_name(payload, offset, f"{what}: table")
    return schema, table, offset


def _protocol_error(cause: str) -> RelayError:
    return RelayError(ErrorCode.PROTOCOL, "read reply", cause)
