"""Tells the service manager that started the relay how it is: sd_notify(3), a datagram to the socket that it names.

Without one ($NOTIFY_SOCKET), nothing is told.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Final

from relay.errors import printable
from relay.log import Log

_STATUS_BYTES: Final = 1000


class Notifier:
    """One conversation with the service manager, by the process that it started."""

    def __init__(self, environment: Mapping[str, str], log: Log) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name  # @ stands for the abstract namespace
        self._log = log
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK  # a manager that is stuck holds nobody up
        self._socket = socket.socket(socket.AF_UNIX, kind) if name else None
        ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # Twice in the time after which the manager would take us for hung, as it advises.
        self._interval = int(environment.get("WATCHDOG_USEC", "0")) / 2e6 if ours else 0.0
        self._due = 0.0
        self._status = ""

    def ready(self) -> None:
        """Everything is up; also the end of a reload."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """The configuration is being read anew; `ready` ends it."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """The relay begins to end."""
        self._tell("STOPPING=1")

    def alive(self, status: str) -> None:
        """Called by the work loop at each turn: feeds the watchdog when that is due, tells `status` if it is new."""
        now = time.monotonic()
        words = []
        if self._interval and now >= self._due:
            self._due = now + self._interval
            words.append("WATCHDOG=1")
        if status != self._status:
            self._status = status
            words.append(f"STATUS={printable(status).encode()[:_STATUS_BYTES].decode(errors='ignore')}")
        if words:
            self._tell("\n".join(words))

    def _tell(self, words: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(words.encode(), self._address)
        except OSError as error:
            self._log("notify_failed", error=error)
