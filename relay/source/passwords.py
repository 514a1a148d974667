"""The source's password: a text, or the output of a command that runs anew for each connection (PasswordCommand)."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from relay.base.errors import ErrorCode
from relay.config.values import Command
from relay.source.failures import SourceLost

TIMEOUT: Final = 20.0
"""The seconds that a command may take."""

_TICK: Final = 0.05  # seconds between two calls of `alive`
_KILL_SECONDS: Final = 1.0
_CHUNK: Final = 1 << 16
_MOST_OUTPUT: Final = 1 << 16
_KEPT_ERRORS: Final = 4096  # bytes of standard error, of which the last line is shown
_SHOWN: Final = 300  # characters of that line


def current(password: str | Command, values: Mapping[str, str], alive: Callable[[], None]) -> bytes:
    """Return the password to log in with now. Raises `SourceLost` (password_command) if the command gives none.

    `values` replace `{name}` in the command's arguments. `alive` is called regularly, and may raise.
    """
    if isinstance(password, Command):
        return _Run([_replaced(word, values) for word in password]).output(alive)
    # PyMySQL would encode text in latin1. A file's bytes that are not UTF-8 are surrogates.
    return password.encode("utf-8", "surrogateescape")


def _replaced(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


class _Run:
    """One run of a command, without a shell. It and what it starts are killed if it does not end in time."""

    def __init__(self, words: list[str]) -> None:
        self._program = words[0]
        self._output = self._errors = b""
        # The command needs the environment, for its own credentials, but not the relay's secrets in it.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                env=environment, process_group=0,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # ValueError: a NUL in a word
            raise self._failed(f"cannot be started: {getattr(error, 'strerror', None) or error}") from None

    def output(self, alive: Callable[[], None]) -> bytes:
        """Return the first line that it prints."""
        stdout, stderr = self._process.stdout, self._process.stderr
        assert stdout is not None and stderr is not None
        with stdout, stderr, selectors.DefaultSelector() as selector:
            try:
                for pipe in (stdout, stderr):
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe, selectors.EVENT_READ)
                self._wait(selector, alive)
            finally:
                self._kill()
        code = self._process.returncode
        if code:
            raise self._failed(f"exited with status {code}" if code > 0 else f"was ended by signal {-code}")
        if not (line := self._output.partition(b"\n")[0].removesuffix(b"\r")):
            raise self._failed("printed no password")
        return line

    def _kill(self) -> None:
        """Kill the command with all that it has started, as far as the relay's user may: sudo cannot be killed."""
        with suppress(ProcessLookupError, PermissionError):
            # The process id is still the command's own, because nobody has waited for it.
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)

    def _wait(self, selector: selectors.BaseSelector, alive: Callable[[], None]) -> None:
        until = time.monotonic() + TIMEOUT
        while True:
            alive()
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            for key, _ in selector.select(0 if ended else _TICK):
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is self._process.stdout:
                    self._output += data
                else:
                    self._errors = (self._errors + data)[-_KEPT_ERRORS:]
            if ended:
                return
            if len(self._output) > _MOST_OUTPUT:
                raise self._failed(f"printed more than {_MOST_OUTPUT} bytes")
            if time.monotonic() > until:
                raise self._failed(f"did not end within {TIMEOUT:.0f} s")
            if not selector.get_map():  # it has closed its pipes, and runs on
                time.sleep(_TICK)

    def _failed(self, what: str) -> SourceLost:
        lines = self._errors.decode("utf-8", "replace").strip().splitlines()
        says = f": {lines[-1].strip()[:_SHOWN]}" if lines else ""
        cause = f"get the password: PasswordCommand {self._program} {what}{says}"
        return SourceLost(cause, code=ErrorCode.PASSWORD_COMMAND)
