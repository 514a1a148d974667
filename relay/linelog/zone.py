"""The time zone of log lines. TIMESTAMP values are in another one, the process's zone."""

from __future__ import annotations

import os
import time
from typing import Final

from relay.base import timezone

LOCAL: Final = "local"
_STEP: Final = 900  # seconds: zones change their offset only at quarters of an hour in UTC


class Zone:
    """A zone: `local` (the machine's), `UTC`, `+02:00` or `Europe/Brussels`.

    A `local` zone must be created before the process sets a zone of its own.
    """

    def __init__(self, name: str) -> None:
        self._variable = os.environ.get("TZ") if name == LOCAL else timezone.posix_zone(name)

    def offset(self, timestamp: int) -> tuple[int, int, int]:
        """Return the seconds east of UTC at that time, and two Unix times between which this holds."""
        values = os.environ.get("TZ")
        _set_process_zone(self._variable)
        try:
            east = time.localtime(timestamp).tm_gmtoff
        finally:
            _set_process_zone(values)
        since = timestamp - timestamp % _STEP
        return east, since, since + _STEP

    def day(self, timestamp: int) -> int:
        """Days since 1970-01-01 in this zone."""
        return (timestamp + self.offset(timestamp)[0]) // 86400


def _set_process_zone(variable: str | None) -> None:
    if variable is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = variable
    time.tzset()
