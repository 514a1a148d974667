"""Faults that need a stand-in for the kernel: shim.c, compiled once and loaded into the relay's processes."""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("shim.c")
_ORDERS: Final = struct.Struct("<qqii256s")


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
        self._give(_ORDERS.pack(0, 0, 0, 0, b""))

    def slow_sync(self, seconds: float) -> None:
        """fsync and fdatasync take so much longer."""
        self._give(_ORDERS.pack(int(seconds * 1e6), 0, 0, 0, b""))

    def shift_clock(self, seconds: float) -> None:
        """The clock of the day is so far ahead."""
        self._give(_ORDERS.pack(0, int(seconds * 1e9), 0, 0, b""))

    def refuse(self, error: int, folder: Path) -> None:
        """What would make a file below the folder longer fails with this errno; EROFS: what would change one."""
        self._give(_ORDERS.pack(0, 0, error, 0, str(folder).encode()))

    def _give(self, orders: bytes) -> None:
        # In place and at once: it is mapped elsewhere.
        fd = os.open(self._orders, os.O_RDWR | os.O_CREAT)
        try:
            os.pwrite(fd, orders, 0)
        finally:
            os.close(fd)
