"""What both clients share: the calls of a client, their requests, and what the replies mean. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from relay.base.errors import ErrorCode, RelayError
from relay.protocol import classic, classic_keys, debezium, extensions
from relay.protocol.classic import Command, Discard, FilterName, Format, Kind, Reply, Result, TableFilter

if TYPE_CHECKING:
    import pyarrow

try:
    from msgspec import DecodeError, Struct
    from msgspec.msgpack import Decoder
except ModuleNotFoundError:  # the client needs nothing but the standard library
    from relay.protocol.msgpack import DecodeError, Decoder, Struct  # type: ignore[assignment]

BATCH_ROWS: Final = 2000
"""The number of rows that an iteration fetches at a time."""

ITERATION_WAIT: Final = 30.0
"""The seconds that an iteration waits for rows in one request."""

RECEIVE_BYTES: Final = 1 << 18
"""The bytes that a client reads from its connection at a time."""

_MAX_AUTH_REPLY: Final = 1 << 16
_LETTERS: Final = {"I": Kind.INSERT, "U": Kind.UPDATE, "D": Kind.DELETE}
Values: TypeAlias = Literal["msgpack", "python"]
"""What values of rows are: of the types that MessagePack has, or of Python's (docs/python-client.md)."""

_NAMES: Final[dict[int, Literal["insert", "update", "delete"]]] = {1: "insert", 2: "update", 4: "delete"}


T = TypeVar("T")


class Row(Struct, frozen=True, array_like=True, gc=False):
    """A changed row.

    `before` is None for an insert, `after` for a delete; both map column names to values: None for NULL, int for
    integers and YEAR, float for FLOAT and DOUBLE, bytes for binary strings and BIT, and str for all others, as the
    server prints it. With `values="python"` DECIMAL, dates, times, SET and JSON are objects (docs/python-client.md).
    `sequence` rises with each row of this client: a row that comes twice has the same. The meaning of `position`
    depends on EventPosition in the relay's configuration; `instance` changes when the table's definition does.
    """

    sequence: int
    code: int  # of the kind: 1 insert, 2 update, 4 delete
    position: int
    schema: str
    table: str
    instance: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @property
    def kind(self) -> Literal["insert", "update", "delete"]:
        """The kind of change."""
        return _NAMES[self.code]

    def debezium(self, name: str = "relay") -> dict[str, Any]:
        """Return the row in Debezium's envelope. The client needs `values="python"`; `name` is that of the source."""
        source = {"name": name, "db": self.schema, "table": self.table, "sequence": str(self.sequence)}
        return debezium.envelope(self.before, self.after, source, time.time_ns() // 1_000_000)


_FORMATS: Final[dict[Values, Format]] = {"msgpack": Format.MSGPACK, "python": Format.EXTENDED}
_decode_rows: Final = Decoder(list[Row], ext_hook=extensions.value_of).decode


class Call(NamedTuple, Generic[T]):
    """A request, the seconds that the relay may wait before it replies, and what makes the result of the reply.

    It may be sent again on a new connection: every command has the same effect when it is carried out twice.
    """

    command: Command
    payload: bytes
    wait: float
    result: Callable[[bytes], T]


class Session:
    """A client's name and secret, its login on the present connection, and the last row that it has received."""

    def __init__(self, name: str, secret: str, values: Values) -> None:
        """Raise `RelayError` (usage) if there are no such `values`."""
        if values not in _FORMATS:
            raise RelayError(ErrorCode.USAGE, "make a client", f"values = {values!r} is neither 'msgpack' nor 'python'")
        self.name = name
        self._format = _FORMATS[values]
        self.client_id = 0
        self.returned = 0  # sequence of the last row that the user has
        self._confirmed = 0  # sequence of the last row that is confirmed to the relay
        self._key = classic_keys.fnv1a64(secret.encode("utf-8", "surrogateescape"))
        self._token = 0

    def auth(self) -> bytes:
        """Return the first request of a connection."""
        return classic.encode_request(Command.AUTH, classic.encode_auth(self._key, self.name))

    def log_in(self, reply: Reply) -> None:
        """Take the reply to the first request. Raises `RelayError` if the relay refuses."""
        if reply.result != Result.OK:
            raise self._refused(reply)
        identity = classic.parse_identity(reply.payload)
        self.client_id, self._token = identity.client_id, identity.token

    def request(self, call: Call[Any]) -> bytes:
        """Return the request of a call on the present connection."""
        return classic.encode_request(call.command, call.payload, client_id=self.client_id, token=self._token)

    def result(self, call: Call[T], reply: Reply) -> T:
        """Return the result of a call. Raises `RelayError` if the relay refuses, or has closed the connection."""
        operation = call.command.name.lower()
        if reply.result == Result.ERROR:
            raise self._failure(operation, reply.text, hint="the relay refused the request")
        if reply.result == Result.DISCONNECTED:
            hint = "another client may use the name, or an administrator kicked or forgot it"
            raise self._failure(operation, "the relay closed the connection", hint=hint)
        return call.result(reply.payload)

    def closed(self, call: Call[Any]) -> RelayError:
        """Return the failure of a call whose connection the program has closed."""
        return self._failure(call.command.name.lower(), "the program closed the client")

    def ping(self) -> Call[None]:
        """Ask for a reply."""
        return Call(Command.PING, b"", 0.0, _nothing)

    def add_filter(self, schema: str, table: str, kinds: str | int, limit: int, discard: Discard) -> Call[None]:
        """Ask for the rows of a table."""
        wanted = TableFilter(_kinds(kinds), discard, limit, schema, table)
        return Call(Command.ADD_FILTER, classic.encode_filter(wanted), 0.0, _nothing)

    def remove_filter(self, schema: str, table: str, kinds: str | int) -> Call[int]:
        """Remove filters; the result is their number."""
        name = classic.encode_filter_name(FilterName(_kinds(kinds), schema, table))
        return Call(Command.REMOVE_FILTER, name, 0.0, lambda payload: int.from_bytes(payload, "little"))

    def filters(self) -> Call[list[TableFilter]]:
        """Ask for the filters."""
        return Call(Command.LIST_FILTERS, b"", 0.0, classic.parse_filters)

    def rows(self, max_rows: int, wait: float, max_bytes: int) -> Call[list[Row]]:
        """Confirm what has been received, and ask for the next rows."""

        def result(payload: bytes) -> list[Row]:
            count, rows = int.from_bytes(payload[:4], "little"), memoryview(payload)[4:]
            try:
                return _decode_rows(b"".join((b"\xdd", count.to_bytes(4, "big"), rows)))
            except (DecodeError, ValueError) as error:
                raise self._failure("read rows", f"the relay sent rows that cannot be read: {error}") from None

        return self._poll(max_rows, wait, max_bytes, self._format, result)

    def columns(self, max_rows: int, wait: float, max_bytes: int) -> Call[list[pyarrow.RecordBatch]]:
        """Confirm what has been received, and ask for the next rows as columns."""
        try:
            from pyarrow import ArrowException, ipc
        except ImportError as error:
            hint = "pip install 'binlog-relay[arrow]'"
            raise RelayError(ErrorCode.ENVIRONMENT, "poll", "pyarrow is not installed", hint=hint) from error

        def result(payload: bytes) -> list[pyarrow.RecordBatch]:
            try:
                return [batch for stream in classic.parse_streams(payload) for batch in ipc.open_stream(stream)]
            except ArrowException as error:
                raise self._failure("read rows", f"the relay sent columns that cannot be read: {error}") from error

        return self._poll(max_rows, wait, max_bytes, Format.ARROW, result)

    @property
    def unconfirmed(self) -> bool:
        """Whether something that has been received is not confirmed."""
        return self.returned != self._confirmed

    def confirm(self) -> Call[None]:
        """Confirm what has been received."""
        return self._poll(0, 0.0, 0, Format.MSGPACK, _nothing)

    def receive(self, rows: list[Row]) -> list[Row]:
        """Return these rows, which the user has from now on."""
        if rows:
            self.returned = rows[-1].sequence
        return rows

    def receive_columns(self, batches: list[pyarrow.RecordBatch]) -> list[pyarrow.RecordBatch]:
        """Return these batches, whose rows the user has from now on."""
        if batches:
            self.returned = max(batch.column(0)[-1].as_py() for batch in batches)
        return batches

    def _poll(self, max_rows: int, wait: float, max_bytes: int, form: Format, read: Callable[[bytes], T]) -> Call[T]:
        request = classic.PollMany(max_rows, max_bytes, int(wait * 1000), self.returned, form)

        def result(payload: bytes) -> T:
            self._confirmed = request.confirmed
            return read(payload)

        return Call(Command.POLL_MANY, classic.encode_poll_many(request), wait, result)

    def _refused(self, reply: Reply) -> RelayError:
        if len(reply.payload) == len(classic.encode_identity(classic.Identity(0, 0, 0))) and b"\0" in reply.payload[8:]:
            return RelayError(ErrorCode.LOGIN_REFUSED, "authenticate", "wrong secret", position=self.name)
        return self._failure("authenticate", reply.text or "refused")

    def _failure(self, operation: str, cause: str, hint: str = "") -> RelayError:
        return RelayError(ErrorCode.PROTOCOL, operation, cause, position=self.name, hint=hint)


def login_parser() -> classic.ReplyParser:
    """Return a parser of the first reply, which detects early if the other side is not a relay."""
    return classic.ReplyParser(_MAX_AUTH_REPLY)


def unreachable(host: str, port: int, error: OSError) -> RelayError:
    """Return the failure of the last attempt to connect."""
    hint = "check that the relay runs, and check host and port"
    return RelayError(ErrorCode.NOT_RUNNING, "connect", error, position=f"{host}:{port}", hint=hint)


def _nothing(_: bytes) -> None:
    """Return the result of a call that has none."""


def _kinds(kinds: str | int) -> int:
    if isinstance(kinds, int):
        return kinds
    try:
        return sum({_LETTERS[letter] for letter in kinds.upper()})
    except KeyError:
        raise RelayError(ErrorCode.USAGE, "add filter", f"{kinds!r} is not a combination of I, U and D") from None
