"""The listening socket of the classic port, which all servers share, with TLS or without."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Final

from relay.config.tree import Config
from relay.net import tls
from relay.net.accept import LOGIN_SECONDS, accepted
from relay.net.access import Access
from relay.net.rejections import RejectionLog
from relay.runtime.context import ServerContext

ACCEPT_BATCH: Final = 64
"""Connections accepted in one batch, before other work."""

BRIDGE_SECONDS: Final = 0.5
"""The time that unsent replies have to leave through TLS when the server stops."""

_SHARED = select.EPOLLIN | select.EPOLLEXCLUSIVE


class Listener:
    """Accept connections and pass each, unencrypted, with its client's address, to `admit`.

    A bridge decrypts a TLS connection to a local socket. That socket may move to another process; the bridge stays
    here. A connection from an address that may do nothing is closed unread.
    """

    def __init__(
        self,
        context: ServerContext,
        epoll: select.epoll,
        access: Access,
        rejections: RejectionLog,
        admit: Callable[[socket.socket, str], None],
        may_accept: Callable[[], bool],
    ) -> None:
        assert context.listener is not None
        self._log = rejections
        self._listener = context.listener
        self._epoll = epoll
        self._access = access
        self._admit = admit
        self._may_accept = may_accept
        self.apply(context.config)
        self._bridges: dict[int, tls.Bridge] = {}  # by either descriptor
        # Connections without a first byte, by descriptor: socket, address, and when they are late.
        self._undetected: dict[int, tuple[socket.socket, str, float]] = {}
        self._open = False

    def apply(self, config: Config) -> None:
        """Use this configuration for new connections. Raises `RelayError` and changes nothing if its TLS is invalid."""
        self._tls = tls.server_context(config.server.tls, config.server)
        self._tls_required = config.server.tls == "required"

    @property
    def descriptors(self) -> int:
        """The descriptors of connections that are not admitted yet, and of bridges."""
        return len(self._undetected) + len(self._bridges)

    def tick(self, now: float) -> None:
        """Close connections that send nothing, and resume accepting. Call it about once a second."""
        for sock, address, due in list(self._undetected.values()):
            if due <= now:
                self._log("login_late", peer=address)
                self._forget(sock)
                sock.close()
        self.open()

    def open(self) -> None:
        """Start or resume accepting, unless only other processes have descriptors left."""
        if not self._open and self._may_accept():
            self._epoll.register(self._listener.fileno(), _SHARED)
            self._open = True

    def pause(self) -> None:
        """Pause accepting."""
        if self._open:
            self._epoll.unregister(self._listener.fileno())
            self._open = False

    def close(self) -> None:
        """Stop accepting, and close bridges and connections that are not admitted yet."""
        self.pause()
        bridges = unfinished = set(self._bridges.values())
        until = time.monotonic() + BRIDGE_SECONDS
        # A bridge ends when its session, here or in another server, has ended and its last reply has left.
        while (unfinished := {bridge for bridge in unfinished if bridge.pump()}) and time.monotonic() < until:
            time.sleep(BRIDGE_SECONDS / 100)
        for bridge in bridges:
            bridge.close()
        for sock, _, _ in self._undetected.values():
            sock.close()

    def handle(self, fd: int) -> None:
        """Handle a ready descriptor; ignore a descriptor that is not of this listener."""
        if fd == self._listener.fileno():
            self._accept()
        elif fd in self._bridges:
            self._pump(self._bridges[fd])
        elif fd in self._undetected:
            self._detect_tls(fd)

    def _accept(self) -> None:
        for sock, address in accepted(self._listener, ACCEPT_BATCH, self._failed):
            if not self._access.may_connect(address[0]):
                self._log("address_refused", client="", peer=address[0], rule="[Server] ClientsFrom")
                sock.close()
                continue
            if self._tls is None:
                self._admit(sock, address[0])
            elif self._tls_required:
                self._bridge(sock, address[0])
            else:
                self._undetected[sock.fileno()] = (sock, address[0], time.monotonic() + LOGIN_SECONDS)
                self._epoll.register(sock.fileno(), select.EPOLLIN)
            if not self._may_accept():
                self.pause()
                return

    def _failed(self, error: OSError) -> None:
        self._log("accept_failed", error=error)
        self.pause()  # until the next beat

    def _detect_tls(self, fd: int) -> None:
        """Determine from the first byte of a connection whether it is TLS."""
        sock, address, _ = self._undetected[fd]
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        self._forget(sock)
        if not first or (first[0] == tls.CLIENT_HELLO and self._tls is None):  # TLS was switched off meanwhile
            sock.close()
        elif first[0] == tls.CLIENT_HELLO:
            self._bridge(sock, address)
        else:
            self._admit(sock, address)

    def _forget(self, sock: socket.socket) -> None:
        del self._undetected[sock.fileno()]
        self._epoll.unregister(sock.fileno())

    def _bridge(self, sock: socket.socket, address: str) -> None:
        assert self._tls is not None
        inner, plain = socket.socketpair()
        inner.setblocking(False)
        bridge = tls.Bridge(sock, inner, self._tls)
        for end in (sock, inner):
            self._bridges[end.fileno()] = bridge
            self._epoll.register(end.fileno(), 0)
        self._admit(plain, address)
        self._pump(bridge)

    def _pump(self, bridge: tls.Bridge) -> None:
        if bridge.pump():
            outer, inner = bridge.events()
            self._epoll.modify(bridge.outer.fileno(), outer)
            self._epoll.modify(bridge.inner.fileno(), inner)
            return
        if bridge.failure:
            self._log("tls_failed", reason=bridge.failure)
        for end in (bridge.outer, bridge.inner):
            del self._bridges[end.fileno()]
            self._epoll.unregister(end.fileno())
        bridge.close()
