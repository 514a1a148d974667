"""The position of a follower of the binlog, in a file."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from relay.base.errors import ErrorCode, RelayError
from relay.datadir.sync import sync_path


class Position(msgspec.Struct, frozen=True):
    """The end of a transaction: its file and offset on one server, and the GTIDs up to it on any."""

    server: str  # ServerFacts.identity
    file: str
    offset: int
    gtid_set: str  # "" if the server has no GTIDs


def load(path: Path) -> Position | None:
    """Return the position, None if there is no file. Raises `RelayError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Position)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RelayError(ErrorCode.ENVIRONMENT, "read the position", error, hint="make the file readable") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RelayError(
            ErrorCode.USAGE, "read the position", error, position=str(path),
            hint="the file is damaged or of something else: name another, or delete it to begin at the newest event",
        ) from error  # fmt: skip


def save(path: Path, position: Position) -> None:
    """Replace the file. The new one is on disk on return; a kill leaves the old one or the new one.

    Raises `RelayError`.
    """
    made = path.with_name(f".{path.name}.new")
    try:
        with open(made, "wb") as file:
            file.write(msgspec.json.encode(position) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
        sync_path(path.parent)
    except OSError as error:
        hint = "make room or the folder writable; the rows since the last save come again"
        raise RelayError(ErrorCode.ENVIRONMENT, "save the position", error, hint=hint) from error
