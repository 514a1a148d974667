"""Faults that need a replacement for kernel calls: shim.c, compiled once and loaded into the relay's processes."""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

_SOURCE: Final = Path(__file__).with_name("shim.c")
_ORDERS: Final = struct.Struct("<qqqii256s")
_WATCH: Final = struct.Struct("<64siiqq")
_WATCHES: Final = 16
WRITE, SYNC, ALLOCATE, NAME = 1, 2, 4, 8
KILL: Final = -1


class Watch(NamedTuple):
    """Calls of these kinds (WRITE and so on, as bits) about files whose path has this part.

    The one with number `at` fails with `error`; 0: it writes half of what it is given; KILL: its process is killed.
    """

    part: str
    calls: int
    error: int = 0
    at: int = 0


class Shim:
    """The library in `folder`, and what it is to do in all processes started under `loaded`."""

    def __init__(self, folder: Path) -> None:
        self._orders = folder / "orders"
        self._library = folder / "shim.so"
        compiler = shlex.split(os.environ.get("CC", "cc"))
        flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", self._library, _SOURCE, "-ldl")
        subprocess.run([*compiler, *flags], check=True)
        self.calm()

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """What is started meanwhile has it."""
        before = dict(os.environ)
        os.environ["LD_PRELOAD"] = str(self._library)
        os.environ["RELAY_SHIM"] = str(self._orders)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def calm(self) -> None:
        """Everything is as the kernel has it."""
        self._give(_ORDERS.pack(0, 0, 0, 0, 0, b""))

    def slow_sync(self, seconds: float) -> None:
        """fsync and fdatasync take so much longer."""
        self._give(_ORDERS.pack(int(seconds * 1e6), 0, 0, 0, 0, b""))

    def shift_clock(self, seconds: float) -> None:
        """The clock of the day is so far ahead."""
        self._give(_ORDERS.pack(0, int(seconds * 1e9), 0, 0, 0, b""))

    def refuse(self, error: int, folder: Path) -> None:
        """What would make a file below the folder longer fails with this errno; EROFS: what would change one."""
        self._give(_ORDERS.pack(0, 0, 0, error, 0, str(folder).encode()))

    def stretch(self, size: int, folder: Path) -> None:
        """Files below the folder seem to have so many bytes: in a map of one, what is behind its end is a SIGBUS."""
        self._give(_ORDERS.pack(0, 0, size, 0, 0, str(folder).encode()))

    def watch(self, *watches: Watch) -> None:
        """Count such calls from here on, and have one of each watch fail."""
        packed = [_WATCH.pack(watch.part.encode(), watch.calls, watch.error, watch.at, 0) for watch in watches]
        self._give(_ORDERS.pack(0, 0, 0, 0, 0, b"") + b"".join(packed))

    def seen(self) -> list[int]:
        """How many calls each watch has counted."""
        packed = self._orders.read_bytes()[_ORDERS.size :]
        return [seen for part, *_, seen in _WATCH.iter_unpack(packed) if part.strip(b"\0")]

    def _give(self, orders: bytes) -> None:
        orders = orders.ljust(_ORDERS.size + _WATCHES * _WATCH.size, b"\0")
        # In place and at once: it is mapped elsewhere.
        fd = os.open(self._orders, os.O_RDWR | os.O_CREAT)
        try:
            os.pwrite(fd, orders, 0)
        finally:
            os.close(fd)
