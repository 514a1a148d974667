"""The lake: every change as typed Parquet, and the log of commits that says which files count.

`read_batches` gives the changes as Arrow batches in memory, without a lake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay.lake.batches import Batch, read_batches

__all__ = ["Batch", "read_batches"]


def __getattr__(name: str) -> Any:
    """The names above, imported when they are first used: what is below this package needs nothing of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from relay.lake import batches

    return getattr(batches, name)
