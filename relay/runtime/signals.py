"""Signals as bytes on a socket: a loop waits for them together with its other sockets."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


class Signals:
    """Handle these signals for this process. A signal makes `fileno()` readable."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._receive, self._send = socket.socketpair()
        self._receive.setblocking(False)
        self._send.setblocking(False)
        signal.set_wakeup_fd(self._send.fileno(), warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)  # without a handler, nothing is written to the socket

    def fileno(self) -> int:
        """For `select`."""
        return self._receive.fileno()

    def received(self) -> bytes:
        """Return the numbers of the signals since the last call, one byte each."""
        try:
            return self._receive.recv(4096)
        except BlockingIOError:
            return b""


@contextmanager
def handled(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle these signals with `handler` within the block, and as before behind it."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
