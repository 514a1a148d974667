"""Accept connections on a listening socket that several processes share."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

LOGIN_SECONDS: Final = 30.0
"""Time limit for a connection to log in or to give its first admin command."""

RESERVED_DESCRIPTORS: Final = 64
"""Descriptors for everything other than connections."""


def accepted(
    listener: socket.socket, most: int, failed: Callable[[OSError], None]
) -> Iterator[tuple[socket.socket, tuple[Any, ...]]]:
    """Accept up to `most` waiting connections, and yield each, non-blocking, with its client's address.

    If accepting fails, for example for lack of descriptors, calls `failed` and ends.
    """
    for _ in range(most):
        try:
            sock, address = listener.accept()
        except BlockingIOError:  # another process accepted it, or none is left
            return
        except ConnectionError:  # closed before it was accepted
            continue
        except OSError as error:
            failed(error)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        yield sock, address


def descriptors_for(wanted: int) -> int:
    """Return the number of descriptors for connections: `wanted`, or fewer if the system's limit is lower.

    Raises the soft limit of the process if that helps.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = wanted + RESERVED_DESCRIPTORS
    if soft < need:
        soft = min(need, hard) if hard != resource.RLIM_INFINITY else need
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(min(wanted, soft - RESERVED_DESCRIPTORS), 1)
