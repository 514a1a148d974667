"""The cursor of the line log: one small document beside its files, replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from relay.datadir.sync import sync_path

NAME: Final = ".relaylogs.cursor"


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """Everything before `position` of the journal `generation` is in the log, or does not belong in it.

    `sequence` is the journal's number of the next change at that position, 0 if unknown. `file` is the name of the file
    written last and `length` its bytes, "" and 0 before the first line. Anything beyond them in the file does not
    count.
    """

    generation: int
    position: int
    sequence: int
    file: str
    length: int


def load(folder: Path) -> Cursor | None:
    """Load the cursor from the log's folder, None if there is none. Raises `ValueError` if it is damaged."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Cursor)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


def save(folder: Path, cursor: Cursor) -> None:
    """Replace the cursor. The new one is on disk on return; a kill leaves the old one or the new one."""
    made = folder / f"{NAME}.new"
    fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        rest = memoryview(msgspec.json.encode(cursor) + b"\n")
        while rest:  # a nearly full disk accepts only a part
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(made, folder / NAME)
    sync_path(folder)
