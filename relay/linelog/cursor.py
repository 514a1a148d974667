"""Where the log stands: one small document beside its files, replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

NAME: Final = ".relaylogs.cursor"


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """Everything before `position` of the journal `generation` is in the log, or was not wanted there.

    `sequence` is the journal's number of the next change then, 0 if not known; `file` the name of the file written
    last and `length` its bytes, "" and 0 before the first line. What the file has beyond them does not count.
    """

    generation: int
    position: int
    sequence: int
    file: str
    length: int


def load(folder: Path) -> Cursor | None:
    """The cursor in the log's folder, None if there is none. Raises `ValueError` for anything else."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Cursor)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


def save(folder: Path, cursor: Cursor) -> None:
    """Replace the cursor. It is on disk when this returns; if this is killed, the old one is, or the new one."""
    made = folder / f"{NAME}.new"
    fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        rest = memoryview(msgspec.json.encode(cursor) + b"\n")
        while rest:  # a disk that is nearly full takes a part
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(made, folder / NAME)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Let names that were made or removed in it be on disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
