"""Reply to the inquiries of servers for admin commands: stat, clients, explanations.

A document may be larger than a packet: it is sent as a file in memory (relay/runtime/memory_files.py).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from relay.base.errors import RelayError
from relay.monitoring.deliveries import deliveries
from relay.monitoring.explain import explain
from relay.monitoring.stat import Stat
from relay.runtime import ipc, memory_files
from relay.runtime.context import MonitorContext
from relay.runtime.ipc import Answer, InquireClients, InquireTable, Inquiry


class _NoSuchClient(Exception):
    """There is no client of that name. The text has the name."""


class Inquiries:
    """Answer inquiries as they arrive. `collect` returns the stat document as of now."""

    def __init__(self, context: MonitorContext, collect: Callable[[], Stat]) -> None:
        self._context = context
        self._collect = collect

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to answer in this loop."""
        for sock in self._context.inquiries:
            loop.add_reader(sock.fileno(), self._answer, sock)

    def _answer(self, sock: socket.socket) -> None:
        """Answer all waiting inquiries. A repeated inquiry gets one reply."""
        waiting: dict[int, Inquiry] = {}
        with suppress(BlockingIOError):
            while True:
                inquiry = ipc.decode_inquiry(sock.recv(ipc.MAX_MESSAGE))
                waiting[inquiry.request] = inquiry
        if not waiting:
            return
        document = self._collect()
        for number, inquiry in waiting.items():
            try:
                _send(sock, Answer(number), msgspec.json.encode(self._document(inquiry, document)))
            except (_NoSuchClient, RelayError) as error:
                _send(sock, Answer(number, str(error)), b"")

    def _document(self, inquiry: Inquiry, document: Stat) -> Any:
        if isinstance(inquiry, InquireTable):
            return explain(self._context.config, document, inquiry.schema, inquiry.table)
        if not isinstance(inquiry, InquireClients):
            return document
        if not inquiry.client:
            return {"clients": document.clients}
        found = [client for client in document.clients if client.name == inquiry.client]
        if not found:
            raise _NoSuchClient(f"no client is called {inquiry.client!r}")
        last = deliveries(self._context.arena, self._context.journal_dir, found[0].id)
        return {"clients": found, "deliveries": last}


def _send(sock: socket.socket, answer: Answer, document: bytes) -> None:
    """Send the reply if that is possible now. Otherwise the server repeats the inquiry, and gives up in the end."""
    with suppress(OSError):
        memory_files.send(sock, ipc.encode(answer), document)
