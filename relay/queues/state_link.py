"""The broker's link to the state writer: hands over what is to be stored, and waits for nothing.

A message is kept until it is answered. A state writer that begins gets all of them again, in order.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.queues import state_messages
from relay.queues.state_messages import Began, Change, Load, Loaded, Resume, Stored
from relay.runtime import ipc

_WAIT_SECONDS: Final = 0.1

OnStored = Callable[[Stored], None]


class StateLink:
    """The broker's end of the socket between broker and state writer."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._numbers = ipc.request_ids(os.getpid())
        self._unanswered: dict[int, tuple[bytes, OnStored]] = {}  # in the order of their numbers
        self._unsent = deque[bytes]()
        self._load: tuple[int, bytes] | None = None  # until it is answered
        self._loaded: Loaded | None = None
        self._writer = 0

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def next_number(self) -> int:
        """Return the number for the next message."""
        return next(self._numbers)

    def store(self, change: Change, on_stored: OnStored) -> None:
        """Hand over a change. `on_stored` is called once, by `receive`, with the state writer's answer."""
        packet = state_messages.encode(change)
        self._unanswered[change.number] = packet, on_stored
        self._unsent.append(packet)
        self._send()

    def receive(self) -> None:
        """Handle all answers that have arrived. An answer to a broker before this one is dropped."""
        while True:
            try:
                message = state_messages.decode_from_writer(state_messages.receive(self._socket))
            except BlockingIOError:
                break
            match message:
                case Began() if message.writer != self._writer:
                    self._writer = message.writer
                    self._send_again()
                case Loaded() if self._load and message.number == self._load[0]:
                    self._load, self._loaded = None, message
                case Stored():
                    _, on_stored = self._unanswered.pop(message.number, (b"", None))
                    if on_stored is not None:
                        on_stored(message)
        self._send()

    def load(self, alive: Callable[[], bool]) -> Loaded | None:
        """Everything that is stored, with all that a broker before this one has handed over. None if not `alive()`.

        `alive` is called while it waits.
        """
        number = self.next_number()
        self._load = number, state_messages.encode(Load(number))
        self._unsent.append(self._load[1])
        self._send()
        while self._loaded is None:
            if not self._wait(alive):
                return None
        return self._loaded

    def settle(self, alive: Callable[[], bool], seconds: float) -> bool:
        """Wait until everything is answered. False after so many seconds, and if not `alive()`."""
        until = time.monotonic() + seconds
        while self._unanswered:
            if time.monotonic() > until or not self._wait(alive):
                return False
        return True

    def _wait(self, alive: Callable[[], bool]) -> bool:
        if not alive():
            return False
        select.select([self._socket], [], [], _WAIT_SECONDS)
        self.receive()
        return True

    def _send_again(self) -> None:
        load = [self._load[1]] if self._load else []
        changes = (packet for packet, _ in self._unanswered.values())
        self._unsent = deque([state_messages.encode(Resume(self._writer)), *load, *changes])

    def _send(self) -> None:
        """Send as much as fits the socket; an answer makes room for the rest."""
        while self._unsent:
            try:
                state_messages.send(self._socket, self._unsent[0])
            except BlockingIOError:
                return
            self._unsent.popleft()


def raise_if_failed(answer: Stored) -> None:
    """Raise the `RelayError` of a change that could not be stored."""
    if answer.error:
        code = StopCode(answer.code) if answer.code else ErrorCode.UNEXPECTED
        raise RelayError(code, "store clients", answer.error, position="state.db")
