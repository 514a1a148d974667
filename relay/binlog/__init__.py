"""The binlog of MySQL and MariaDB servers as a Python API (docs/binlog-api.md). The relay's reader uses it too.

All names here are public. They are imported on first use, so that the part that only parses bytes works without a
database driver and sockets.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from relay._native import GtidSet
    from relay.binlog import events
    from relay.binlog.decoder import Decoder
    from relay.binlog.files import BinlogFile
    from relay.binlog.follow import Change, Changes, changes
    from relay.binlog.replication import Flag, Replication
    from relay.binlog.stream import Stream
    from relay.source.errors import BinlogError, DescriptionError, Misuse, MisuseError

__all__ = [
    "BinlogError",
    "BinlogFile",
    "Change",
    "Changes",
    "Decoder",
    "DescriptionError",
    "Flag",
    "GtidSet",
    "Misuse",
    "MisuseError",
    "Replication",
    "Stream",
    "changes",
    "events",
]

_HOMES: Final = {
    "BinlogError": "relay.source.errors",
    "BinlogFile": "relay.binlog.files",
    "Change": "relay.binlog.follow",
    "Changes": "relay.binlog.follow",
    "Decoder": "relay.binlog.decoder",
    "DescriptionError": "relay.source.errors",
    "Flag": "relay.binlog.replication",
    "GtidSet": "relay._native",
    "Misuse": "relay.source.errors",
    "MisuseError": "relay.source.errors",
    "Replication": "relay.binlog.replication",
    "Stream": "relay.binlog.stream",
    "changes": "relay.binlog.follow",
}


def __getattr__(name: str) -> Any:
    if name == "events":
        return import_module("relay.binlog.events")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
