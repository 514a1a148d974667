"""The client that blocks."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from relay.base.retrying import pauses
from relay.client.session import (
    BATCH_ROWS,
    ITERATION_WAIT,
    RECEIVE_BYTES,
    Call,
    Row,
    Session,
    Values,
    login_parser,
    unreachable,
)
from relay.protocol import classic
from relay.protocol.classic import Discard, Reply, Result, TableFilter

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")


class RelayClient:
    """A connection of one client name. Not thread-safe.

    `timeout` is in seconds, for connecting and for a reply. `patience` is the number of seconds for which a call tries
    to reopen a lost connection before it fails (0: not at all). `tls` is necessary if the relay's port uses TLS.
    `values` are of the types that MessagePack has, or with "python" of Python's (`Row`). Every method raises
    `RelayError`.
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
        values: Values = "msgpack",
    ) -> None:
        self._host = host
        self._port = port
        self._timeout = timeout
        self._patience = patience
        self._tls = tls
        self._session = Session(name, secret, values)
        self._socket: socket.socket | None = None
        self._replies = classic.ReplyParser()
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))

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
        return self._session.client_id

    def ping(self) -> None:
        """Return if the relay replies."""
        self._call(self._session.ping())

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
        self._call(self._session.add_filter(schema, table, kinds, limit, discard))

    def remove_filter(self, schema: str, table: str = "*", *, kinds: str | int = 0) -> int:
        """Remove the filters on schema.table with exactly these kinds, or with any (0). Returns how many there were."""
        return self._call(self._session.remove_filter(schema, table, kinds))

    def filters(self) -> list[TableFilter]:
        """Return the filters of this client."""
        return self._call(self._session.filters())

    def poll(self, wait: float = 0.0) -> Row | None:
        """Return the next row, waiting up to `wait` seconds for one. Confirm everything received before."""
        rows = self.poll_many(1, wait)
        return rows[0] if rows else None

    def poll_many(self, max_rows: int = BATCH_ROWS, wait: float = 0.0, *, max_bytes: int = 0) -> list[Row]:
        """Return the next rows, at least one unless `wait` seconds have passed. Confirm everything received before.

        `max_bytes` limits the reply, except its first row; 0 leaves the limit to the relay.
        """
        return self._session.receive(self._call(self._session.rows(max_rows, wait, max_bytes)))

    def poll_arrow(
        self, max_rows: int = BATCH_ROWS, wait: float = 0.0, *, max_bytes: int = 0
    ) -> list[pyarrow.RecordBatch]:
        """Return the next rows as columns, otherwise like `poll_many`; empty if `wait` seconds have passed.

        One record batch for each table, or two if its definition has changed, in the order of their first rows;
        docs/protocol.md has their columns. Metadata of their schemas: schema, table, instance. Requires pyarrow, here
        and at the relay.
        """
        return self._session.receive_columns(self._call(self._session.columns(max_rows, wait, max_bytes)))

    def confirm(self) -> None:
        """Confirm everything received: it will not come again."""
        if self._session.unconfirmed:
            self._call(self._session.confirm())

    def __iter__(self) -> Iterator[Row]:
        """Yield rows without end, as they come. A row is confirmed some time after the next one is requested."""
        while True:
            for row in self._call(self._session.rows(BATCH_ROWS, ITERATION_WAIT, 0)):
                self._session.returned = row.sequence
                yield row

    def batches(self, max_rows: int = BATCH_ROWS) -> Iterator[list[Row]]:
        """Yield rows without end, as they come, at least one and at most `max_rows` at a time.

        A request for the next batch confirms the batch before.
        """
        while True:
            if rows := self.poll_many(max_rows, ITERATION_WAIT):
                yield rows

    def _call(self, call: Call[T]) -> T:
        """Return the result of a call; after a loss of the connection, of the same on a new one."""
        reply = self._retrying(lambda: self._exchange(call), self._patience)
        if reply.result == Result.DISCONNECTED:
            self.close()
        return self._session.result(call, reply)

    def _retrying(self, attempt: Callable[[], T], patience: float) -> T:
        """Return the result of `attempt`, which is repeated while connections fail and patience lasts."""
        waits = pauses(patience)
        while True:
            try:
                return attempt()
            except OSError as error:
                self.close()
                if (pause := next(waits, None)) is None:
                    raise unreachable(self._host, self._port, error) from error
            time.sleep(pause)

    def _open(self) -> None:
        connection = socket.create_connection((self._host, self._port), self._timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=self._host)
            self._replies = login_parser()
            connection.sendall(self._session.auth())
            self._session.log_in(self._receive(connection))
        except BaseException:
            connection.close()
            raise
        self._replies = classic.ReplyParser()
        self._socket = connection

    def _exchange(self, call: Call[T]) -> Reply:
        if self._socket is None:
            self._open()
        assert self._socket is not None
        self._socket.settimeout(self._timeout + call.wait)
        self._socket.sendall(self._session.request(call))
        return self._receive(self._socket)

    def _receive(self, connection: socket.socket) -> Reply:
        while (reply := self._replies.next()) is None:
            count = connection.recv_into(self._buffer)
            if count == 0:
                raise ConnectionResetError("the relay closed the connection")
            self._replies.feed(self._buffer[:count])
        return reply
