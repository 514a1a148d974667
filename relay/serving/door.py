"""Where connections come from: the listening socket that all servers share, TLS or not."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Final

from relay.config import Config
from relay.context import ServerContext
from relay.serving import tls
from relay.serving.accepting import accepted
from relay.serving.access import Access
from relay.serving.refusals import Refusals
from relay.serving.room import LOGIN_SECONDS

ACCEPT_BATCH: Final = 64
"""Connections accepted at a time, before others get their turn."""

BRIDGE_SECONDS: Final = 0.5
"""How long replies in hand may take to leave through TLS when the server stops."""

_SHARED = select.EPOLLIN | select.EPOLLEXCLUSIVE

Admit = Callable[[socket.socket, str], None]


class Door:
    """Accepts connections and gives each, as plain text, with its peer's address, to `admit`.

    What is encrypted is decrypted here, by a bridge to a socket of our own: after that a connection is like any other,
    and may go on in another process, while the bridge stays. Whoever could do nothing here is hung up on unread.
    """

    def __init__(
        self,
        context: ServerContext,
        epoll: select.epoll,
        access: Access,
        refusals: Refusals,
        admit: Admit,
        may_accept: Callable[[], bool],
    ) -> None:
        assert context.listener is not None
        self._log = refusals
        self._listener = context.listener
        self._epoll = epoll
        self._access = access
        self._admit = admit
        self._may_accept = may_accept
        self.apply(context.config)
        self._bridges: dict[int, tls.Bridge] = {}  # by either descriptor
        self._undecided: dict[int, tuple[socket.socket, str, float]] = {}  # by descriptor, and until when
        self._open = False

    def apply(self, config: Config) -> None:
        """Speak TLS as this configuration says with who comes from now on. Raises `RelayError` and changes nothing."""
        self._tls = tls.make_context(config.server)
        self._tls_required = config.server.tls == "required"

    @property
    def descriptors(self) -> int:
        """Those of connections that were not admitted yet, and of bridges."""
        return len(self._undecided) + len(self._bridges)

    def tick(self, now: float) -> None:
        """Hang up on those who say nothing, and accept again. To be called about once a second."""
        for sock, address, due in list(self._undecided.values()):
            if due <= now:
                self._log("login_late", peer=address)
                self._forget(sock)
                sock.close()
        self.open()

    def open(self) -> None:
        """Accept connections, from now on or again, unless that is better left to other processes."""
        if not self._open and self._may_accept():
            self._epoll.register(self._listener.fileno(), _SHARED)
            self._open = True

    def shut(self) -> None:
        """Accept none, for now."""
        if self._open:
            self._epoll.unregister(self._listener.fileno())
            self._open = False

    def close(self) -> None:
        """Accept none any more, and close those that were not admitted, or are bridged."""
        self.shut()
        bridges = going_on = set(self._bridges.values())
        until = time.monotonic() + BRIDGE_SECONDS
        # A bridge is over once its session, here or in another server, has ended and its last reply has left.
        while (going_on := {bridge for bridge in going_on if bridge.pump()}) and time.monotonic() < until:
            time.sleep(BRIDGE_SECONDS / 100)
        for bridge in bridges:
            bridge.close()
        for sock, _, _ in self._undecided.values():
            sock.close()

    def handle(self, fd: int) -> None:
        """Something is ready on a descriptor, which may be none of ours."""
        if fd == self._listener.fileno():
            self._accept()
        elif fd in self._bridges:
            self._pump(self._bridges[fd])
        elif fd in self._undecided:
            self._decide(fd)

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
                self._undecided[sock.fileno()] = (sock, address[0], time.monotonic() + LOGIN_SECONDS)
                self._epoll.register(sock.fileno(), select.EPOLLIN)
            if not self._may_accept():
                self.shut()
                return

    def _failed(self, error: OSError) -> None:
        self._log("accept_failed", error=error)
        self.shut()  # until the next beat

    def _decide(self, fd: int) -> None:
        """The first byte of a connection tells whether it is TLS."""
        sock, address, _ = self._undecided[fd]
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        self._forget(sock)
        if not first or (first[0] == tls.CLIENT_HELLO and self._tls is None):  # switched off in between
            sock.close()
        elif first[0] == tls.CLIENT_HELLO:
            self._bridge(sock, address)
        else:
            self._admit(sock, address)

    def _forget(self, sock: socket.socket) -> None:
        del self._undecided[sock.fileno()]
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
