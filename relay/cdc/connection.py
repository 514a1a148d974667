"""One connection to the CDC port: what a session asks for is done here, and its stream is sent at the client's pace."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
import time
from collections import deque
from contextlib import suppress
from typing import Final, Protocol

from relay.board import CDCStream
from relay.cdc.pace import Turns
from relay.cdc.stream import Stream
from relay.errors import ErrorCode, RelayError, printable
from relay.log import Log
from relay.wire.cdc import Action, Check, Close, Last, Send, Session, Transaction
from relay.wire.cdcstates import State
from relay.wire.cdcwords import Request

CLOSE_SECONDS: Final = 5.0
"""That what was sent may take to leave before a connection is closed."""

_UNSENT: Final = 16 << 10  # bytes that do not fit into the socket's buffer; what TLS itself says has to be less
_SHOWN: Final = 100  # characters of what a client says of itself
_POLL_SECONDS: Final = 0.02
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: close at once, by a RST


class Owner(Protocol):
    """What a connection needs of the service."""

    connections: set[Connection]
    turns: Turns
    waiting: asyncio.Event
    buffer: memoryview  # what one of them is received into; TLS does so in parts
    command_gap: float
    log: Log
    sent_rows: int
    sent_bytes: int

    @property
    def position(self) -> int:
        """Of the journal, up to which streams may go."""

    def admit(self, connection: Connection, asked: Check) -> None:
        """Let the user in, or refuse it, now or later."""

    def find(self, connection: Connection, request: Request) -> None:
        """Answer the request, now or later."""

    def tell(self, connection: Connection, asked: Last | Transaction) -> None:
        """Answer what is asked about a transaction, now or later."""

    def stream(self, connection: Connection, request: Request) -> Stream:
        """The stream that was asked for, whose client is woken from now on when there are rows for it."""

    def forget(self, connection: Connection) -> None:
        """It is gone."""


class Connection(asyncio.BufferedProtocol):
    """A client. What it does not take stays in the journal: no more than a turn of its stream is in memory."""

    def __init__(self, service: Owner, address: str, port: int) -> None:
        self.session = Session(service.command_gap)
        self.address = address
        self._port = port
        self.stream: Stream | None = None
        self.queued = False  # waits for a turn
        self._service = service
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None  # of the session's patience
        self._end: asyncio.TimerHandle | None = None
        self._paused = False
        self._closing = False
        self._actions: deque[Action] = deque()  # to be done; what comes of one stands behind those before it
        self._acting = False
        self._since = time.time()
        self._sent = 0

    # -- what the event loop calls --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there, and its TLS, if any, speaks."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_UNSENT, low=0)
        self._service.connections.add(self)
        self._await_gap()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to receive what the client says: not much at a time, so that others have their turn."""
        return self._service.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """The client has said so much."""
        self.perform(self.session.feed(bytes(self._service.buffer[:nbytes])))

    def eof_received(self) -> bool:
        """The client says nothing more; what it said is answered."""
        self.perform(self.session.eof())
        assert self._transport is not None
        return self._transport.get_extra_info("sslcontext") is None  # of TLS only both sides end

    def pause_writing(self) -> None:
        """The client does not take what it was sent: nothing more is read for it, nor from it."""
        self._paused = True
        if self._transport and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It has taken it."""
        self._paused = False
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()
        self.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        self._closing = True
        self._stop_timer()
        if self._end:
            self._end.cancel()
        self._service.forget(self)
        self.session.eof()

    # -- what the service calls --

    def perform(self, actions: list[Action]) -> None:
        """Do what the session asks for, and what comes of that."""
        self._actions += actions
        if self._acting:
            return
        self._acting = True
        try:
            while self._actions:
                self._do(self._actions.popleft())
        finally:
            self._acting = False
        self._await_gap()

    def start(self, request: Request) -> None:
        """The requested table is there: its rows follow, if the client still waits for them."""
        if self.session.wanted != request:
            return
        self.perform(self.session.found())
        if self.session.state is not State.STREAMING:
            return
        try:
            self.stream = self._service.stream(self, request)
        except Exception as error:
            self.fail(error)
            return
        self.go_on()

    def wake(self, before: int) -> None:
        """There may be rows for it, all of them behind `before` in the journal."""
        if not self.stream:
            return
        try:
            self.stream.wake(before)
        except Exception as error:
            self.fail(error)
            return
        self.go_on()

    def go_on(self) -> None:
        """Have another turn, if there is something to send and the client takes it."""
        if self.stream and not self.queued and not self._paused and not self._closing and not self.stream.level:
            self.queued = True
            self._service.turns.add(self)
            self._service.waiting.set()

    def lag(self) -> int:
        """Bytes of the journal that its stream has before it."""
        return self._service.position - self.stream.position if self.stream else 0

    def turn(self) -> None:
        """Send what comes next."""
        self.queued = False
        if self._closing or self._paused or not self.stream:
            return
        before = self.stream.rows
        try:
            content = self.stream.turn()
        except Exception as error:
            self.fail(error)
            return
        self._service.sent_rows += self.stream.rows - before
        if content:
            self._write(content)
        self.go_on()

    def fail(self, error: Exception) -> None:
        """What was asked for cannot be had, or not any more; what ends this client, be it a defect, ends no other."""
        named = error if isinstance(error, RelayError) else RelayError(ErrorCode.UNEXPECTED, "send rows", repr(error))
        self._service.log(
            "cdc_stream_failed", client=self.session.user, peer=self.address, code=named.code, error=named
        )
        self.perform(self.session.failed(named.cause))

    def close(self, *, reset: bool) -> None:
        """End it once what was sent has left, or with a little patience; by a RST where clients need one."""
        if self._closing or not self._transport:
            return
        self._closing = True
        self._stop_timer()
        if reset:
            self._reset(asyncio.get_running_loop().time() + CLOSE_SECONDS)
            return
        self._transport.close()
        self._end = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._transport.abort)

    def abort(self) -> None:
        """End it at once."""
        if self._transport:
            self._abort(self._transport.get_extra_info("socket"))

    def shown(self) -> CDCStream:
        """What people may see of it."""
        stream, session = self.stream, self.session
        wanted = (session.wanted.schema, session.wanted.table) if session.wanted else ("", "")
        schema, table = stream.table if stream else wanted
        return CDCStream(
            user=printable(session.user),
            uuid=session.uuid[:_SHOWN],
            address=self.address,
            port=self._port,
            state=session.state.lower(),
            form=session.form.lower(),
            schema=schema,
            table=table,
            version=stream.version.number if stream and stream.version else 0,
            gtid=str(stream.gtid) if stream else "",
            position=stream.position if stream else 0,
            lag_bytes=max(0, self.lag()) if stream and not stream.level else 0,
            rows=stream.rows if stream else 0,
            bytes=self._sent,
            since=self._since,
        )

    # -- parts --

    def _do(self, action: Action) -> None:
        match action:
            case Send():
                self._write(action.data)
            case Check():
                self._service.admit(self, action)
            case Request():
                self._service.find(self, action)
            case Last() | Transaction():
                self._service.tell(self, action)
            case Close():
                self.close(reset=action.reset)

    def _write(self, data: bytes) -> None:
        if self._transport and not self._transport.is_closing():
            self._sent += len(data)
            self._service.sent_bytes += len(data)
            self._transport.write(data)

    def _await_gap(self) -> None:
        patience = self.session.patience
        if self._timer and patience is not None and self.session.state is State.WAIT_AUTH:
            return  # credentials have so long in all, however many pieces they come in
        self._stop_timer()
        if patience is not None and not self._closing:
            self._timer = asyncio.get_running_loop().call_later(patience, self._gap)

    def _gap(self) -> None:
        self._timer = None
        self.perform(self.session.gap())

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _reset(self, until: float) -> None:
        assert self._transport is not None
        sock: socket.socket = self._transport.get_extra_info("socket")
        loop = asyncio.get_running_loop()
        if loop.time() < until and (self._transport.get_write_buffer_size() or _unsent(sock)):
            self._end = loop.call_later(_POLL_SECONDS, self._reset, until)
            return
        self._abort(sock)

    def _abort(self, sock: socket.socket) -> None:
        assert self._transport is not None
        with suppress(OSError):  # it may be closed
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()


def _unsent(sock: socket.socket) -> int:
    """Bytes that the other end has not acknowledged."""
    try:
        return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), "little")
    except OSError:
        return 0
