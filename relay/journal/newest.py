"""Whether the newest file of the journal is there: without it a reader would write another one in its place."""

from __future__ import annotations

from pathlib import Path

from relay.errors import RelayError, StopCode

_HEADER = 64  # bytes of a file before its first frame


def check(folder: Path, reached: int) -> None:
    """Raise `RelayError` (journal_corrupt) if queues have reached a position behind the end of the journal's files.

    A journal without files is another matter: it is a new one.
    """
    sizes = {int(path.stem): path.stat().st_size for path in folder.glob("*.seg")}
    ends = [base + size for base, size in sizes.items() if size > _HEADER]
    if ends and reached > max(ends):
        cause = f"the file of position {max(ends)} is missing or empty, and queues stand at {reached}"
        raise RelayError(StopCode.JOURNAL_CORRUPT, "open the journal", cause, position=str(folder))
