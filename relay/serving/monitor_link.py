"""The link from a server process to the monitor, which builds the documents for replies to admin commands."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from relay.runtime import ipc, memory_files
from relay.runtime.ipc import Inquiry
from relay.serving.link import Link

GIVE_UP_AFTER: Final = 8.0
"""Seconds after which an inquiry without a reply fails; commands wait for 10."""

UNANSWERED: Final = "the monitor process does not answer; it may be restarting: try again"

_LARGEST: Final = 64 * 1024


class MonitorLink(Link[Inquiry, Callable[[bytes, str], None]]):
    """Inquiries in flight to the monitor. A callback receives a JSON document and "", or an error text."""

    def receive(self) -> None:
        """Receive all waiting replies."""
        while True:
            try:
                packet, descriptors, _, _ = socket.recv_fds(self._socket, _LARGEST, 1)
            except BlockingIOError:
                return
            answer = ipc.decode_answer(packet)
            document = b"".join(map(memory_files.read, descriptors))
            on_reply = self._take(answer.request)
            if on_reply is not None:
                lost = "" if document else "this server process has no file descriptor left for the document"
                on_reply(document, answer.error or lost)

    def tick(self, now: float) -> None:
        """Repeat inquiries without a reply, and fail those that are overdue."""
        self._repeat(now, GIVE_UP_AFTER, lambda _, on_reply: on_reply(b"", UNANSWERED))
