"""The lake: every change as typed Parquet, and a commit log that says which files count.

`changes` and `current` read a table of a lake as Arrow, without Spark. `read_batches` yields changes as Arrow batches
in memory, without a lake.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from relay.lake.batches import Batch, read_batches
    from relay.lake.reading import changes, current

__all__ = ["Batch", "changes", "current", "read_batches"]

_MODULES: Final = {"Batch": "batches", "read_batches": "batches", "changes": "reading", "current": "reading"}


def __getattr__(name: str) -> Any:
    """Import the names above on first use: the modules below this package do not need theirs."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"relay.lake.{_MODULES[name]}"), name)
