"""Check that the newest file of the journal exists: otherwise a reader would write another one in its place."""

from __future__ import annotations

from pathlib import Path

from relay.base.errors import RelayError, StopCode

_HEADER = 64  # bytes of a file before its first frame


def check(folder: Path, reached: int) -> None:
    """Raise `RelayError` (journal_corrupt) if queues have reached a position beyond the journal's files.

    A journal without files is a new one, and passes.
    """
    sizes = {int(path.stem): size for path in folder.glob("*.seg") if (size := path.stat().st_size) > _HEADER}
    end = max((base + size for base, size in sizes.items()), default=reached)
    if reached > end:
        cause = (
            f"the file of position {end} is missing or empty, or {max(sizes):020d}.seg was truncated;"
            f" queues are at {reached}"
        )
        raise RelayError(StopCode.JOURNAL_CORRUPT, "open the journal", cause, position=str(folder))
