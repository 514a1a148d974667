"""Waiting for what other processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], seconds: float = 20, what: str = "in vain", pause: float = 0.05) -> Any:
    """Wait until it holds, asked every `pause` seconds, and return what it gave; fails, and says `what`, in the end."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(pause)
    return found
