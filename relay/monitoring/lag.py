"""Compute how far the relay is behind the source, and how long the source will keep what was not read yet."""

from __future__ import annotations

from typing import Final

from relay.runtime.process_status import Watch

MAX_PROBE_AGE: Final = 60.0
"""Age at which a probe says nothing about the lag any more; the source may take that long to reply."""


def unread_bytes(watch: Watch, file: str, position: int, now: float) -> int | None:
    """`Source.lag_bytes`: bytes that existed at the last probe and are after this binlog position; None if unknown."""
    if watch.lag_bytes is None or now - watch.at >= MAX_PROBE_AGE:
        return None
    if file == watch.file:
        return max(0, watch.position - position)
    later = (len(file), file) > (len(watch.file), watch.file)  # their numbers may have grown by a digit
    return 0 if later else watch.lag_bytes


def lag_and_loss(
    lag_bytes: int | None, expiry: int | None, last_event: float, silent: float, now: float
) -> tuple[float | None, float | None]:
    """`Source.lag_seconds` and `Source.loss_seconds`. All in seconds; `last_event` and `now` are Unix time.

    Unread events are younger than the newest event that was read. If it is unknown whether there are any, they are
    younger than the last contact with the source.
    """
    lag: float | None = None
    if lag_bytes is not None:
        lag = 0.0 if not lag_bytes else max(0.0, now - last_event) if last_event else None
    age = silent if lag is None else lag
    return lag, max(0.0, expiry - age) if expiry else None
