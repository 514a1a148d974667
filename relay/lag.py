"""How far behind the source the relay is, and how long the source will still have what was not read."""

from __future__ import annotations

from typing import Final

from relay.board import Watch

WATCH_SECONDS: Final = 60.0
"""Age at which what was seen of the source says nothing of its lag any more: it may take that long to answer."""


def unread(watch: Watch, file: str, position: int, now: float) -> int | None:
    """`Source.lag_bytes`: what there was at the last watch, and was not read up to this place; None if nobody knows."""
    if watch.lag_bytes is None or now - watch.at >= WATCH_SECONDS:
        return None
    if file == watch.file:
        return max(0, watch.position - position)
    later = (len(file), file) > (len(watch.file), watch.file)  # their numbers may have grown by a digit
    return 0 if later else watch.lag_bytes


def lags(
    lag_bytes: int | None, expiry: int | None, last_event: float, silent: float, now: float
) -> tuple[float | None, float | None]:
    """`Source.lag_seconds` and `Source.loss_seconds`. All in seconds; `last_event` and `now` are Unix time.

    What was not read is younger than the newest event that was; if nobody knows whether there is such a thing, it is
    younger than what was heard last.
    """
    lag: float | None = None
    if lag_bytes is not None:
        lag = 0.0 if not lag_bytes else max(0.0, now - last_event) if last_event else None
    age = silent if lag is None else lag
    return lag, max(0.0, expiry - age) if expiry else None
