"""The tasks of a CDC process in one event loop: accept connections, read the journal, give turns, report."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import ssl
from contextlib import suppress
from typing import Any, Final

from relay.base import timezone
from relay.cdc.connection import Connection
from relay.cdc.pace import Share
from relay.cdc.service import Service
from relay.config.tree import Config
from relay.net import tls
from relay.net.accept import LOGIN_SECONDS, accepted, descriptors_for
from relay.net.addresses import Addresses
from relay.runtime.context import StreamsContext
from relay.runtime.process_status import CDCStatus

BEAT_SECONDS: Final = 1.0
STOP_SECONDS: Final = 1.0
"""The longest time for sent data to leave when the process must stop."""

_SHOW_PARTS: Final = 50  # the status of connections may take 1/_SHOW_PARTS of the time
_ACCEPT_BATCH: Final = 16  # before other tasks get their turn
_ACCEPT_SECONDS: Final = 1.0  # until the next try after descriptors ran out
_HELLO_SECONDS: Final = 10.0  # for a client's first byte, which shows whether it uses TLS


async def serve(context: StreamsContext) -> None:
    """Serve until SIGTERM. Then close every connection with a RST, which some clients need to notice the end."""
    assert context.listener is not None
    stop_requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop_requested.set)
    loop.set_exception_handler(lambda _, about: _log_error(context, about))
    timezone.set_process_zone(context.config.relay.time_zone)
    service = Service(context.config, context.data_dir, lambda: context.arena.committed, context.log)
    listener = Listener(context, service)

    def apply(config: Config) -> None:
        listener.apply(config)
        service.apply(config)

    context.apply = apply
    context.arena.mark_running(context.slot)
    tasks = [
        asyncio.create_task(stop_requested.wait()),
        asyncio.create_task(_beat(context, service)),
        asyncio.create_task(_read_journal(service)),
        asyncio.create_task(_take_turns(service)),
    ]
    listener.open()
    if context.stopping:  # the signal came before its handler was set
        stop_requested.set()
    ended, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    listener.close()
    for connection in list(service.connections):
        connection.close(reset=True)
    until = loop.time() + STOP_SECONDS
    while service.connections and loop.time() < until:
        await asyncio.sleep(0.01)
    for connection in list(service.connections):
        connection.abort()
    await asyncio.sleep(0)
    service.close()
    for task in ended:
        task.result()


async def _beat(context: StreamsContext, service: Service) -> None:
    assert isinstance(context.status, CDCStatus)
    share = Share(_SHOW_PARTS)
    while True:
        context.beat()
        service.release()
        service.tick()
        if share.due():
            with share:
                service.status(context.status)
                context.report("serving" if service.caught_up else "catching up")
        await asyncio.sleep(BEAT_SECONDS)


def _log_error(context: StreamsContext, about: dict[str, Any]) -> None:
    """Log an error in a connection, which the event loop ends."""
    connection = about.get("protocol")
    client, peer = "", ""
    if isinstance(connection, Connection):
        client, peer = connection.session.user, connection.address
    context.log("connection_failed", client=client, peer=peer, error=about.get("exception") or about["message"])


async def _read_journal(service: Service) -> None:
    while True:
        await asyncio.sleep(service.step())


async def _take_turns(service: Service) -> None:
    while True:
        await service.waiting.wait()
        service.take_turns()
        await asyncio.sleep(0)


class Listener:
    """The listener: the listening socket that the processes share, with or without TLS."""

    def __init__(self, context: StreamsContext, service: Service) -> None:
        assert context.listener is not None
        self._listener = context.listener
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._pending: set[asyncio.Task[None]] = set()  # asyncio keeps no strong reference
        self.apply(context.config)

    def apply(self, config: Config) -> None:
        """Use the configuration for new connections. Raises `RelayError` and changes nothing if its TLS is invalid."""
        self._tls = tls.server_context(config.cdc.tls, config.server)
        self._required = config.cdc.tls == "required"
        self._from = Addresses(config.cdc.allowed_from)
        self._most = config.cdc.max_streams
        self._descriptors = descriptors_for(config.cdc.max_streams)

    def open(self) -> None:
        """Accept connections."""
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Stop accepting connections."""
        self._loop.remove_reader(self._listener.fileno())
        for task in self._pending:
            task.cancel()

    def _has_descriptors(self) -> bool:
        """Whether a descriptor is left for another connection. If not, other processes accept for a while."""
        if len(self._service.connections) + len(self._pending) < self._descriptors or self._descriptors >= self._most:
            return True
        self._accept_failed(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        return False

    def _accept(self) -> None:
        if not self._has_descriptors():
            return
        for sock, address in accepted(self._listener, _ACCEPT_BATCH, self._accept_failed):
            if not self._from.admit(address[0]):
                self._service.rejections("address_refused", client="", peer=address[0], rule="[CDC] From")
                sock.close()
                continue
            connections = len(self._service.connections) + len(self._pending)
            if connections >= self._most:
                reason = f"too many connections (MaxStreams = {self._most})"
                self._service.rejections("connection_refused", client="", peer=address[0], reason=reason)
                sock.close()
                continue
            task = self._loop.create_task(self._admit(sock, *address[:2]))
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)
            if not self._has_descriptors():
                return

    def _accept_failed(self, error: OSError) -> None:
        self._service.rejections("accept_failed", error=error)
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(_ACCEPT_SECONDS, self.open)

    async def _admit(self, sock: socket.socket, address: str, port: int) -> None:
        context: ssl.SSLContext | None = self._tls
        try:
            if context and not self._required and not await self._starts_tls(sock):
                context = None
            connection = Connection(self._service, address, port)
            patience = LOGIN_SECONDS if context else None
            await self._loop.connect_accepted_socket(
                lambda: connection, sock, ssl=context, ssl_handshake_timeout=patience
            )
        except (OSError, TimeoutError, ssl.SSLError) as error:
            if context:
                self._service.rejections(
                    "tls_failed", reason=getattr(error, "reason", None) or str(error) or "no first byte"
                )
            sock.close()

    async def _starts_tls(self, sock: socket.socket) -> bool:
        """Whether the first byte, which is not consumed, is one of TLS."""
        readable = asyncio.Event()
        self._loop.add_reader(sock.fileno(), readable.set)
        try:
            await asyncio.wait_for(readable.wait(), _HELLO_SECONDS)
        finally:
            self._loop.remove_reader(sock.fileno())
        first = b""
        with suppress(BlockingIOError):
            first = sock.recv(1, socket.MSG_PEEK)
        return first[:1] == bytes([tls.CLIENT_HELLO])
