"""The client library: typed rows of a relay, at least once, in order.

    with RelayClient("127.0.0.1", 6001, "my-cache", "secret") as client:
        client.add_filter("shop", "orders")
        for row in client:
            print(row.kind, row.table, row.after)

A client is identified by its name: its filters and its queue are kept by the relay and survive disconnects. A row is
confirmed by asking for more, or by leaving the `with` block without an exception; unconfirmed rows come again.
"""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from relay.base.errors import ErrorCode, RelayError
from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, Discard, FilterName, Format, Kind, Reply, Result, TableFilter

if TYPE_CHECKING:
    import pyarrow

try:
    from msgspec import DecodeError, Struct
    from msgspec.msgpack import Decoder
except ModuleNotFoundError:  # the client needs nothing but the standard library
    from relay.protocol.msgpack import DecodeError, Decoder, Struct  # type: ignore[assignment]

BATCH_ROWS: Final = 1000
"""The number of rows that an iteration fetches at a time."""

ITERATION_WAIT: Final = 30.0
"""The seconds that an iteration waits for rows in one request."""

_RECEIVE_BYTES: Final = 1 << 18
_MAX_AUTH_REPLY: Final = 1 << 16
_RETRY_SECONDS: Final = (0.05, 2.0)  # the first pause between attempts to connect, and the longest
_LETTERS: Final = {"I": Kind.INSERT, "U": Kind.UPDATE, "D": Kind.DELETE}
_NAMES: Final[dict[int, Literal["insert", "update", "delete"]]] = {1: "insert", 2: "update", 4: "delete"}


T = TypeVar("T")


class Row(Struct, frozen=True, array_like=True, gc=False):
    """A changed row.

    `before` is None for an insert, `after` for a delete; both map column names to values: None for NULL, int for
    integers and YEAR, float for FLOAT and DOUBLE, bytes for binary strings and BIT, and str for all others, as the
    server prints it. `sequence` rises with each row of this client: a row that comes twice has the same. The meaning of
    `position` depends on EventPosition in the relay's configuration; `instance` changes when the table's definition
    does.
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


_decode_rows: Final = Decoder(list[Row]).decode


class RelayClient:
    """A connection of one client name. Not thread-safe.

    `timeout` is in seconds, for connecting and for a reply. `patience` is the number of seconds for which a call tries
    to reopen a lost connection before it fails (0: not at all). `tls` is necessary if the relay's port uses TLS. Every
    method raises `RelayError`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        name: str,
        secret: str,
        *,
        timeout: float = 10.0,
        patience: float = 60.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._name = name
        self._key = classic_keys.fnv1a64(secret.encode("utf-8", "surrogateescape"))
        self._timeout = timeout
        self._patience = patience
        self._tls = tls
        self._socket: socket.socket | None = None
        self._replies = classic.ReplyParser()
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._client_id = 0
        self._token = 0
        self._returned = 0  # sequence of the last row returned to the user
        self._confirmed = 0  # sequence of the last row confirmed to the relay

    def __enter__(self) -> Self:
        """Connect and authenticate."""
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Confirm all received rows, unless there was an exception, and close the connection."""
        try:
            if kind is None:
                self.confirm()
        finally:
            self.close()

    def connect(self) -> None:
        """Connect and authenticate, in one attempt. Does nothing if connected."""
        if self._socket is None:
            self._retrying(self._open, 0.0)

    def close(self) -> None:
        """Close the connection. The last rows are not confirmed; call `confirm` first to confirm them."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def client_id(self) -> int:
        """The relay's number for this client's name, 0 before the first connection."""
        return self._client_id

    def ping(self) -> None:
        """Return if the relay replies."""
        self._call(Command.PING)

    def add_filter(
        self,
        schema: str,
        table: str = "*",
        *,
        kinds: str | int = classic.ALL_KINDS,
        limit: int = 0,
        discard: Discard = Discard.NEWEST,
    ) -> None:
        """Ask for the rows of schema.table from now on; `*` matches all.

        `kinds` are letters of "IUD", or the sum of 1 insert, 2 update, 4 delete. With a `limit`, rows are dropped while
        so many wait: the oldest or the newest. A call with the same kinds, schema and table replaces limit and discard.
        """
        wanted = TableFilter(_kinds(kinds), discard, limit, schema, table)
        self._call(Command.ADD_FILTER, classic.encode_filter(wanted))

    def remove_filter(self, schema: str, table: str = "*", *, kinds: str | int = 0) -> int:
        """Remove the filters on schema.table with exactly these kinds, or with any (0). Returns how many there were."""
        name = FilterName(_kinds(kinds), schema, table)
        reply = self._call(Command.REMOVE_FILTER, classic.encode_filter_name(name))
        return int.from_bytes(reply.payload, "little")

    def filters(self) -> list[TableFilter]:
        """Return the filters of this client."""
        return classic.parse_filters(self._call(Command.LIST_FILTERS).payload)

    def poll(self, wait: float = 0.0) -> Row | None:
        """Return the next row, waiting up to `wait` seconds for one. Confirm everything received before."""
        rows = self.poll_many(1, wait)
        return rows[0] if rows else None

    def poll_many(self, max_rows: int = BATCH_ROWS, wait: float = 0.0, *, max_bytes: int = 0) -> list[Row]:
        """Return the next rows, at least one unless `wait` seconds have passed. Confirm everything received before.

        `max_bytes` limits the reply, except its first row; 0 leaves the limit to the relay.
        """
        rows = self._rows(max_rows, wait, max_bytes)
        if rows:
            self._returned = rows[-1].sequence
        return rows

    def poll_arrow(
        self, max_rows: int = BATCH_ROWS, wait: float = 0.0, *, max_bytes: int = 0
    ) -> list[pyarrow.RecordBatch]:
        """Return the next rows as columns, otherwise like `poll_many`; empty if `wait` seconds have passed.

        One record batch for each table, or two if its definition has changed, in the order of their first rows;
        docs/protocol.md has their columns. Metadata of their schemas: schema, table, instance. Requires pyarrow, here
        and at the relay.
        """
        try:
            from pyarrow import ArrowException, ipc
        except ImportError as error:
            hint = "pip install 'binlog-relay[arrow]'"
            raise RelayError(ErrorCode.ENVIRONMENT, "poll", "pyarrow is not installed", hint=hint) from error
        payload = self._fetch(max_rows, wait, max_bytes, Format.ARROW)
        try:
            batches = [batch for stream in classic.parse_streams(payload) for batch in ipc.open_stream(stream)]
        except ArrowException as error:
            raise self._failure("read rows", f"the relay sent columns that cannot be read: {error}") from error
        if batches:
            self._returned = max(batch.column(0)[-1].as_py() for batch in batches)
        return batches

    def confirm(self) -> None:
        """Confirm everything received: it will not come again."""
        if self._returned != self._confirmed:
            self._fetch(0, 0.0, 0, Format.MSGPACK)

    def __iter__(self) -> Iterator[Row]:
        """Yield rows without end, as they come. A row is confirmed some time after the next one is requested."""
        while True:
            for row in self._rows(BATCH_ROWS, ITERATION_WAIT, 0):
                self._returned = row.sequence
                yield row

    def _rows(self, max_rows: int, wait: float, max_bytes: int) -> list[Row]:
        payload = self._fetch(max_rows, wait, max_bytes, Format.MSGPACK)
        count = int.from_bytes(payload[:4], "little")
        try:
            return _decode_rows(b"\xdd" + count.to_bytes(4, "big") + payload[4:])
        except DecodeError as error:
            raise self._failure("read rows", f"the relay sent rows that cannot be read: {error}") from None

    def _fetch(self, max_rows: int, wait: float, max_bytes: int, form: Format) -> bytes:
        confirmed = self._returned
        request = classic.PollMany(max_rows, max_bytes, int(wait * 1000), confirmed, form)
        payload = self._call(Command.POLL_MANY, classic.encode_poll_many(request), wait).payload
        self._confirmed = confirmed
        return payload

    def _call(self, command: Command, payload: bytes = b"", wait: float = 0.0) -> Reply:
        """Send a request and return its reply; after a loss of the connection, again on a new one.

        That is harmless: every command has the same effect when it is carried out twice.
        """
        reply = self._retrying(lambda: self._exchange(command, payload, wait), self._patience)
        if reply.result == Result.ERROR:
            raise self._failure(command.name.lower(), reply.text, hint="the relay refused the request")
        if reply.result == Result.DISCONNECTED:
            self.close()
            raise self._failure(
                command.name.lower(),
                "the relay closed the connection",
                hint="another client may use the name, or an administrator kicked or forgot it",
            )
        return reply

    def _retrying(self, attempt: Callable[[], T], patience: float) -> T:
        """Return the result of `attempt`, which is repeated while connections fail and patience lasts."""
        until = time.monotonic() + patience
        pause, longest = _RETRY_SECONDS
        while True:
            try:
                return attempt()
            except OSError as error:
                self.close()
                if time.monotonic() + pause >= until:
                    raise RelayError(
                        ErrorCode.NOT_RUNNING,
                        "connect",
                        error,
                        position=f"{self._host}:{self._port}",
                        hint="check that the relay runs, and check host and port",
                    ) from error
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, longest)

    def _open(self) -> None:
        connection = socket.create_connection((self._host, self._port), self._timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=self._host)
            self._replies = classic.ReplyParser(_MAX_AUTH_REPLY)  # detect early if the other side is not a relay
            connection.sendall(classic.encode_request(Command.AUTH, classic.encode_auth(self._key, self._name)))
            reply = self._receive(connection)
            if reply.result != Result.OK:
                raise self._refused(reply)
            identity = classic.parse_identity(reply.payload)
        except BaseException:
            connection.close()
            raise
        self._client_id, self._token = identity.client_id, identity.token
        self._replies = classic.ReplyParser()
        self._socket = connection

    def _refused(self, reply: Reply) -> RelayError:
        if len(reply.payload) == len(classic.encode_identity(classic.Identity(0, 0, 0))) and b"\0" in reply.payload[8:]:
            return RelayError(ErrorCode.LOGIN_REFUSED, "authenticate", "wrong secret", position=self._name)
        return self._failure("authenticate", reply.text or "refused")

    def _exchange(self, command: Command, payload: bytes, wait: float) -> Reply:
        if self._socket is None:
            self._open()
        assert self._socket is not None
        self._socket.settimeout(self._timeout + wait)
        self._socket.sendall(classic.encode_request(command, payload, client_id=self._client_id, token=self._token))
        return self._receive(self._socket)

    def _receive(self, connection: socket.socket) -> Reply:
        while (reply := self._replies.next()) is None:
            count = connection.recv_into(self._buffer)
            if count == 0:
                raise ConnectionResetError("the relay closed the connection")
            self._replies.feed(self._buffer[:count])
        return reply

    def _failure(self, operation: str, cause: str, hint: str = "") -> RelayError:
        return RelayError(ErrorCode.PROTOCOL, operation, cause, position=self._name, hint=hint)


def _kinds(kinds: str | int) -> int:
    if isinstance(kinds, int):
        return kinds
    try:
        return sum({_LETTERS[letter] for letter in kinds.upper()})
    except KeyError:
        raise RelayError(ErrorCode.USAGE, "add filter", f"{kinds!r} is not a combination of I, U and D") from None
