"""Pauses between attempts. It needs nothing but the standard library: the client uses it alone."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Final

_SECONDS: Final = (0.05, 2.0)  # the first pause, and the longest


def pauses(patience: float) -> Iterator[float]:
    """Yield the seconds to wait before each new attempt, until `patience`, in seconds, ends."""
    until = time.monotonic() + patience
    pause, longest = _SECONDS
    while time.monotonic() + pause < until:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, longest)
