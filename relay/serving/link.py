"""What the links to the broker and to the monitor share: requests that wait for their replies."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from relay.runtime import ipc

AnyRequest = TypeVar("AnyRequest", bound=ipc.Request | ipc.Inquiry)
OnReply = TypeVar("OnReply")


@dataclass(slots=True)
class _Waiting(Generic[OnReply]):
    packet: bytes
    on_reply: OnReply
    first_sent: float
    last_sent: float


class Link(Generic[AnyRequest, OnReply]):
    """Send requests over a packet socket, repeat them each `RESEND_AFTER` seconds, and keep the callback of each."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._ids = ipc.request_ids(os.getpid())
        self._waiting: dict[int, _Waiting[OnReply]] = {}

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    @property
    def busy(self) -> bool:
        """Whether requests wait for replies."""
        return bool(self._waiting)

    def next_id(self) -> int:
        """Return the id for the next request."""
        return next(self._ids)

    def ask(self, request: AnyRequest, now: float, on_reply: OnReply) -> None:
        """Send a request. `on_reply` is called once: with the reply, or with the reason why there is none."""
        packet = ipc.encode(request)
        self._waiting[request.request] = _Waiting(packet, on_reply, now, now)
        self._send(packet)

    def _take(self, number: int) -> OnReply | None:
        """Remove the request and return its callback, None if the request is no longer waiting."""
        waiting = self._waiting.pop(number, None)
        return waiting.on_reply if waiting else None

    def _repeat(self, now: float, patience: float, give_up: Callable[[int, OnReply], None]) -> None:
        """Repeat requests without a reply, and give up those without one for `patience` seconds."""
        for number, waiting in list(self._waiting.items()):
            if now - waiting.first_sent >= patience:
                del self._waiting[number]
                give_up(number, waiting.on_reply)
            elif now - waiting.last_sent >= ipc.RESEND_AFTER:
                waiting.last_sent = now
                self._send(waiting.packet)

    def _send(self, packet: bytes) -> None:
        try:
            self._socket.send(packet)
        except BlockingIOError:
            return  # its buffer is full; `_repeat` sends it again
