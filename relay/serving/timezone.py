"""The time zone in which a process prints TIMESTAMP values."""

from __future__ import annotations

import os
import re
import time
import zoneinfo
from importlib.util import find_spec
from pathlib import Path

from relay.errors import ErrorCode, RelayError


def set_process_zone(name: str) -> None:
    """Make `UTC`, `+02:00` or `Europe/Brussels` the zone of this process. Raises `RelayError` (config)."""
    os.environ["TZ"] = posix_zone(name)
    time.tzset()


def posix_zone(name: str) -> str:
    """The zone as the C library takes it: offsets count the other way there, names are files."""
    offset = re.fullmatch(r"([+-])(\d{1,2}:\d{2})", name)
    if offset:
        # A zone's own name has no colon: with one the C library takes all of it for UTC.
        return f"<{name.replace(':', '')}>{'-' if offset[1] == '+' else '+'}{offset[2]}"
    folders = [Path(folder) for folder in zoneinfo.TZPATH]
    stand_in = find_spec("tzdata")  # for where the system has no zones
    if stand_in is not None and stand_in.origin is not None:
        folders.append(Path(stand_in.origin).parent / "zoneinfo")
    for folder in folders:
        if (folder / name).is_file():
            return f":{folder / name}"
    if name == "UTC":
        return "UTC0"
    raise RelayError(
        ErrorCode.CONFIG, "set time zone", f"no file for {name}", position="[Relay] TimeZone", hint="install tzdata"
    )
