"""What processes say of themselves, in shared memory of one writer, for the stat document.

Apart from the arena, whose one named stop means that nothing more is read from the source: an export or a log that
stops takes nothing from the clients.
"""

from __future__ import annotations

import mmap
import zlib
from dataclasses import dataclass, field
from typing import Final

import msgspec

STATUS_BYTES: Final = 8192
"""Room for the status of a process."""

SEEN_BYTES: Final = 8 << 20
"""Room for `Seen`; memory is taken where something was written only."""

CDC_BYTES: Final = 8 << 20
"""Room for `CDCStatus`, the same way."""

OUTCOME_BYTES: Final = 1 << 20
"""Room for what came of the last reloads."""

_HEAD: Final = 2  # words before the text: its bytes, its CRC


class Stop(msgspec.Struct):
    """A named stop: why something does not go on, and what to do."""

    code: str
    text: str
    hint: str


class Status(msgspec.Struct, kw_only=True):
    """Common to those below. `at`: Unix seconds of the last word; `stop`: why it stopped, until it is seen to go on."""

    state: str = "starting"
    at: float = 0.0
    stop: Stop | None = None


class ExportStatus(Status, kw_only=True):
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


class SnapshotStatus(Status, kw_only=True):
    """The snapshotter: starting, idle, reading, waiting (for the export), manual, stopped; `table` the one under way.

    `rows` of it are read, of about `total`; `left` tables come after it.
    """

    table: str = ""
    rows: int = 0
    total: int = 0
    left: int = 0


class LogStatus(Status, kw_only=True):
    """The logger of `[Logger]`: starting, catching up, following, stopped.

    Every change up to `position` of the journal is in the log, up to `file` and `offset` of the source. `log_file` is
    the one being written; `lines` and `bytes` since this process began; `behind_since` as of the exporter.
    """

    position: int = 0
    file: str = ""
    offset: int = 0
    log_file: str = ""
    lines: int = 0
    bytes: int = 0
    behind_since: float = 0.0


class CDCStream(msgspec.Struct):
    """A connection to the CDC port, and what it is sent: of `schema`.`table`, if it has asked for one.

    `address` and `port` are the client's. A table that was asked for and is not there yet has no version.

    `version` is the table's last one that was sent, `gtid` the triplet of the last transaction. `lag_bytes` of the
    journal lie between `position`, up to which everything was sent, and what may be sent; 0 if they have nothing of the
    table. `bytes` and `rows` were sent since `since`, Unix seconds.
    """

    user: str
    uuid: str  # what the client says of itself
    address: str
    port: int
    state: str  # wait_auth, unregistered, registered, streaming, closed
    form: str  # json, avro
    schema: str
    table: str
    version: int
    gtid: str
    position: int
    lag_bytes: int
    rows: int
    bytes: int
    since: float


class CDCStatus(Status, kw_only=True):
    """A process that serves the CDC port: starting, catching up (with what the journal has), serving, stopped.

    `refused` logins, `rows` and `bytes` sent since it began. `trouble`: why the file of users cannot be read, "" if it
    can. `left_out`: connections that have no room here.
    """

    position: int = 0
    refused: int = 0
    rows: int = 0
    bytes: int = 0
    trouble: str = ""
    streams: list[CDCStream] = []
    left_out: int = 0


class Counts(msgspec.Struct):
    """Rows by kind; an update is one."""

    insert: int = 0
    update: int = 0
    delete: int = 0


class TableUsage(msgspec.Struct):
    """What happened in a table, whoever asked for it: since `Usage.since`, in the last 1440 and 60 minutes.

    A minute is one of the source's clock; the one that has begun counts. `last`: time of the newest row, Unix seconds.
    `unproven`: rows in all whose names of columns nothing proved.
    """

    schema: str
    table: str
    total: Counts
    day: Counts
    hour: Counts
    last: float
    unproven: int = 0


class Usage(msgspec.Struct):
    """Table usage up to `position` of the journal, counted since `since` (Unix seconds).

    `left_out`: tables that did not fit, those with the fewest rows of the day. `missed`: changes that retention had
    deleted before they could be counted. `trouble`: why the counting does not go on, "" while it does.
    """

    since: float = 0.0
    position: int = 0
    tables: list[TableUsage] = []
    left_out: int = 0
    missed: int = 0
    trouble: str = ""


class Watch(msgspec.Struct):
    """What the source said when it was asked, at Unix seconds `at`, 0 before the first answer.

    `lag_bytes` of its binlog were not yet in the journal; `expiry` is the age in seconds at which it purges binlogs, 0
    for never, as it was told last. `trouble`: why the lag is not known; it is None then.
    """

    at: float = 0.0
    file: str = ""
    position: int = 0
    lag_bytes: int | None = None
    expiry: int | None = None
    trouble: str = ""


class Seen(msgspec.Struct):
    """What only the monitor knows."""

    usage: Usage
    watch: Watch


class Board:
    """Shows one text. Made before the fork; one process writes, any may read, and either may be killed meanwhile.

    It has room for a text of `size` bytes less 16; `size` is a multiple of 8.
    """

    def __init__(self, size: int = STATUS_BYTES) -> None:
        self._size = size
        self._words = memoryview(mmap.mmap(-1, 8 + 2 * size)).cast("Q")

    @property
    def room(self) -> int:
        """Bytes that a text may have."""
        return self._size - 8 * _HEAD

    def write(self, content: bytes) -> None:
        """Show `content`. What does not fit is a `ValueError`."""
        if len(content) > self.room:
            raise ValueError(f"{len(content)} bytes on a board of {self.room}")
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
        words = self._size // 8
        first = 1 + (turn & 1) * words
        return self._words[first : first + words]


@dataclass
class Boards:
    """Those that there are, each named after the process that writes it."""

    exporter: Board = field(default_factory=Board)
    snapshotter: Board = field(default_factory=Board)
    logger: Board = field(default_factory=Board)
    monitor: Board = field(default_factory=lambda: Board(SEEN_BYTES))  # shows a `Seen`
    supervisor: Board = field(default_factory=lambda: Board(OUTCOME_BYTES))  # shows outcomes of reloads
    cdc: list[Board] = field(default_factory=list)  # of each process of the CDC port


def export_status(board: Board) -> ExportStatus:
    """What the exporter said last."""
    content = board.read()
    return msgspec.msgpack.decode(content, type=ExportStatus) if content else ExportStatus()


def snapshot_status(board: Board) -> SnapshotStatus:
    """What the snapshotter said last."""
    content = board.read()
    return msgspec.msgpack.decode(content, type=SnapshotStatus) if content else SnapshotStatus()


def log_status(board: Board) -> LogStatus:
    """What the logger said last."""
    content = board.read()
    return msgspec.msgpack.decode(content, type=LogStatus) if content else LogStatus()


def cdc_status(board: Board) -> CDCStatus:
    """What a process of the CDC port said last."""
    content = board.read()
    return msgspec.msgpack.decode(content, type=CDCStatus) if content else CDCStatus()


def show_seen(board: Board, seen: Seen) -> None:
    """Show it, without the tables that have no room."""
    content = msgspec.msgpack.encode(seen)
    usage = seen.usage
    if len(content) > board.room:
        usage = msgspec.structs.replace(usage, tables=sorted(usage.tables, key=_rows_of_day, reverse=True))
    while len(content) > board.room:
        kept = len(usage.tables) * board.room // len(content) * 9 // 10
        left_out = usage.left_out + len(usage.tables) - kept
        usage = msgspec.structs.replace(usage, tables=usage.tables[:kept], left_out=left_out)
        content = msgspec.msgpack.encode(Seen(usage, seen.watch))
    board.write(content)


def _rows_of_day(table: TableUsage) -> int:
    return table.day.insert + table.day.update + table.day.delete


def seen(board: Board) -> Seen:
    """What the monitor said last."""
    content = board.read()
    return msgspec.msgpack.decode(content, type=Seen) if content else Seen(Usage(), Watch())
