"""The errors of damaged bytes, and the positions that they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from relay.base.errors import RelayError, StopCode


@contextmanager
def reading(operation: str, what: str, position: str = "") -> Iterator[None]:
    """Convert errors of reading to `RelayError` (unknown_event) with the cause "`what` is malformed"."""
    try:
        yield
    except (ValueError, IndexError) as error:
        raise malformed(operation, what, position, error) from error


def malformed(operation: str, what: str, position: str, cause: Exception | str) -> RelayError:
    """Return the error (unknown_event) that says "`what` is malformed: `cause`"."""
    return RelayError(StopCode.UNKNOWN_EVENT, operation, f"{what} is malformed: {cause}", position=position)


def event_position(end: int, length: int, file: str = "") -> str:
    """Return the beginning of an event, for errors, as far as it is known."""
    if end < length:  # an event outside of the file, or without a position
        return file
    return f"{file}:{end - length}" if file else f"position {end - length}"
