"""A bare epoll loop that replies to every 32-byte request with the same bytes: the cost of Python and kernel."""

from __future__ import annotations

import os
import select
import signal
import socket
from typing import Self

REQUEST = 32


def connect(address: tuple[str, int]) -> socket.socket:
    """A TCP connection that sends at once (TCP_NODELAY)."""
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def serve(listener: socket.socket, reply: bytes) -> None:
    """Replies forever: one recv_into that does not block and one send per request."""
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    connections: dict[int, socket.socket] = {}
    buffer = bytearray(64 * 1024)
    while True:
        for fd, _ in poller.poll():
            if fd == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = connection
                poller.register(connection, select.EPOLLIN)
                continue
            count = connections[fd].recv_into(buffer)
            if count:
                connections[fd].send(reply * (count // REQUEST))
            else:
                poller.unregister(fd)
                connections.pop(fd).close()


class Echo:
    """Runs the loop in `workers` processes, each on its own port; the `with` block ends them. `pids` are their ids."""

    def __init__(self, reply: bytes, workers: int) -> None:
        self._listeners = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(workers)]
        self._reply = reply
        self.pids: list[int] = []

    def connect(self, count: int) -> list[socket.socket]:
        """Connections, evenly spread over the processes."""
        addresses = [listener.getsockname() for listener in self._listeners]
        return [connect(addresses[number % len(addresses)]) for number in range(count)]

    def __enter__(self) -> Self:
        for listener in self._listeners:
            pid = os.fork()
            if pid == 0:
                try:
                    serve(listener, self._reply)
                finally:
                    os._exit(1)
            self.pids.append(pid)
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for listener in self._listeners:
            listener.close()
