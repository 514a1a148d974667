"""The files of the log: names, writes and deletes them."""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Final, NamedTuple, Self

from relay.datadir.sync import sync_path

SUFFIXES: Final = {"csv": "txt", "json": "jsonl"}
FORMS: Final = {suffix: form for form, suffix in SUFFIXES.items()}
_EPOCH: Final = date(1970, 1, 1)
_NAMES: Final = re.compile(r"relaylogs-(\d{4})(\d{2})(\d{2})(?:\.(\d+))?\.(txt|jsonl)", re.ASCII)


class Name(NamedTuple):
    """A file's name: `relaylogs-YYYYMMDD.txt`, as in the original, with `.2`, `.3` ... for further parts of a day.

    `day` counts from 1970-01-01, `part` from 1; `suffix` depends on the format.
    """

    day: int
    part: int
    suffix: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a file name; None for any other name."""
        match = _NAMES.fullmatch(text)
        if not match:
            return None
        year, month, day, part, suffix = match.groups()
        try:
            days = (date(int(year), int(month), int(day)) - _EPOCH).days
        except ValueError:  # not a date
            return None
        name = cls(days, int(part or 1), suffix)
        return name if str(name) == text else None

    def __str__(self) -> str:
        """Return the name in the folder."""
        part = f".{self.part}" if self.part > 1 else ""
        return f"relaylogs-{_EPOCH + timedelta(self.day):%Y%m%d}{part}.{self.suffix}"


class LogFile:
    """A log file, opened for appending. `length` is its known end."""

    def __init__(self, folder: Path, name: Name) -> None:
        self.name = name
        self._path = folder / str(name)
        new = not self._path.exists()
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self.length = os.fstat(self._fd).st_size
        if new:
            sync_path(folder)

    def cut(self, length: int) -> int:
        """Cut the file to `length`; return how many bytes were beyond it, negative if it is shorter."""
        beyond = self.length - length
        if beyond > 0:
            os.ftruncate(self._fd, length)
            os.fsync(self._fd)
            self.length = length
        return beyond

    def append(self, lines: bytes) -> None:
        """Append lines. If the last line in the file is incomplete, they begin on a new line."""
        complete = self.length == 0 or os.pread(self._fd, 1, self.length - 1) == b"\n"
        rest = memoryview(lines if complete else b"\n" + lines)
        while rest:
            written = os.write(self._fd, rest)
            self.length += written
            rest = rest[written:]

    def sync(self) -> int:
        """Flush everything written to disk; return the size of the file in bytes."""
        os.fsync(self._fd)
        return os.fstat(self._fd).st_size

    def is_in_place(self) -> bool:
        """Whether the file still has its name. Otherwise it was moved or deleted."""
        try:
            return os.path.samestat(os.fstat(self._fd), self._path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def next_name(folder: Path, day: int, suffix: str, full: int) -> Name:
    """Return the name of the file for `day`.

    It is that of the day's last part, or the next one if that has `full` bytes (0: no limit).
    """
    parts = [name.part for name in names(folder) if (name.day, name.suffix) == (day, suffix)]
    name = Name(day, max(parts, default=1), suffix)
    if parts and full and (folder / str(name)).stat().st_size >= full:
        return name._replace(part=name.part + 1)
    return name


def names(folder: Path) -> list[Name]:
    """Return the names of all log files in the folder, the oldest first."""
    return sorted(name for entry in os.scandir(folder) if (name := Name.parse(entry.name)) and entry.is_file())


def delete_before(folder: Path, day: int, current: str) -> list[str]:
    """Delete the log's files of days before `day`, except `current`; return their names."""
    gone = [str(name) for name in names(folder) if name.day < day and str(name) != current]
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    if gone:
        sync_path(folder)
    return gone
