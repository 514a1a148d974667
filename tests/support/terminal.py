"""Runs a command of the relay at a terminal of its own, and types what a person would."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import termios
from pathlib import Path
from typing import Any, Self

from tests.support.relay_process import RELAY
from tests.support.waiting import until


class Terminal:
    """A command with a pseudo-terminal as its input, output and controlling terminal.

    `screen` is all that it has shown. Leaving the block kills it.
    """

    def __init__(self, *arguments: str | Path) -> None:
        self.screen = ""
        self._seen = 0
        self._master, self._slave = os.openpty()
        self._process = subprocess.Popen(
            [*RELAY, *map(str, arguments)],
            stdin=self._slave, stdout=self._slave, stderr=self._slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        os.close(self._slave)

    def answer(self, question: str, text: str) -> None:
        """Waits for the question, types the text, and presses Enter."""
        self.press(question, text.encode() + b"\n")

    def press(self, question: str, keys: bytes, seconds: float = 30) -> None:
        """Waits for the question, and presses keys."""

        def asked() -> bool:
            self._read(0.1)
            return question in self.screen[self._seen :]

        until(asked, seconds, lambda: f"no {question!r} on the screen:\n{self.screen}", 0)
        self._seen = self.screen.rindex(question) + len(question)
        os.write(self._master, keys)

    def wait(self, seconds: float = 30) -> int:
        """Waits for the end, reads the rest of the screen, and returns the exit code."""

        def ended() -> bool:
            self._read(0.1)
            return self._process.poll() is not None

        until(ended, seconds, lambda: f"still running:\n{self.screen}", 0)
        while self._read(0):
            pass
        return self._process.returncode

    def echoes(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._slave)[3] & termios.ECHO)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        self.screen += os.read(self._master, 65536).decode(errors="replace").replace("\r", "")
        return True
