"""Signals that come to a test."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signalled() -> Iterator[list[int]]:
    """Sends SIGUSR1 to the main thread within the block, again and again: the first may come too early.

    Yields the list of those that came.
    """
    came: list[int] = []
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.1):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield came
    finally:
        over.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
