"""A screen of the terminal that is written over and over: no flicker, nothing left behind, the shell's text kept."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import FrameType, TracebackType
from typing import Final, Self, TextIO

import click

from relay.columns import fit
from relay.errors import RelayError
from relay.live import Line, Style, frame
from relay.render import WIDTH
from relay.stat import Stat

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"  # the other screen, no cursor, nothing wraps
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_BEGIN: Final = "\x1b[?2026h\x1b[H"  # terminals that know it show what follows at once
_END: Final = "\x1b[?2026l"
_PLAIN: Final = {Style.PLAIN: "", Style.HEADING: "\x1b[1m", Style.ALARM: "\x1b[1m"}
_COLOURED: Final = _PLAIN | {Style.ALARM: "\x1b[1;31m"}


class Screen:
    """Shows frames on a terminal while in its `with` block; SIGTERM and SIGHUP leave it in order, too."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._styles = _PLAIN if os.environ.get("NO_COLOR") else _COLOURED

    def __enter__(self) -> Self:
        """Turn to the other screen."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _told)
        self._write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Turn back to what was there before."""
        self._write(_LEAVE)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGWINCH})

    def show(self, draw: Callable[[int, int], list[Line]]) -> None:
        """Write what `draw` gives for these columns and lines over what is shown, in one write."""
        columns, lines = shutil.get_terminal_size()
        frame = draw(columns, lines)
        # Every place is written: to erase what is right of the cursor would take the last column, where it stays.
        frame += [Line("")] * (lines - len(frame))
        body = "\r\n".join(f"{self._styles[line.style]}{fit(line.text, columns)}\x1b[0m" for line in frame)
        self._write(_BEGIN + body + _END)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def watch(look: Callable[[], Stat], seconds: float) -> None:
    """Show what `look` gives every `seconds`, until interrupted; a relay that goes away is waited for.

    A stream that is no terminal gets one frame after another, of 80 columns. Raises the `RelayError` of the first look.
    """
    now, before, trouble = look(), None, ""
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
                now, before, trouble = look(), now, ""
            except RelayError as error:
                trouble = f"{error} ({error.hint})"


def _resized(seconds: float) -> bool:
    """Wait that long; True, at once, if the terminal's size changed."""
    return signal.sigtimedwait({signal.SIGWINCH}, max(0.0, seconds)) is not None


def _told(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
