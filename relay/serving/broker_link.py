"""The link from a server process to the broker: requests, their replies, and orders from the broker."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from relay.runtime import ipc
from relay.runtime.ipc import Done, Order, Reply, Request
from relay.serving.link import Link

GIVE_UP_AFTER: Final = 30.0
"""Seconds after which a request without a reply has failed."""

GIVE_UP_UNBEGUN: Final = 5.0
"""The same while the journal has not begun: most clients do not wait longer."""


class BrokerLink(Link[Request, Callable[[Reply], None]]):
    """Requests in flight to the broker. A request that fails gets a `Done` with the reason.

    `on_order` gets the broker's orders. `journal_begun` returns whether the journal has begun: until then the broker
    answers nothing.
    """

    def __init__(
        self, sock: socket.socket, on_order: Callable[[Order], None], journal_begun: Callable[[], bool]
    ) -> None:
        super().__init__(sock)
        self._on_order = on_order
        self._journal_begun = journal_begun

    def receive(self) -> None:
        """Receive all waiting packets."""
        while True:
            try:
                packet = self._socket.recv(ipc.MAX_MESSAGE)
            except BlockingIOError:
                return
            message = ipc.decode_from_broker(packet)
            if isinstance(message, Order):
                self._on_order(message)
            elif (on_reply := self._take(message.request)) is not None:
                on_reply(message)

    def tick(self, now: float) -> None:
        """Repeat requests without a reply, and fail those that are overdue."""
        patience, why = GIVE_UP_AFTER, "the broker does not answer; try again"
        if not self._journal_begun():
            patience, why = GIVE_UP_UNBEGUN, "the relay has not reached its source yet, and keeps no rows; try again"
        self._repeat(now, patience, lambda number, on_reply: on_reply(Done(number, why)))
