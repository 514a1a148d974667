"""A bare epoll loop that answers every 32-byte request with the same bytes: what Python and the kernel cost alone."""

from __future__ import annotations

import os
import select
import signal
import socket
from typing import Self

REQUEST = 32


def serve(listener: socket.socket, reply: bytes) -> None:
    """Answer for ever; one blocking-free recv_into and one send a request."""
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
    """The loop in as many processes as the relay has servers, each with its own port; the `with` block ends them.

    `pids`: of these processes.
    """

    def __init__(self, reply: bytes, workers: int) -> None:
        self._listeners = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(workers)]
        self._reply = reply
        self.pids: list[int] = []

    def connect(self, count: int) -> list[socket.socket]:
        """Connections, spread evenly over the processes."""
        addresses = [listener.getsockname() for listener in self._listeners]
        made = [socket.create_connection(addresses[number % len(addresses)]) for number in range(count)]
        for connection in made:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

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
