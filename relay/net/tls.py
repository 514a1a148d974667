"""TLS for the classic port: a bridge between a client's encrypted socket and an ordinary unencrypted one."""

from __future__ import annotations

import select
import socket
import ssl
from typing import Final

from relay.base.errors import ErrorCode, RelayError
from relay.config.tree import ServerConfig

CLIENT_HELLO: Final = 0x16
"""First byte of a TLS connection; no command of the classic protocol begins with it."""

_CHUNK: Final = 1 << 16
_HIGH_WATER: Final = 1 << 18


def server_context(mode: str, config: ServerConfig) -> ssl.SSLContext | None:
    """Return the TLS context of a port with this `mode`; None if TLS is off. Raises `RelayError` (config)."""
    if mode == "off":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise RelayError(
            ErrorCode.CONFIG, "load certificate", error, position=config.tls_cert, hint="correct TLSCert and TLSKey"
        ) from None
    return context


class Bridge:
    """Decrypt from `outer` to `inner` and encrypt in the other direction.

    Neither buffer grows while its receiver is not reading.
    """

    def __init__(self, outer: socket.socket, inner: socket.socket, context: ssl.SSLContext) -> None:
        self.outer = outer
        self.inner = inner
        self._from_outer = ssl.MemoryBIO()
        self._to_outer = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_outer, self._to_outer, server_side=True)
        self._handshake_done = False
        self._encrypted = bytearray()  # for outer
        self._plain = bytearray()  # for inner
        self._outer_eof = False
        self._inner_eof = False
        self.failure = ""

    def events(self) -> tuple[int, int]:
        """Return the epoll events to wait for, on outer and on inner."""
        outer = inner = 0
        if not self._outer_eof and len(self._plain) < _HIGH_WATER:
            outer |= select.EPOLLIN
        if self._encrypted:
            outer |= select.EPOLLOUT
        if self._handshake_done and not self._inner_eof and len(self._encrypted) < _HIGH_WATER:
            inner |= select.EPOLLIN
        if self._plain:
            inner |= select.EPOLLOUT
        return outer, inner

    def pump(self) -> bool:
        """Move all available data. False when the connection has ended."""
        try:
            self._receive()
            self._flush()
        except (OSError, ssl.SSLError) as error:
            self.failure = getattr(error, "reason", None) or str(error)
            self._flush_alert()
            return False
        return not ((self._inner_eof and not self._encrypted) or (self._outer_eof and self._inner_eof))

    def close(self) -> None:
        """Close both sockets."""
        self.outer.close()
        self.inner.close()

    def _receive(self) -> None:
        if not self._outer_eof and len(self._plain) < _HIGH_WATER:
            data = _receive_some(self.outer)
            if data == b"":
                self._outer_eof = True
                self._from_outer.write_eof()
            elif data:
                self._from_outer.write(data)
        if not self._handshake_done:
            try:
                self._tls.do_handshake()
                self._handshake_done = True
            except ssl.SSLWantReadError:
                if self._outer_eof:
                    raise ConnectionResetError("the client closed the connection during the handshake") from None
                if _is_hung_up(self.inner):
                    raise ConnectionResetError("the handshake took too long") from None
        if self._handshake_done:
            self._decrypt()
            self._encrypt()
        self._encrypted += self._to_outer.read()

    def _decrypt(self) -> None:
        try:
            while len(self._plain) < _HIGH_WATER and (data := self._tls.read(_CHUNK)):
                self._plain += data
        except ssl.SSLWantReadError:
            return
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._outer_eof = True

    def _encrypt(self) -> None:
        while not self._inner_eof and len(self._encrypted) + self._to_outer.pending < _HIGH_WATER:
            data = _receive_some(self.inner)
            if data is None:
                return
            if data == b"":
                self._inner_eof = True
                return
            self._tls.write(data)

    def _flush(self) -> None:
        _send_some(self.outer, self._encrypted)
        _send_some(self.inner, self._plain)
        if self._outer_eof and not self._plain:
            try:
                self.inner.shutdown(socket.SHUT_WR)
            except OSError:
                self._inner_eof = True

    def _flush_alert(self) -> None:
        self._encrypted += self._to_outer.read()
        try:
            _send_some(self.outer, self._encrypted)
        except OSError:
            self._encrypted.clear()


def _is_hung_up(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _receive_some(sock: socket.socket) -> bytes | None:
    """Return the available data: b"" at the end, None if there is none."""
    try:
        return sock.recv(_CHUNK)
    except BlockingIOError:
        return None


def _send_some(sock: socket.socket, data: bytearray) -> None:
    """Send what the socket accepts, and remove it from `data`."""
    try:
        while data:
            del data[: sock.send(data)]
    except BlockingIOError:
        return
