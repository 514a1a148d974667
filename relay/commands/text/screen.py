"""A full-screen view in the terminal: it is updated without flicker, and restores the shell's text at the end."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import FrameType
from typing import Final, Self, TextIO

import click

from relay.base.errors import RelayError
from relay.commands.text.columns import fit
from relay.commands.text.live import Line, Style, frame
from relay.commands.text.stat import WIDTH
from relay.monitoring.stat import Stat

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # the alternate screen, no cursor, no wrapping
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN: Final = "\x1b[?2026h\x1b[H"  # terminals that support it show the text up to _END at once
_END: Final = "\x1b[?2026l"
_PLAIN: Final = {Style.PLAIN: "", Style.HEADING: "\x1b[1m", Style.ALARM: "\x1b[1m"}
_COLOURED: Final = _PLAIN | {Style.ALARM: "\x1b[1;31m"}


class Screen:
    """Show frames on a terminal while in its `with` block. SIGTERM and SIGHUP also restore the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._styles = _PLAIN if os.environ.get("NO_COLOR") else _COLOURED

    def __enter__(self) -> Self:
        """Switch to the alternate screen."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _exit)
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        """Switch back to the normal screen."""
        self._write(_LEAVE)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGWINCH})

    def show(self, draw: Callable[[int, int], list[Line]]) -> None:
        """Replace the frame with what `draw` returns for the terminal's columns and lines, in one write."""
        columns, lines = shutil.get_terminal_size()
        frame = draw(columns, lines)
        # Writes all columns: to erase from the cursor on would also erase the last column, where the cursor remains.
        frame += [Line("")] * (lines - len(frame))
        body = "\r\n".join(f"{self._styles[line.style]}{fit(line.text, columns)}\x1b[0m" for line in frame)
        self._write(_BEGIN + body + _END)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def watch(collect: Callable[[], Stat], seconds: float) -> None:
    """Show the document that `collect` returns, every `seconds` until interrupted. Wait for a relay that stops.

    If standard output is not a terminal, prints one frame of 80 columns after another. Raises the `RelayError` of the
    first call.
    """
    now, before, trouble = collect(), None, ""
    terminal = sys.stdout.isatty()
    with Screen(sys.stdout) if terminal else nullcontext() as screen:
        while True:
            again = time.monotonic() + seconds
            if screen is None:
                click.echo("\n".join(line.text for line in frame(now, before, WIDTH, None, trouble)) + "\n")
                time.sleep(seconds)
            else:
                draw = partial(frame, now, before, trouble=trouble)
                screen.show(draw)
                while _resized(again - time.monotonic()):
                    screen.show(draw)
            try:
                now, before, trouble = collect(), now, ""
            except RelayError as error:
                trouble = f"{error} ({error.hint})"


def _resized(seconds: float) -> bool:
    """Wait that long. Return True at once if the size of the terminal changes."""
    return signal.sigtimedwait({signal.SIGWINCH}, max(0.0, seconds)) is not None


def _exit(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
