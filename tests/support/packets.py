"""Packet sockets, as the supervisor creates them."""

from __future__ import annotations

import socket


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a packet socket, as the supervisor creates them."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    return ends
