"""Taking connections from a listening socket that several processes share."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

RESERVED_DESCRIPTORS: Final = 64
"""For everything of a process that is no connection."""


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


def descriptors_for(wanted: int) -> int:
    """How many descriptors the process's connections may have: those wanted, as far as the system lets us have them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = wanted + RESERVED_DESCRIPTORS
    if soft < need:
        soft = min(need, hard) if hard != resource.RLIM_INFINITY else need
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(min(wanted, soft - RESERVED_DESCRIPTORS), 1)
