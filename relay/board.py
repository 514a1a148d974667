"""What the lake's processes say of themselves, in shared memory of one writer, for the stat document.

Apart from the arena, whose one named stop means that nothing more is read from the source: an export that stops takes
nothing from the clients.
"""

from __future__ import annotations

import mmap
import zlib
from typing import Final

import msgspec

_SIZE: Final = 8192  # bytes of a copy
_HEAD: Final = 2  # words before the text: its bytes, its CRC


class Stop(msgspec.Struct):
    """A named stop: why something does not go on, and what to do."""

    code: str
    text: str
    hint: str


class LakeProcess(msgspec.Struct, kw_only=True):
    """Common to both. `at`: when it said so, Unix seconds; `stop`: why it stopped, and was not yet seen to go on."""

    state: str = "starting"
    at: float = 0.0
    stop: Stop | None = None


class ExportStatus(LakeProcess, kw_only=True):
    """The exporter: starting, catching up, following, stopped.

    Everything up to `seq` is in the lake: up to `position` of the journal, up to `file` and `offset` of the source.
    `behind_since`: since when something waits, Unix seconds, 0 if nothing does; on the source's clock while the
    exporter catches up. `rows` (flat, an update is two) and `files` since this process began.
    """

    seq: int = 0
    position: int = 0
    file: str = ""
    offset: int = 0
    behind_since: float = 0.0
    rows: int = 0
    files: int = 0


class SnapshotStatus(LakeProcess, kw_only=True):
    """The snapshotter: starting, idle, reading, waiting (for the export), manual, stopped; `table` the one under way.

    `rows` of it are read, of about `total`; `left` tables come after it.
    """

    table: str = ""
    rows: int = 0
    total: int = 0
    left: int = 0


class Board:
    """Shows one text. Made before the fork; one process writes, any may read, and either may be killed meanwhile."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, 8 + 2 * _SIZE)).cast("Q")

    def write(self, content: bytes) -> None:
        """Show `content`. What does not fit is a `ValueError`."""
        room = _SIZE - 8 * _HEAD
        if len(content) > room:
            raise ValueError(f"{len(content)} bytes on a board of {room}")
        turn = self._words[0] + 1
        copy = self._copy(turn)
        copy[0], copy[1] = len(content), zlib.crc32(content)
        copy[_HEAD:].cast("B")[: len(content)] = content
        self._words[0] = turn  # one store: from here on the other copy is free

    def read(self) -> bytes:
        """What it shows, b"" if nothing yet."""
        while turn := self._words[0]:
            copy = self._copy(turn)
            content = bytes(copy[_HEAD:].cast("B")[: copy[0]])
            if zlib.crc32(content) == copy[1]:
                return content  # else it was overwritten meanwhile, and there is a newer one
        return b""

    def _copy(self, turn: int) -> memoryview:
        first = 1 + (turn & 1) * (_SIZE // 8)
        return self._words[first : first + _SIZE // 8]


def export_status(board: Board) -> ExportStatus:
    """What the exporter said last."""
    content = board.read()
    return msgspec.msgpack.decode(content, type=ExportStatus) if content else ExportStatus()


def snapshot_status(board: Board) -> SnapshotStatus:
    """What the snapshotter said last."""
    content = board.read()
    return msgspec.msgpack.decode(content, type=SnapshotStatus) if content else SnapshotStatus()
