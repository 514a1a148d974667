"""The client for asyncio."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
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


class AsyncRelayClient:
    """A connection of one client name, for the tasks of one event loop. Its calls follow one another.

    Parameters, methods and errors are those of `RelayClient`. Every `await` may be cancelled, also by a timeout: rows
    that a call has not returned come again. A call that is cancelled while it waits for a reply closes the connection,
    and the next call opens it again.
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
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._replies = classic.ReplyParser()
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Connect and authenticate."""
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Confirm all received rows, unless there was an exception, and close the connection."""
        try:
            if kind is None:
                await self.confirm()
        finally:
            self.close()

    async def connect(self) -> None:
        """Connect and authenticate, in one attempt. Does nothing if connected."""
        async with self._turn:
            if self._connection is None:
                await self._retrying(self._open, 0.0)

    def close(self) -> None:
        """Close the connection; a call that waits fails. The last rows are not confirmed: call `confirm` first."""
        if self._connection is not None:
            # Every request has its reply, or is given up: nothing is left to send.
            self._connection[1].transport.abort()
            self._connection = None

    @property
    def client_id(self) -> int:
        """The relay's number for this client's name, 0 before the first connection."""
        return self._session.client_id

    async def ping(self) -> None:
        """Return if the relay replies."""
        await self._call(self._session.ping)

    async def add_filter(
        self,
        schema: str,
        table: str = "*",
        *,
        kinds: str | int = classic.ALL_KINDS,
        limit: int = 0,
        discard: Discard = Discard.NEWEST,
    ) -> None:
        """Ask for the rows of schema.table from now on, as `RelayClient.add_filter`."""
        await self._call(lambda: self._session.add_filter(schema, table, kinds, limit, discard))

    async def remove_filter(self, schema: str, table: str = "*", *, kinds: str | int = 0) -> int:
        """Remove the filters on schema.table with exactly these kinds, or with any (0). Returns how many there were."""
        return await self._call(lambda: self._session.remove_filter(schema, table, kinds))

    async def filters(self) -> list[TableFilter]:
        """Return the filters of this client."""
        return await self._call(self._session.filters)

    async def poll(self, wait: float = 0.0) -> Row | None:
        """Return the next row, waiting up to `wait` seconds for one. Confirm everything received before."""
        rows = await self.poll_many(1, wait)
        return rows[0] if rows else None

    async def poll_many(self, max_rows: int = BATCH_ROWS, wait: float = 0.0, *, max_bytes: int = 0) -> list[Row]:
        """Return the next rows, as `RelayClient.poll_many`. Confirm everything received before."""
        return self._session.receive(await self._call(lambda: self._session.rows(max_rows, wait, max_bytes)))

    async def poll_arrow(
        self, max_rows: int = BATCH_ROWS, wait: float = 0.0, *, max_bytes: int = 0
    ) -> list[pyarrow.RecordBatch]:
        """Return the next rows as columns, as `RelayClient.poll_arrow`. Confirm everything received before."""
        columns = await self._call(lambda: self._session.columns(max_rows, wait, max_bytes))
        return self._session.receive_columns(columns)

    async def confirm(self) -> None:
        """Confirm everything received: it will not come again."""
        if self._session.unconfirmed:
            await self._call(self._session.confirm)

    async def __aiter__(self) -> AsyncIterator[Row]:
        """Yield rows without end, as they come. A row is confirmed some time after the next one is requested."""
        while True:
            for row in await self._call(lambda: self._session.rows(BATCH_ROWS, ITERATION_WAIT, 0)):
                self._session.returned = row.sequence
                yield row

    async def batches(self, max_rows: int = BATCH_ROWS) -> AsyncIterator[list[Row]]:
        """Yield rows without end, as they come, at least one and at most `max_rows` at a time.

        A request for the next batch confirms the batch before.
        """
        while True:
            if rows := await self.poll_many(max_rows, ITERATION_WAIT):
                yield rows

    async def _call(self, make: Callable[[], Call[T]]) -> T:
        """Return the result of a call; after a loss of the connection, of the same on a new one.

        `make` is called when it is this call's turn: what it confirms may have changed while it waited.
        """
        async with self._turn:
            call = make()
            reply = await self._retrying(lambda: self._exchange(call), self._patience)
            if reply.result == Result.DISCONNECTED:
                self.close()
            return self._session.result(call, reply)

    async def _retrying(self, attempt: Callable[[], Awaitable[T]], patience: float) -> T:
        """Return the result of `attempt`, which is repeated while connections fail and patience lasts."""
        waits = pauses(patience)
        while True:
            try:
                return await attempt()
            except OSError as error:
                if (pause := next(waits, None)) is None:
                    raise unreachable(self._host, self._port, error) from error
            await asyncio.sleep(pause)

    async def _open(self) -> None:
        name = self._host if self._tls is not None else None
        async with asyncio.timeout(self._timeout):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, limit=RECEIVE_BYTES, ssl=self._tls, server_hostname=name
            )
            try:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                self._replies = login_parser()
                writer.write(self._session.auth())
                self._session.log_in(await self._receive(reader))
            except BaseException:
                writer.transport.abort()
                raise
        self._replies = classic.ReplyParser()
        self._connection = reader, writer

    async def _exchange(self, call: Call[T]) -> Reply:
        if self._connection is None:
            await self._open()
        assert self._connection is not None
        reader, writer = self._connection
        try:
            async with asyncio.timeout(self._timeout + call.wait):
                writer.write(self._session.request(call))
                return await self._receive(reader)
        except BaseException as error:
            closed = self._connection is None
            self.close()  # the next call must not take a late reply for its own
            if closed and isinstance(error, OSError):
                raise self._session.closed(call) from error
            raise

    async def _receive(self, reader: asyncio.StreamReader) -> Reply:
        while (reply := self._replies.next()) is None:
            data = await reader.read(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("the relay closed the connection")
            self._replies.feed(data)
        return reply
