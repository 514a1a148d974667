"""The progress of a command: a bar on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import shutil
from typing import Final, Self, TextIO

_WIDTH: Final = 30
_LEAST_WIDTH: Final = 10
_BAR_SECONDS: Final = 0.1
_LINE_SECONDS: Final = 10.0


class Bar:
    """Show progress on a stream while in its `with` block, after `label` ("verifying")."""

    def __init__(self, stream: TextIO, label: str) -> None:
        self._stream = stream
        self._label = label
        self._terminal = stream.isatty()
        self._next = _BAR_SECONDS if self._terminal else _LINE_SECONDS
        self._shown = False

    def __enter__(self) -> Self:
        """Show nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        self.remove()

    def remove(self) -> None:
        """Remove the bar, until it is shown again."""
        if self._shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
        self._shown = False

    def due(self, seconds: float) -> bool:
        """Whether it is time to show something, `seconds` after the beginning."""
        return seconds >= self._next

    def show(self, seconds: float, done: float, text: str) -> None:
        """If it is due, shows the part that is done (`done`, 0 to 1) with `text`."""
        if not self.due(seconds):
            return
        self._next = seconds + (_BAR_SECONDS if self._terminal else _LINE_SECONDS)
        text = f"{done:4.0%}  {text}"
        if self._terminal:
            # A line must not wrap, because it could not be overwritten. Three columns are left for a ^C.
            columns = shutil.get_terminal_size().columns - 3
            width = max(_LEAST_WIDTH, min(_WIDTH, columns - len(f"{self._label} [] {text}")))
            filled = round(done * width)
            line = f"{self._label} [{'#' * filled}{'-' * (width - filled)}] {text}"
            self._stream.write(f"\r{line[:columns]}\x1b[K")
        else:
            self._stream.write(f"{self._label} {text}\n")
        self._stream.flush()
        self._shown = True
