"""A connection to the CDC port: performs the actions of its session, and sends its stream at the client's pace."""

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

from relay.base.errors import ErrorCode, RelayError, printable
from relay.base.log import Log
from relay.cdc.pace import Turns
from relay.cdc.stream import Stream
from relay.protocol.cdc_messages import Request
from relay.protocol.cdc_session import Action, Check, Close, Last, Send, Session, Transaction
from relay.protocol.cdc_states import State
from relay.runtime.process_status import CDCStream

CLOSE_SECONDS: Final = 5.0
"""The longest time for sent data to leave before a connection is closed."""

_UNSENT: Final = 16 << 10  # bytes beyond the socket's buffer; messages of TLS itself must be smaller
_SHOWN: Final = 100  # characters of a client's uuid
_POLL_SECONDS: Final = 0.02
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: close at once, with a RST


class Owner(Protocol):
    """The part of the service that a connection uses."""

    connections: set[Connection]
    turns: Turns
    waiting: asyncio.Event
    buffer: memoryview  # all connections receive into it; TLS does so in parts
    command_gap: float
    log: Log
    sent_rows: int
    sent_bytes: int

    @property
    def position(self) -> int:
        """The position of the journal up to which streams may read."""

    def admit(self, connection: Connection, login: Check) -> None:
        """Admit or reject the user, now or later."""

    def find(self, connection: Connection, request: Request) -> None:
        """Answer the request, now or later."""

    def find_transaction(self, connection: Connection, question: Last | Transaction) -> None:
        """Answer a question about a transaction, now or later."""

    def stream(self, connection: Connection, request: Request) -> Stream:
        """Create the requested stream; from now on the connection is woken when there are rows for it."""

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""


class Connection(asyncio.BufferedProtocol):
    """A client's connection. At most one turn of rows is in memory; later rows stay in the journal."""

    def __init__(self, service: Owner, address: str, port: int) -> None:
        self.session = Session(service.command_gap)
        self.address = address
        self._port = port
        self.stream: Stream | None = None
        self.queued = False  # waits for a turn
        self._service = service
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None  # for the session's patience
        self._close_timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._closing = False
        self._actions: deque[Action] = deque()  # not performed yet; actions that follow from one are appended
        self._performing = False
        self._since = time.time()
        self._sent = 0

    # -- called by the event loop --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, after its TLS handshake if it has one."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_UNSENT, low=0)
        self._service.connections.add(self)
        self._start_timer()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the client's data: small, so that other connections get their turn."""
        return self._service.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Process `nbytes` received from the client."""
        self.perform(self.session.feed(bytes(self._service.buffer[:nbytes])))

    def eof_received(self) -> bool:
        """Process the end of the client's data. Its earlier messages are answered."""
        self.perform(self.session.eof())
        assert self._transport is not None
        return self._transport.get_extra_info("sslcontext") is None  # TLS cannot be closed on one side only

    def pause_writing(self) -> None:
        """Stop reading and sending: the client does not read its data."""
        self._paused = True
        if self._transport and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading and sending: the client has read its data."""
        self._paused = False
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()
        self.queue_turn()

    def connection_lost(self, error: Exception | None) -> None:
        """Clean up a closed connection."""
        self._closing = True
        self._stop_timer()
        if self._close_timer:
            self._close_timer.cancel()
        self._service.forget(self)
        self.session.eof()

    # -- called by the service --

    def perform(self, actions: list[Action]) -> None:
        """Perform actions of the session, and those that follow from them."""
        self._actions += actions
        if self._performing:
            return
        self._performing = True
        try:
            while self._actions:
                self._do(self._actions.popleft())
        finally:
            self._performing = False
        self._start_timer()

    def start(self, request: Request) -> None:
        """Start the stream of a requested table that now exists, if the client still waits for it."""
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
        self.queue_turn()

    def wake(self, before: int) -> None:
        """Wake the stream: there may be rows for it, all of them behind `before` in the journal."""
        if not self.stream:
            return
        try:
            self.stream.wake(before)
        except Exception as error:
            self.fail(error)
            return
        self.queue_turn()

    def queue_turn(self) -> None:
        """Queue another turn, if the stream is not caught up and the client reads."""
        if self.stream and not self.queued and not self._paused and not self._closing and not self.stream.caught_up:
            self.queued = True
            self._service.turns.add(self)
            self._service.waiting.set()

    def lag(self) -> int:
        """Bytes of the journal that the stream has yet to read."""
        return self._service.position - self.stream.position if self.stream else 0

    def turn(self) -> None:
        """Send the next rows."""
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
        self.queue_turn()

    def fail(self, error: Exception) -> None:
        """End the session with an error: its request cannot be fulfilled. No other connection is affected."""
        named = error if isinstance(error, RelayError) else RelayError(ErrorCode.UNEXPECTED, "send rows", repr(error))
        self._service.log(
            "cdc_stream_failed", client=self.session.user, peer=self.address, code=named.code, error=named
        )
        self.perform(self.session.failed(named.cause))

    def close(self, *, reset: bool) -> None:
        """Close when sent data has left, or after CLOSE_SECONDS. `reset` sends a RST, which some clients need."""
        if self._closing or not self._transport:
            return
        self._closing = True
        self._stop_timer()
        if reset:
            self._reset(asyncio.get_running_loop().time() + CLOSE_SECONDS)
            return
        self._transport.close()
        self._close_timer = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._transport.abort)

    def abort(self) -> None:
        """Close at once."""
        if self._transport:
            self._abort(self._transport.get_extra_info("socket"))

    def status(self) -> CDCStream:
        """Return the connection's entry in the status."""
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
            lag_bytes=max(0, self.lag()) if stream and not stream.caught_up else 0,
            rows=stream.rows if stream else 0,
            bytes=self._sent,
            since=self._since,
        )

    # -- internal --

    def _do(self, action: Action) -> None:
        match action:
            case Send():
                self._write(action.data)
            case Check():
                self._service.admit(self, action)
            case Request():
                self._service.find(self, action)
            case Last() | Transaction():
                self._service.find_transaction(self, action)
            case Close():
                self.close(reset=action.reset)

    def _write(self, data: bytes) -> None:
        if self._transport and not self._transport.is_closing():
            self._sent += len(data)
            self._service.sent_bytes += len(data)
            self._transport.write(data)

    def _start_timer(self) -> None:
        patience = self.session.patience
        if self._timer and patience is not None and self.session.state is State.WAIT_AUTH:
            return  # the time for credentials is one limit, however many pieces they come in
        self._stop_timer()
        if patience is not None and not self._closing:
            self._timer = asyncio.get_running_loop().call_later(patience, self._on_silence)

    def _on_silence(self) -> None:
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
            self._close_timer = loop.call_later(_POLL_SECONDS, self._reset, until)
            return
        self._abort(sock)

    def _abort(self, sock: socket.socket) -> None:
        assert self._transport is not None
        with suppress(OSError):  # it may be closed
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()


def _unsent(sock: socket.socket) -> int:
    """Bytes that the client's host has not acknowledged."""
    try:
        return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), "little")
    except OSError:
        return 0
