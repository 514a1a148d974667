"""The journal's files, byte by byte: segments, and frames as they are and as they must be written.

Unlike a reader of the journal, this module continues after damage, and can write. docs/internals/journal.md has the
format.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from relay._native import crc32c
from relay.base.errors import RelayError, StopCode

HEADER: Final = 64
"""The bytes of a segment before its first frame."""
_MAGIC: Final = 0x4A594C52
_VERSION: Final = 3
_FIELDS: Final = struct.Struct("<IIQQQQ")  # magic, version, generation, base, size, flushed
_CRC: Final = struct.Struct("<I")
_FLUSHED_NOW: Final = struct.Struct("<Q")
_FLUSHED_NOW_AT: Final = 48
_FRAME: Final = struct.Struct("<II")  # length, CRC
_CONTINUES: Final = 0xFFFFFFFF
_BEGINNINGS: Final = frozenset(
    bytes(pair)
    for pair in ((0x93, 1), (0x98, 2), (0x95, 3), (0x96, 3), (0x93, 4), (0x96, 5), (0x95, 6), (0x97, 6), (0x94, 7))
)
"""The valid beginnings of a payload: number of fields, and kind."""


class Mark(Enum):
    """What may be at a position instead of a whole frame."""

    END = "nothing"
    NEXT = "the next segment continues"
    DAMAGED = "damage"


class Head(NamedTuple):
    """A segment's header; `flushed` is the last position that it knows to be on disk."""

    generation: int
    flushed: int


def frame_size(payload: int) -> int:
    """Return the size of a frame with a payload of that many bytes."""
    return _FRAME.size + (payload + 7 & ~7)


def frame(payload: bytes) -> bytes:
    """Return the frame around a payload."""
    return (_FRAME.pack(len(payload), crc32c(payload)) + payload).ljust(frame_size(len(payload)), b"\0")


class Segment:
    """A mapped file of the journal. Positions are the journal's."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base = int(path.stem)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.end = self.base + len(self._map)

    def close(self) -> None:
        """Write changes to disk, and close."""
        self._map.flush()
        self._map.close()

    @property
    def first(self) -> int:
        """The position of the first frame."""
        return self.base + HEADER

    def where(self, position: int) -> str:
        """Return a position as text: file and offset."""
        return f"{self.path.name}, offset {position - self.base}"

    def head(self) -> Head | None:
        """Return the header, None if it is damaged. Raises `RelayError` for a newer format."""
        magic, version, generation, base, size, flushed = _FIELDS.unpack_from(self._map)
        whole = _CRC.unpack_from(self._map, _FIELDS.size)[0] == crc32c(self._map[: _FIELDS.size])
        if not whole or magic != _MAGIC:
            return None
        if version > _VERSION:
            cause = f"its format is {version}, this release knows up to {_VERSION}"
            raise RelayError(StopCode.NEWER_FORMAT, "repair the journal", cause, position=self.path.name)
        if base != self.base or size != self.end - self.base:
            return None
        return Head(generation, max(flushed, _FLUSHED_NOW.unpack_from(self._map, _FLUSHED_NOW_AT)[0]))

    def write_head(self, generation: int, flushed: int, now: int) -> None:
        """Write a new header; `flushed` is the flushed position at the segment's creation, `now` the current one."""
        fields = _FIELDS.pack(_MAGIC, _VERSION, generation, self.base, self.end - self.base, flushed)
        head = (fields + _CRC.pack(crc32c(fields))).ljust(HEADER, b"\0")
        self._map[:HEADER] = head
        _FLUSHED_NOW.pack_into(self._map, _FLUSHED_NOW_AT, now)

    def read(self, position: int) -> bytes | Mark:
        """Return the payload of the whole frame at a position, or a mark if there is none."""
        at = position - self.base
        if position % 8 or position + _FRAME.size > self.end:
            return Mark.DAMAGED
        length, crc = _FRAME.unpack_from(self._map, at)
        if length in (0, _CONTINUES):
            return Mark.NEXT if length else Mark.END
        at += _FRAME.size
        if position + frame_size(length) > self.end or self._map[at : at + 2] not in _BEGINNINGS:
            return Mark.DAMAGED
        payload = self._map[at : at + length]
        return payload if crc32c(payload) == crc else Mark.DAMAGED

    def write(self, position: int, data: bytes) -> None:
        """Write bytes at a position."""
        self._map[position - self.base : position - self.base + len(data)] = data

    def continues(self) -> bool:
        """Whether all frames are whole and the journal continues in another file."""
        position = self.first
        while isinstance(read := self.read(position), bytes):
            position += frame_size(len(read))
        return read is Mark.NEXT

    def whole_frames_after(self, position: int) -> Iterator[int]:
        """Positions after `position` where bytes form a whole frame, wherever the frame before ends."""
        for at in range(position + 8 - position % 8, self.end - _FRAME.size, 8):
            if isinstance(self.read(at), bytes):
                yield at


def create_segment(folder: Path, base: int, size: int) -> Segment:
    """Create a file that begins at `base`, without header and frames."""
    path = folder / f"{base:020d}.seg"
    with path.open("wb") as file:
        file.truncate(size)
    return Segment(path)


def segments(folder: Path) -> list[Segment]:
    """Open all segments of a journal, oldest first. Raises `RelayError` if there is none, or one is missing."""
    found = [Segment(path) for path in sorted(folder.glob("*.seg")) if path.stat().st_size > HEADER]
    if not found:
        raise RelayError(StopCode.JOURNAL_LOST, "repair the journal", "there is none", position=str(folder))
    for earlier, later in pairwise(found):
        if earlier.end != later.base:
            cause = f"after {earlier.path.name} a file is missing, or has another length"
            raise RelayError(StopCode.JOURNAL_LOST, "repair the journal", cause, position=str(folder))
    return found
