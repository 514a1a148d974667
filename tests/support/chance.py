"""The seeds of the tests.

The environment variable RELAY_SEED, a whole number, chooses others than the fixed ones: `make check` sets it.
"""

from __future__ import annotations

import os
from typing import Final

SEED: Final = int(os.environ.get("RELAY_SEED", "0"))
"""0: the fixed seeds."""


def seeds(count: int, first: int = 0) -> range:
    """So many seeds, for a test's parameters: `first` and those after it, or as far behind RELAY_SEED."""
    return range(SEED + first, SEED + first + count)
