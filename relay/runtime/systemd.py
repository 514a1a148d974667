"""Report the relay's state to the service manager that started it, by sd_notify(3): datagrams to a socket.

Without a socket ($NOTIFY_SOCKET), it sends nothing.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Final

from relay.base.errors import printable
from relay.base.log import Log

_STATUS_BYTES: Final = 1000


class Notifier:
    """The connection to the service manager, used by the process that it started."""

    def __init__(self, environment: Mapping[str, str], log: Log) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name  # @ stands for the abstract namespace
        self._log = log
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK  # does not wait for a manager that hangs
        self._socket = socket.socket(socket.AF_UNIX, kind) if name else None
        ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # Half of the time after which the manager regards the relay as hung, as its manual advises.
        self._interval = int(environment.get("WATCHDOG_USEC", "0")) / 2e6 if ours else 0.0
        self._due = 0.0
        self._status = ""

    def ready(self) -> None:
        """Say that all processes are up, or that a reload has ended."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Say that a reload begins; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """Say that the relay begins to stop."""
        self._send("STOPPING=1")

    def alive(self, status: str) -> None:
        """Feed the watchdog when it is due, and send `status` if it is new. The work loop calls this at each turn."""
        now = time.monotonic()
        words = []
        if self._interval and now >= self._due:
            self._due = now + self._interval
            words.append("WATCHDOG=1")
        if status != self._status:
            self._status = status
            words.append(f"STATUS={printable(status).encode()[:_STATUS_BYTES].decode(errors='ignore')}")
        if words:
            self._send("\n".join(words))

    def _send(self, words: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(words.encode(), self._address)
        except OSError as error:
            self._log("notify_failed", error=error)
