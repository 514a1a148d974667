"""The lake: every change as typed Parquet, and a commit log that says which files count.

`read_batches` yields the changes as Arrow batches in memory, without a lake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay.lake.batches import Batch, read_batches

__all__ = ["Batch", "read_batches"]


def __getattr__(name: str) -> Any:
    """Import the names above on first use: the modules below this package do not need `batches`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from relay.lake import batches

    return getattr(batches, name)
