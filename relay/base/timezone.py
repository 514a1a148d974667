"""The time zone in which a process prints TIMESTAMP values."""

from __future__ import annotations

import os
import re
import time
import zoneinfo
from importlib.util import find_spec
from pathlib import Path

from relay.base.errors import ErrorCode, RelayError


def set_process_zone(name: str) -> None:
    """Set `UTC`, `+02:00` or `Europe/Brussels` as the zone of this process. Raises `RelayError` (config)."""
    os.environ["TZ"] = posix_zone(name)
    time.tzset()


def posix_zone(name: str) -> str:
    """Return the zone in the form of the C library: offsets have the opposite sign, and names are files."""
    offset = re.fullmatch(r"([+-])(\d{1,2}:\d{2})", name)
    if offset:
        # The zone's own name must not have a colon: the C library would then use UTC.
        return f"<{name.replace(':', '')}>{'-' if offset[1] == '+' else '+'}{offset[2]}"
    folders = [Path(folder) for folder in zoneinfo.TZPATH]
    tzdata = find_spec("tzdata")  # for systems without zone files
    if tzdata is not None and tzdata.origin is not None:
        folders.append(Path(tzdata.origin).parent / "zoneinfo")
    for folder in folders:
        if (folder / name).is_file():
            return f":{folder / name}"
    if name == "UTC":
        return "UTC0"
    raise RelayError(
        ErrorCode.CONFIG, "set time zone", f"no file for {name}", position="[Relay] TimeZone", hint="install tzdata"
    )
