"""The configuration that all processes work with, in memory that they share, under a number that rises.

The supervisor writes; each process takes what is new at its beat, and acknowledges its number once it works with it.
"""

from __future__ import annotations

import mmap
import pickle
from typing import Final

from relay.board import Board
from relay.config import Config

ROOM: Final = 4 << 20
"""Bytes that a configuration may have; memory is taken where something was written only."""


class Settings:
    """Made before the fork, for `processes` processes, known by their slots; only the supervisor publishes."""

    def __init__(self, config: Config, processes: int) -> None:
        self._board = Board(ROOM)
        self._words = memoryview(mmap.mmap(-1, 8 * (1 + processes))).cast("Q")  # the number; what each works with
        self.publish(config)

    @property
    def number(self) -> int:
        """Of the newest configuration, from 1."""
        return self._words[0]

    def publish(self, config: Config) -> int:
        """Have every process take this configuration, whose number is returned; a `ValueError` if it is too large."""
        number = self._words[0] + 1
        # pickle, not msgpack: secrets may hold bytes that are no text in any encoding. Nobody else writes here.
        self._board.write(pickle.dumps((number, config)))
        self._words[0] = number
        return number

    def read(self) -> tuple[int, Config]:
        """The newest configuration and its number."""
        newest: tuple[int, Config] = pickle.loads(self._board.read())
        return newest

    def acknowledge(self, slot: int, number: int) -> None:
        """By the process of that slot, which works with configuration `number` from now on; 0: it has ended."""
        self._words[1 + slot] = number

    def acknowledged(self, slot: int) -> int:
        """The number of the configuration that the process of that slot works with."""
        return self._words[1 + slot]
