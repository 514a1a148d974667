"""Distribute the configuration to all processes through shared memory. Each configuration has a higher number.

The supervisor writes it. Each process takes a new configuration at its next heartbeat, and acknowledges its number once
it works with it.
"""

from __future__ import annotations

import mmap
import pickle
from typing import Final

from relay.config.tree import Config
from relay.runtime.process_status import StatusPage

MAX_BYTES: Final = 4 << 20
"""The most bytes of a configuration. Only written parts take memory."""


class Settings:
    """Created before the fork for `processes` processes, identified by their slots. Only the supervisor publishes."""

    def __init__(self, config: Config, processes: int) -> None:
        self._status_page = StatusPage(MAX_BYTES)
        self._words = memoryview(mmap.mmap(-1, 8 * (1 + processes))).cast("Q")  # the number; that of each process
        self.publish(config)

    @property
    def number(self) -> int:
        """The number of the newest configuration, from 1."""
        return self._words[0]

    def publish(self, config: Config) -> int:
        """Publish the configuration and return its number. Raises `ValueError` if it is too large."""
        number = self._words[0] + 1
        # pickle, not msgpack, because secrets may have bytes that are not valid text. No other process writes here.
        self._status_page.write(pickle.dumps((number, config)))
        self._words[0] = number
        return number

    def read(self) -> tuple[int, Config]:
        """Return the newest configuration and its number."""
        newest: tuple[int, Config] = pickle.loads(self._status_page.read())
        return newest

    def acknowledge(self, slot: int, number: int) -> None:
        """Record that the process of that slot works with configuration `number` from now on; 0: it has ended."""
        self._words[1 + slot] = number

    def acknowledged(self, slot: int) -> int:
        """Return the number of the configuration that the process of that slot works with."""
        return self._words[1 + slot]
