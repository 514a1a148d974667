"""A server process: accepts clients, answers their polls, and passes clients to the servers that own their queues.

It has one epoll loop. Native code (`Poller`) receives and answers polls by itself. relay/serving answers all
other requests and closes connections.
"""

from __future__ import annotations

import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Final

from relay._native import Poller, Server
from relay.base import timezone
from relay.base.errors import RelayError, StopCode
from relay.config.tree import Config
from relay.net.access import Access
from relay.net.rejections import RejectionLog
from relay.runtime.context import ServerContext
from relay.runtime.ipc import LeaveOut, Order
from relay.serving.admin_listener import AdminListener
from relay.serving.broker_link import BrokerLink
from relay.serving.connections import Connections
from relay.serving.handlers import Handlers
from relay.serving.handover import Handover
from relay.serving.listener import Listener
from relay.serving.monitor_link import MonitorLink

BEAT_SECONDS: Final = 1.0
"""Longest time between two beats."""

STOP_SECONDS: Final = 2.0
"""The time that unsent replies have to leave when the server must stop."""


def run(context: ServerContext) -> int:
    """Serve until it must stop, send the unsent replies, and return 0."""
    timezone.set_process_zone(context.config.relay.time_zone)
    loop = _Loop(context)
    context.arena.mark_running(context.slot)
    try:
        loop.serve()
        loop.finish()
    finally:
        loop.close()
    return 0


class _Loop:
    """The epoll loop and its descriptors."""

    def __init__(self, context: ServerContext) -> None:
        assert context.broker is not None
        assert context.monitor is not None
        self._context = context
        self._log = context.log
        self._native = _native(context)
        self._epoll = select.epoll()
        self._poller = Poller(self._epoll.fileno(), context.wake, context.wake_ahead)
        access, self._rejections = Access(context.config), RejectionLog(context.log)
        self._access = access
        self._connections = connections = Connections(
            context,
            self._native,
            self._epoll,
            self._poller,
            access,
            self._rejections,
            handle=lambda connection: self._handlers.handle(connection),
            other_descriptors=lambda: self._listener.descriptors,
        )
        self._listener = Listener(
            context, self._epoll, access, self._rejections, connections.admit, connections.may_accept
        )
        self._admin = AdminListener(context, self._epoll, connections.admit_local, lambda: connections.local)
        self._handover = Handover(context, connections)
        self._broker = BrokerLink(context.broker, self._carry_out, lambda: bool(context.arena.committed))
        self._monitor = MonitorLink(context.monitor)
        self._handlers = Handlers(
            context, connections, self._handover, self._broker, self._monitor, access, self._rejections
        )
        self._wakeup, self._wakeup_end = socket.socketpair()
        for end in (self._wakeup, self._wakeup_end):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_end.fileno(), warn_on_full_buffer=False)
        self._readable: dict[int, Callable[[], object]] = {
            context.wake: self._wake,
            self._broker.fileno(): self._broker.receive,
            self._monitor.fileno(): self._monitor.receive,
            self._handover.fileno(): self._handover.receive,
            self._wakeup.fileno(): lambda: self._wakeup.recv(4096),
        }
        for fd in self._readable.keys() - {context.wake}:
            self._epoll.register(fd, select.EPOLLIN)
        self._readable[self._admin.fileno()] = self._admin.accept
        self._limit(context.config)
        context.apply = self._apply
        self._listener.open()
        self._admin.open()

    def _limit(self, config: Config) -> None:
        self._native.max_reply = config.relay.max_buffered_bytes
        self._connections.max_payload = config.relay.max_request_bytes

    def _apply(self, config: Config) -> None:
        """Use this configuration from now on. Open connections stay open. Raises `RelayError`."""
        self._listener.apply(config)
        self._access.apply(config)
        self._connections.admission.apply(config)
        self._limit(config)
        self._handlers.apply(config)

    def serve(self) -> None:
        """Serve until `context.stopping`."""
        beat_due = 0.0
        connections = self._connections
        while not self._context.stopping:
            ready = self._poller.wait(min(beat_due, connections.deadlines.first))
            connections.now = time.monotonic()
            for fd, event, session, error in ready:
                if session is not None:
                    connections.handle_ready(fd, event, session, error)
                elif (receive := self._readable.get(fd)) is not None:
                    receive()
                else:
                    self._listener.handle(fd)
            connections.expire()
            if connections.now >= beat_due:
                beat_due = connections.now + BEAT_SECONDS
                self._beat()

    def finish(self) -> None:
        """Answer waiting polls, and wait up to `STOP_SECONDS` for unsent replies and for the broker."""
        connections = self._connections
        self._listener.pause()
        self._admin.pause()
        connections.finish()
        until = connections.now + STOP_SECONDS
        while (self._broker.busy or connections.unsent) and connections.now < until:
            events = self._epoll.poll(min(0.1, until - connections.now))
            connections.now = time.monotonic()
            for fd, _ in events:
                if fd in (self._broker.fileno(), self._monitor.fileno()):
                    self._readable[fd]()
                else:
                    connections.flush(fd)

    def close(self) -> None:
        """Close every connection."""
        signal.set_wakeup_fd(-1)
        self._connections.close()
        self._listener.close()
        self._rejections.close()
        self._wakeup.close()
        self._wakeup_end.close()
        self._epoll.close()

    def _beat(self) -> None:
        connections = self._connections
        self._context.beat()
        self._broker.tick(connections.now)
        self._monitor.tick(connections.now)
        self._handlers.tick()
        self._rejections.tick()
        self._native.release_before(self._context.arena.first)
        self._native.release_forgotten(self._context.index)
        self._report_damage()
        connections.tick()
        self._listener.tick(connections.now)
        self._admin.open()

    def _report_damage(self) -> None:
        """Set a fatal error if a damaged journal withholds rows from some clients; the others are served as before."""
        damage = self._native.take_damage()
        if not damage or self._context.arena.stop() is not None:
            return
        error = RelayError(StopCode.JOURNAL_CORRUPT, "serve rows", damage)
        self._context.arena.set_stop(str(error.code), str(error), error.remedy)
        self._log("rows_unreadable", code=error.code, error=error, hint=error.hint)

    def _wake(self) -> None:
        """Handle a wake-up that brought no rows: the supervisor may have a new configuration."""
        self._context.take_config()
        self._handlers.tick()

    def _carry_out(self, order: Order) -> None:
        if isinstance(order, LeaveOut):
            self._native.skip_row(order.client_id, order.slot, order.number)
        else:
            self._connections.kick(order.client_id, order.reason)


def _native(context: ServerContext) -> Server:
    relay = context.config.relay
    native = Server(
        context.arena,
        str(context.journal_dir),
        null_text=relay.null_text,
        utc=relay.time_zone == "UTC",
        event_position=relay.event_position,
        at_most_once=relay.delivery == "at-most-once",
        max_repeats=relay.max_repeats,
        broker_wake=context.broker_wake,
    )
    native.clear_connections(context.index)
    return native
