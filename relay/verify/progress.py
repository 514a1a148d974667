"""How far a verification has come: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self, TextIO

from relay.verify.run import Progress

_WIDTH: Final = 30
_BAR_SECONDS: Final = 0.1
_LINE_SECONDS: Final = 10.0


class Bar:
    """Shows progress on a stream while in its `with` block."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._next = _BAR_SECONDS if self._terminal else _LINE_SECONDS
        self._shown = False

    def __enter__(self) -> Self:
        """Nothing is shown yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, progress: Progress) -> None:
        """Show it, if it is time to."""
        if progress.seconds < self._next:
            return
        self._next = progress.seconds + (_BAR_SECONDS if self._terminal else _LINE_SECONDS)
        speed = progress.rows / progress.seconds
        text = f"{progress.done:4.0%}  {progress.rows:,} rows  {speed:,.0f} rows/s  {progress.place}"
        if self._terminal:
            filled = round(progress.done * _WIDTH)
            self._stream.write(f"\rverifying [{'#' * filled}{'-' * (_WIDTH - filled)}] {text}\x1b[K")
        else:
            self._stream.write(f"verifying {text}\n")
        self._stream.flush()
        self._shown = True
