"""The broker process: reads committed frames, and puts references to rows into the queues of clients.

The reading and the rings are native (`relay._native.Broker`). This module waits, and handles the servers' requests
about clients and filters. The state writer stores what changes, and checkpoints: the broker itself writes no file.
"""

from __future__ import annotations

import select
import socket
import time
from functools import partial

from relay._native import Broker, Dispatcher
from relay.base.errors import ExitCode, RelayError, StopCode
from relay.config.tree import Config
from relay.queues.registry import Registry
from relay.queues.requests import Requests
from relay.queues.state_link import StateLink
from relay.runtime import ipc
from relay.runtime.context import BrokerContext

STEP_BYTES = 8 << 20  # journal bytes to read before control messages are handled
CHECKPOINT_SECONDS = 0.95  # also between two checks of everything else while there are always frames to decide
PAUSE_SECONDS = 0.05  # the longest wait for a pause between rows, after that
IDLE_SECONDS = 1.0


def run(context: BrokerContext) -> int:
    """Serve until it must stop, then store a last checkpoint."""
    if not context.await_journal():
        return 0
    assert context.state_writer is not None
    broker = Broker(context.arena, str(context.journal_dir), context.allocate)

    def apply(config: Config) -> None:
        broker.refuse_unproven = config.relay.on_unproven == "stop"
        registry.restrict(config)

    def go_on() -> bool:
        context.beat()
        return not context.stopping

    def finish() -> bool:
        context.beat()
        return True

    link = StateLink(context.state_writer)
    registry = Registry(context, broker, link)
    if not registry.load(go_on):
        return ExitCode.UNEXPECTED  # the queues stay in shared memory: no checkpoint has them all
    apply(context.config)
    context.apply = apply
    context.arena.mark_running(context.slot)
    _Loop(context, broker, registry, link).run()
    registry.finish(finish)
    return 0


class _Loop:
    def __init__(self, context: BrokerContext, broker: Broker, registry: Registry, link: StateLink) -> None:
        self._context = context
        self._registry = registry
        self._link = link
        self._requests = Requests(context, broker, registry, link)
        self._servers = {end.fileno(): end for end in context.servers}
        self._deciding_stopped = False  # after a fatal error no frame is decided until it is cleared
        self._epoll = select.epoll()
        # Edge-triggered: each write wakes once, and no read is needed before the rows are handled.
        for fd in (context.wake, context.wake_ahead):
            self._epoll.register(fd, select.EPOLLIN | select.EPOLLET)
        for fd in (*self._servers, link.fileno()):
            self._epoll.register(fd, select.EPOLLIN)
        wakes = context.wake, context.wake_ahead, context.servers_wake_ahead, context.server_wakes
        self._dispatcher = Dispatcher(broker, context.arena, self._epoll.fileno(), *wakes)

    def run(self) -> None:
        checkpoint_due = 0.0
        while not self._context.stopping:
            ready = self._dispatch(checkpoint_due)
            self._context.take_config()
            for fd in ready:
                if fd in self._servers:
                    self._answer(self._servers[fd])
                else:
                    self._link.receive()
            self._send_orders()
            now = time.monotonic()
            if now >= checkpoint_due:
                checkpoint_due = now + CHECKPOINT_SECONDS
                self._context.beat()
                self._do_periodic_work()

    def _do_periodic_work(self) -> None:
        """Checkpoint, expire and cut queues, and send orders."""
        self._registry.checkpoint()
        self._registry.expire()
        self._send_orders()
        self._registry.cut_queues()

    def _dispatch(self, due: float) -> list[int]:
        """Decide frames until servers send requests, or until a pause after `due`. Returns the servers' descriptors.

        After a fatal error no frame is decided, but clients are served as before.
        """
        self._deciding_stopped = self._deciding_stopped and self._context.arena.stop() is not None
        step = 0 if self._deciding_stopped else STEP_BYTES
        try:
            return self._dispatcher.run(due, due + PAUSE_SECONDS, IDLE_SECONDS, step)
        except RelayError as error:
            if not isinstance(error.code, StopCode):
                raise
            self._deciding_stopped = True
            self._context.arena.set_stop(str(error.code), str(error), error.remedy)
            self._context.log("deciding_stopped", code=error.code, error=error, hint=error.hint)
            return []

    def _answer(self, server: socket.socket) -> None:
        """Handle a server's requests."""
        while True:
            try:
                packet = server.recv(ipc.MAX_MESSAGE)
            except BlockingIOError:
                return
            self._requests.answer(ipc.decode_request(packet), partial(self._reply, server))

    def _reply(self, server: socket.socket, reply: ipc.Reply) -> None:
        """Reply to a server. Drop a reply that does not fit the socket buffer: the server asks again."""
        self._send_orders()
        try:
            server.send(ipc.encode(reply))
        except BlockingIOError:
            self._context.log("reply_dropped", request=reply.request)

    def _send_orders(self) -> None:
        """Send orders to the servers that own the clients. Those that do not fit the socket buffer are sent later."""
        while self._registry.orders:
            order = self._registry.orders[-1]
            try:
                self._context.servers[order.client_id % len(self._context.servers)].send(ipc.encode(order))
            except BlockingIOError:  # that server is down, and so are its connections
                return
            self._registry.orders.pop()
