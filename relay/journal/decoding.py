"""Turn content of frames that Python cannot decode into the fatal error of a damaged journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from relay._native import JournalError, JournalReader
from relay.errors import StopCode


@contextmanager
def decoding(journal: JournalReader, position: int) -> Iterator[None]:
    """Decode the frame at `position`, or what it contains, in the block.

    Raises `JournalError` (journal_corrupt) with file and offset if that fails.
    """
    try:
        yield
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        segment = journal.segment(position)
        where = f"{segment:020}.seg, offset {position - segment}"
        cause = f"{where}: the frame at position {position} is malformed: {error}"
        raise JournalError(StopCode.JOURNAL_CORRUPT, "read journal", cause) from error
