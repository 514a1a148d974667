"""Waits for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], seconds: float = 20, what: str = "in vain", pause: float = 0.05) -> Any:
    """Waits until the condition holds, checked every `pause` seconds, and returns its result.

    Fails with `what` in the end.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(pause)
    return found
