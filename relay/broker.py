"""The broker process: walks committed frames, puts references to rows into the queues of clients that asked for them.

The walk and the rings are native (`relay._native.Broker`); this shell sleeps and wakes, answers the servers' requests
about clients and filters, and stores checkpoints. It is the only writer of the durable client state.
"""

from __future__ import annotations

import select
import socket
import sqlite3
import time

from relay import messages
from relay._native import Broker, Dispatcher
from relay.config import Config
from relay.context import BrokerContext
from relay.errors import RelayError, StopCode
from relay.queues.registry import Registry
from relay.queues.state import ClientState

STEP_BYTES = 8 << 20  # journal bytes walked before control messages get their turn
LOOK_SECONDS = 0.1  # between two looks at everything else while there is always more to decide
CHECKPOINT_SECONDS = 1.0
IDLE_SECONDS = 1.0


def run(context: BrokerContext) -> int:
    """Serves until told to stop, then stores a last checkpoint."""
    if not context.await_journal():
        return 0
    state = ClientState(context.data_dir / "state.db")
    broker = Broker(context.arena, str(context.journal_dir), context.allocate)

    def apply(config: Config) -> None:
        broker.refuse_unproven = config.relay.on_unproven == "stop"
        registry.restrict(config)

    registry = Registry(context, broker, state)
    registry.load()
    apply(context.config)
    context.apply = apply
    context.arena.mark_running(context.slot)
    try:
        _Loop(context, broker, registry).run()
        registry.checkpoint()
    finally:
        state.close()
    return 0


class _Loop:
    def __init__(self, context: BrokerContext, broker: Broker, registry: Registry) -> None:
        self._context = context
        self._registry = registry
        self._servers = {end.fileno(): end for end in context.servers}
        self._stuck = False  # by a named stop: nothing more is decided until it is cleared
        self._failing = False  # to write what is durable
        self._epoll = select.epoll()
        # By its edges: each write wakes once, and nothing has to be read between it and the rows.
        self._epoll.register(context.wake, select.EPOLLIN | select.EPOLLET)
        for fd in self._servers:
            self._epoll.register(fd, select.EPOLLIN)
        self._dispatcher = Dispatcher(broker, context.arena, self._epoll.fileno(), context.wake, context.server_wakes)

    def run(self) -> None:
        checkpoint_due = 0.0
        while not self._context.stopping:
            ready = self._dispatch()
            self._context.take_config()
            for fd in ready:
                self._answer(self._servers[fd])
            now = time.monotonic()
            if now >= checkpoint_due:
                checkpoint_due = now + CHECKPOINT_SECONDS
                self._context.beat()
                self._keep()

    def _keep(self) -> None:
        """What is due now and then. Where the disk takes nothing, queues are served from memory until it does again."""
        try:
            self._registry.checkpoint()
            self._registry.expire()
            self._failing = False
        except sqlite3.OperationalError as error:
            if not self._failing:
                self._context.log("checkpoint_failed", error=error)
            self._failing = True
        self._order()
        self._registry.cut()

    def _dispatch(self) -> list[int]:
        """Decides frames until servers ask for something, or a while.

        A named stop ends the deciding, not the process: clients are served as before.
        """
        self._stuck = self._stuck and self._context.arena.stop() is not None
        until = time.monotonic() + LOOK_SECONDS
        try:
            return self._dispatcher.run(until, IDLE_SECONDS, 0 if self._stuck else STEP_BYTES)
        except RelayError as error:
            if not isinstance(error.code, StopCode):
                raise
            self._stuck = True
            self._context.arena.set_stop(str(error.code), str(error), error.hint)
            self._context.log("deciding_stopped", code=error.code, error=error, hint=error.hint)
            return []

    def _answer(self, server: socket.socket) -> None:
        """Answers what one server asked. A reply that does not fit its buffer is left out: the server asks again."""
        while True:
            try:
                packet = server.recv(messages.MAX_MESSAGE)
            except BlockingIOError:
                return
            reply = self._registry.answer(messages.decode_request(packet))
            self._order()
            try:
                server.send(messages.encode(reply))
            except BlockingIOError:
                self._context.log("reply_dropped", request=reply.request)

    def _order(self) -> None:
        """Tells the servers what is to happen to their clients. What does not fit is sent again later."""
        while self._registry.orders:
            order = self._registry.orders[-1]
            try:
                self._context.servers[order.client_id % len(self._context.servers)].send(messages.encode(order))
            except BlockingIOError:  # that server is away, and so are its connections
                return
            self._registry.orders.pop()
