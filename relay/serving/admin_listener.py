"""The listener for local admin commands: the socket in DataDir, which all servers share."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Final

from relay.runtime import admin_socket
from relay.runtime.context import ServerContext

MOST_LOCAL: Final = 8
"""Most connections of a server process at a time; further ones wait. They use reserved descriptors."""

_SHARED = select.EPOLLIN | select.EPOLLEXCLUSIVE


class AdminListener:
    """Accept connections and pass each, with its client's user and process, to `admit`.

    `count_open` returns the number of open ones.
    """

    def __init__(
        self,
        context: ServerContext,
        epoll: select.epoll,
        admit: Callable[[socket.socket, str], None],
        count_open: Callable[[], int],
    ) -> None:
        assert context.admin is not None
        self._log = context.log
        self._listener = context.admin
        self._epoll = epoll
        self._admit = admit
        self._count_open = count_open
        self._open = False

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._listener.fileno()

    def open(self) -> None:
        """Start or resume accepting connections. Call it about once a second."""
        if not self._open and self._count_open() < MOST_LOCAL:
            self._epoll.register(self._listener.fileno(), _SHARED)
            self._open = True

    def pause(self) -> None:
        """Pause accepting."""
        if self._open:
            self._epoll.unregister(self._listener.fileno())
            self._open = False

    def accept(self) -> None:
        """Accept the waiting connections."""
        while self._count_open() < MOST_LOCAL:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:  # another process accepted it, or none is left
                return
            except ConnectionError:  # closed before it was accepted
                continue
            except OSError as error:
                self._log("accept_failed", error=error)
                break
            sock.setblocking(False)
            self._admit(sock, admin_socket.client_of(sock))
        self.pause()  # until the next beat
