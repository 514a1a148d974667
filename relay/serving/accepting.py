"""Taking connections from a listening socket that several processes share."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any


def accepted(
    listener: socket.socket, most: int, failed: Callable[[OSError], None]
) -> Iterator[tuple[socket.socket, tuple[Any, ...]]]:
    """Up to `most` of the connections that wait, with their peers' addresses; they do not block.

    Ends, and calls `failed`, where none can be taken for now: there may be too many descriptors.
    """
    for _ in range(most):
        try:
            sock, address = listener.accept()
        except BlockingIOError:  # another process was first, or it was the last
            return
        except ConnectionError:  # gone before its turn came
            continue
        except OSError as error:
            failed(error)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        yield sock, address
