"""The standard output of commands that print much."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def closable_output() -> Iterator[None]:
    """End the block without an error when the reader of the output closes it, as `head` does."""
    try:
        yield
    except BrokenPipeError:
        # The interpreter flushes the rest of the output when it ends: discard it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
