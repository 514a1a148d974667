"""The time zone of lines, which is not that of TIMESTAMP values, the process's."""

from __future__ import annotations

import os
import time
from typing import Final

from relay.serving import timezone

LOCAL: Final = "local"
_STEP: Final = 900  # seconds: zones change their offset at the beginning of a quarter of an hour in UTC


class Zone:
    """`local` (the machine's), `UTC`, `+02:00` or `Europe/Brussels`. Made before the process's own zone is set."""

    def __init__(self, name: str) -> None:
        self._variable = os.environ.get("TZ") if name == LOCAL else timezone.posix_zone(name)

    def offset(self, timestamp: int) -> tuple[int, int, int]:
        """Seconds east of UTC at that time, and since and until when at least, all in Unix seconds."""
        values = os.environ.get("TZ")
        _set(self._variable)
        try:
            east = time.localtime(timestamp).tm_gmtoff
        finally:
            _set(values)
        since = timestamp - timestamp % _STEP
        return east, since, since + _STEP

    def day(self, timestamp: int) -> int:
        """Days since 1970-01-01, in this zone."""
        return (timestamp + self.offset(timestamp)[0]) // 86400


def _set(variable: str | None) -> None:
    if variable is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = variable
    time.tzset()
