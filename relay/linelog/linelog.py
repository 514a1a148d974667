"""The log itself: from the journal's flushed part to lines in files, each once.

Lines are on disk before the cursor tells of them, and what stands in the file behind the cursor's length is cut off
when it is opened: what was written and not told is made again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from relay._native import JournalError, JournalReader, LineReader
from relay.errors import ErrorCode, RelayError, StopCode
from relay.linelog import cursor as cursors
from relay.linelog import files
from relay.linelog.choice import excluding, wanting
from relay.linelog.cursor import Cursor
from relay.linelog.files import LogFile, Name
from relay.linelog.gap import gap_line
from relay.linelog.zone import Zone
from relay.log import Log

READ_BYTES: Final = 1 << 20  # of lines made before somebody looks at the clock
COMMIT_SECONDS: Final = 1.0  # that lines may wait to be flushed while there are more of them
COMMIT_BYTES: Final = 64 << 20
IDLE_COMMIT_SECONDS: Final = 5.0  # the same for the cursor alone, where nothing is to be logged
RETIRE_SECONDS: Final = 60.0  # between looks at the age of files
_BEFORE_ALL_DAYS: Final = -1
_OPERATION: Final = "write the log"
_ACCEPT_GAP: Final = "`relay start --accept-gap` goes on after the loss, with a line about it (docs/csv-log.md)"


class Settings(NamedTuple):
    """What is logged, where, and how; as in `[Logger]`, and of `[Relay]` what concerns values.

    `schemas` and `excludes` are patterns; `rotate_bytes` and `keep_seconds` 0: no limit. `utc`: TIMESTAMP values are in
    UTC, else in the process's zone; `positional`: rows whose columns are not proven are logged too.
    """

    path: str
    schemas: Sequence[str]
    excludes: Sequence[str] = ()
    form: str = "csv"
    zone: Zone | None = None
    rotate_bytes: int = 0
    keep_seconds: int = 0
    utc: bool = True
    positional: bool = False
    accept_gap: bool = False


class Place(NamedTuple):
    """A place in the journal: everything before it is written. As in `Cursor`."""

    generation: int
    position: int
    sequence: int


class Progress(NamedTuple):
    """How far the log has come. Positions are the journal's.

    `committed` is what the cursor says, `covered` up to where the log has everything that there is for it; `file` and
    `offset` are the source's. `log_file` is the one being written, `lines` and `bytes` those since this began. `level`:
    there is nothing more to read. `behind_since`: as in relay.board.LogStatus.
    """

    committed: int
    covered: int
    file: str
    offset: int
    log_file: str
    lines: int
    bytes: int
    level: bool
    behind_since: float


class LineLog:
    """Keeps one log level with one journal. One process at a time; whoever makes it holds the folder's lock."""

    def __init__(self, journal: Path, settings: Settings, log: Log = lambda event, **fields: None) -> None:
        """Go on where the cursor says.

        Raises `RelayError`: log_storage, log_damaged, and journal_lost if the journal no longer has what comes next.
        """
        self._directory = journal
        self._journal = JournalReader(journal)
        self._settings = settings
        self._folder = Path(settings.path)
        self._suffix = files.SUFFIXES[settings.form]
        self._zone = settings.zone or Zone("UTC")
        self._log = log
        self._reader: LineReader
        self._file: LogFile | None = None
        self._place: Place  # what the next commit says
        self._read_to = 0  # all that can be read up to there was read
        self._committed = 0
        self._committed_at = 0.0  # monotonic, as is the next
        self._retired_at = 0.0
        self._unflushed = 0  # bytes
        self._lines = self._bytes = 0
        self._behind_since = 0.0
        with self._storage():
            self._begin()

    def step(self) -> Progress:
        """Log some of what is flushed in the journal, and commit what is due."""
        with self._storage():
            flushed = self._journal.flushed()
            if flushed > self._read_to:
                self._read(flushed)
            level = self._read_to >= flushed
            if self._due(level):
                self._commit()
            self._retire()
            return self._progress(flushed, level)

    def finish(self) -> Progress:
        """Commit all that was read; nothing is read any more."""
        with self._storage():
            if self._place.position > self._committed:
                self._commit()
            flushed = self._journal.flushed()
            return self._progress(flushed, self._read_to >= flushed)

    @contextmanager
    def _storage(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RelayError(ErrorCode.LOG_STORAGE, _OPERATION, error, position=str(self._folder)) from error

    def _begin(self) -> None:
        """Go on at the cursor, or without one with the oldest rows that the journal has."""
        cursor = self._load()
        if cursor is None:
            self._open_journal(0)
            self._reach()
            self._commit()
            return
        self._place = Place(cursor.generation, cursor.position, cursor.sequence)
        self._committed, self._committed_at, self._unflushed = cursor.position, time.monotonic(), 0
        losses = [loss for loss in (self._open_file(cursor), self._find_place(cursor)) if loss]
        if losses:
            self._note("; ".join(losses))
        if self._file and self._file.name.suffix != self._suffix:
            self._roll(self._file.name.day)

    def _load(self) -> Cursor | None:
        try:
            return cursors.load(self._folder)
        except ValueError as error:
            raise RelayError(
                StopCode.LOG_DAMAGED, "read the log's cursor", str(error), position=str(self._folder / cursors.NAME),
                hint="without it the log begins anew, with the oldest rows of the journal: some may be there twice",
            ) from None  # fmt: skip

    def _open_file(self, cursor: Cursor) -> str:
        """Take up the file that was written last; what was lost of it, if that is accepted."""
        self._close()
        name = Name.parse(cursor.file)
        if name is None:
            return ""
        if not (self._folder / cursor.file).exists():
            self._log("log_file_gone", file=cursor.file)  # by whoever took it away, with all that was in it
            self._commit()
            return ""
        self._file = LogFile(self._folder, name)
        beyond = self._file.cut(cursor.length)
        if beyond > 0:
            self._log("log_cut", file=cursor.file, bytes=beyond)
        if beyond >= 0:
            return ""
        return self._lost(StopCode.LOG_DAMAGED, f"{cursor.file} has lost its last {-beyond} bytes")

    def _find_place(self, cursor: Cursor) -> str:
        """Take up the journal at the cursor; else, if that is accepted, at its beginning, and why."""
        cause = self._taken_up(cursor)
        if not cause:
            return ""
        lost = self._lost(StopCode.JOURNAL_LOST, f"the journal: {cause}")
        self._open_journal(0)
        return lost

    def _taken_up(self, cursor: Cursor) -> str:
        """Nothing, or why the journal has no such place."""
        generation = self._journal.generation()
        if cursor.generation != generation:
            return f"its id is {generation}, the log was made from {cursor.generation}"
        if cursor.position < self._journal.first():
            return f"retention deleted what comes after position {cursor.position}"
        try:
            self._open_journal(cursor.position)
        except JournalError as error:
            if error.code is not StopCode.JOURNAL_LOST:
                raise
            return error.cause
        if cursor.sequence and self._reader.sequence not in (0, cursor.sequence):
            return f"what stands before position {cursor.position} is not what was logged"
        return ""

    def _lost(self, code: StopCode, cause: str) -> str:
        if not self._settings.accept_gap:
            raise RelayError(code, _OPERATION, cause, position=str(self._folder), hint=_ACCEPT_GAP)
        return cause

    def _open_journal(self, position: int) -> None:
        settings = self._settings
        self._read_to = 0
        self._reader = LineReader(
            self._directory, position, form=settings.form, wanted=self._wanted, zone=self._zone.offset,
            utc=settings.utc, positional=settings.positional,
        )  # fmt: skip

    def _wanted(self, schema: str, table: str) -> bool:
        settings = self._settings
        return bool(wanting(settings.schemas, schema)) and not excluding(settings.excludes, schema, table)

    def _read(self, flushed: int) -> None:
        day = self._file.name.day if self._file else _BEFORE_ALL_DAYS
        before = self._reader.lines
        try:
            reached = self._reader.read(flushed, self._room(), day, self._today())
        except RelayError as error:
            self._write(self._reader.take(), self._reader.lines - before)
            self._reach()
            self._commit()
            if error.code is not StopCode.JOURNAL_LOST or self._reader.position >= self._journal.first():
                raise
            self._begin()
            return
        if reached.why == "gap":
            self._note(reached.text)
            return
        self._write(self._reader.take(), self._reader.lines - before)
        self._reach()
        if reached.why == "end":
            self._read_to = flushed
        elif reached.why == "day":
            self._roll(reached.day)

    def _reach(self) -> None:
        """Everything that was read is written."""
        self._place = Place(self._reader.generation, self._reader.position, self._reader.sequence)

    def _room(self) -> int:
        """Bytes to read at once, so that a file does not become much larger than it may."""
        full = self._settings.rotate_bytes
        if not full or self._file is None:
            return READ_BYTES
        left = full - self._file.length
        return min(READ_BYTES, left if left > 0 else full)

    def _today(self) -> int:
        return self._zone.day(int(time.time()))

    def _write(self, lines: bytes, count: int) -> None:
        if not lines:
            return
        assert self._file is not None, "a line's day comes before it"
        full = self._settings.rotate_bytes
        if full and self._file.length >= full:
            self._roll(self._file.name.day)
        self._append(lines, count)

    def _append(self, lines: bytes, count: int) -> None:
        assert self._file is not None
        self._file.append(lines)
        self._unflushed += len(lines)
        self._lines += count
        self._bytes += len(lines)

    def _roll(self, day: int) -> None:
        """Go on in another file, which the cursor names before there is anything new in it."""
        self._close()
        name = files.next_name(self._folder, day, self._suffix, self._settings.rotate_bytes)
        self._file = LogFile(self._folder, name)
        self._commit()
        self._retired_at = 0.0

    def _note(self, loss: str) -> None:
        """A line about lines that are missing. The cursor passes the place only with it, and names the same file."""
        now = int(time.time())
        if self._file is None:
            self._roll(self._today())
        assert self._file is not None
        form = files.FORMS[self._file.name.suffix]
        self._append(gap_line(form, now, self._zone.offset(now)[0], loss), 1)
        self._reach()
        self._commit()
        self._log("log_gap", cause=loss)

    def _due(self, level: bool) -> bool:
        waited = time.monotonic() - self._committed_at
        if self._unflushed:
            return level or waited >= COMMIT_SECONDS or self._unflushed >= COMMIT_BYTES
        return self._place.position > self._committed and waited >= IDLE_COMMIT_SECONDS

    def _commit(self) -> None:
        """Let the lines be on disk, and then the cursor."""
        file, length = "", 0
        if self._file is not None:
            file, length = str(self._file.name), self._file.sync()
            if length < self._file.length:
                cause = f"{file} has lost {self._file.length - length} bytes while it was written"
                raise RelayError(StopCode.LOG_DAMAGED, _OPERATION, cause, position=str(self._folder), hint=_ACCEPT_GAP)
            if not self._file.is_in_place():
                self._log("log_file_gone", file=file)
                self._save("", 0)  # killed here, this must not take the new file for what is left of the old one
                self._file.close()
                self._file = LogFile(self._folder, self._file.name)
                length = self._file.length
        self._save(file, length)

    def _save(self, file: str, length: int) -> None:
        cursors.save(self._folder, Cursor(**self._place._asdict(), file=file, length=length))
        self._committed, self._committed_at, self._unflushed = self._place.position, time.monotonic(), 0

    def _close(self) -> None:
        if self._file is not None:
            self._file.sync()
            self._file.close()
            self._file = None

    def _retire(self) -> None:
        """Delete what is older than it may become."""
        if not self._settings.keep_seconds or time.monotonic() - self._retired_at < RETIRE_SECONDS:
            return
        self._retired_at = time.monotonic()
        oldest = self._zone.day(int(time.time()) - self._settings.keep_seconds)
        current = str(self._file.name) if self._file else ""
        for name in files.delete_before(self._folder, oldest, current):
            self._log("log_file_deleted", file=name)

    def _progress(self, flushed: int, level: bool) -> Progress:
        if level and not self._unflushed:
            self._behind_since = 0.0
        else:
            self._behind_since = self._behind_since or time.time()
        behind = self._behind_since
        if not level and self._reader.timestamp:
            behind = min(behind, self._reader.timestamp)
        return Progress(
            committed=self._committed,
            covered=flushed if level and not self._unflushed else self._committed,
            file=self._reader.file,
            offset=self._reader.offset,
            log_file=str(self._file.name) if self._file else "",
            lines=self._lines,
            bytes=self._bytes,
            level=level,
            behind_since=behind,
        )
