"""Waits for what other processes do, for as long as a slow machine needs.

The environment variable RELAY_PATIENCE (1 by default) multiplies every deadline of the tests.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

PATIENCE: Final = float(os.environ.get("RELAY_PATIENCE", "1"))


def patience(seconds: float) -> float:
    """How long to wait for what takes at most so many seconds on a machine without other work."""
    return seconds * PATIENCE


def until(
    condition: Callable[[], Any],
    seconds: float = 20,
    what: str | Callable[[], object] = "in vain",
    pause: float = 0.05,
) -> Any:
    """Waits until the condition holds, checked every `pause` seconds, and returns its result.

    Fails with `what`, a text or a function that gives it, after `patience(seconds)`.
    """
    deadline = time.monotonic() + patience(seconds)
    while not (found := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(pause)
    return found
