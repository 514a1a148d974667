"""The line log: writes each change in the flushed part of the journal as one line, exactly once.

Lines are on disk before the cursor counts them. When a file is opened, everything beyond the cursor's length is cut
off: lines that were written but not counted are written again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from relay._native import JournalError, JournalReader, LineReader
from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.base.log import Log
from relay.linelog import cursor as cursors
from relay.linelog import files
from relay.linelog.choice import matching_exclude, matching_schema
from relay.linelog.cursor import Cursor
from relay.linelog.files import LogFile, Name
from relay.linelog.gap import gap_line
from relay.linelog.zone import Zone

READ_BYTES: Final = 1 << 20  # of lines made before the clock is checked
COMMIT_SECONDS: Final = 1.0  # that lines may wait for a flush while more follow
COMMIT_BYTES: Final = 64 << 20
IDLE_COMMIT_SECONDS: Final = 5.0  # the same for the cursor alone, if there is nothing to log
DELETE_SECONDS: Final = 60.0  # between checks of the age of files
_BEFORE_ALL_DAYS: Final = -1
_OPERATION: Final = "write the log"
_ACCEPT_GAP: Final = "`relay start --accept-gap` continues after the loss and writes a line about it (docs/csv-log.md)"


class Settings(NamedTuple):
    """The options of `[Logger]`, and those of `[Relay]` that affect values: what is logged, where, and how.

    `schemas` and `excludes` are patterns; 0 in `rotate_bytes` and `keep_seconds` means no limit. With `utc`, TIMESTAMP
    values are in UTC, else in the process's zone; with `positional`, rows whose columns are not proven are logged too.
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


class Progress(NamedTuple):
    """The progress of the log. Positions are the journal's.

    `committed` is the cursor's position; up to `covered`, the log has everything that it should have. `file` and
    `offset` are the source's binlog position. `log_file` is the current file; `lines` and `bytes` were written since
    this process began. With `caught_up`, nothing is left to read. `behind_since` is as in
    relay.runtime.process_status.LogStatus.
    """

    committed: int
    covered: int
    file: str
    offset: int
    log_file: str
    lines: int
    bytes: int
    caught_up: bool
    behind_since: float


class LineLog:
    """Write the lines of one journal to one log. One process at a time: the caller holds the folder's lock."""

    def __init__(self, journal: Path, settings: Settings, log: Log = lambda event, **fields: None) -> None:
        """Resume at the cursor.

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
        self._written: Cursor  # what the next commit saves, except file and length
        self._read_to = 0  # everything readable up to here was read
        self._committed = 0
        self._committed_at = 0.0  # monotonic, as is the next
        self._deleted_at = 0.0
        self._unflushed = 0  # bytes
        self._lines = self._bytes = 0
        self._behind_since = 0.0
        with self._storage():
            self._resume()

    def step(self) -> Progress:
        """Log some of what is flushed in the journal, and commit what is due."""
        with self._storage():
            flushed = self._journal.flushed()
            if flushed > self._read_to:
                self._read(flushed)
            if self._due(self._read_to >= flushed):
                self._commit()
            self._delete_old()
            return self._progress(flushed)

    def finish(self) -> Progress:
        """Commit everything that was read. Nothing new is read."""
        with self._storage():
            if self._written.position > self._committed:
                self._commit()
            return self._progress(self._journal.flushed())

    @contextmanager
    def _storage(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RelayError(ErrorCode.LOG_STORAGE, _OPERATION, error, position=str(self._folder)) from error

    def _resume(self) -> None:
        """Resume at the cursor; without one, begin at the oldest rows in the journal."""
        cursor = self._load()
        if cursor is None:
            self._open_journal(0)
            self._advance()
            self._commit()
            return
        cursors.save(self._folder, cursor)  # it may not be on disk: its writer may have died of a failed sync
        self._written = cursor
        self._committed, self._committed_at, self._unflushed = cursor.position, time.monotonic(), 0
        losses = [loss for loss in (self._open_file(cursor), self._find_position(cursor)) if loss]
        if losses:
            self._write_gap("; ".join(losses))
        if self._file and self._file.name.suffix != self._suffix:
            self._next_file(self._file.name.day)

    def _load(self) -> Cursor | None:
        try:
            return cursors.load(self._folder)
        except ValueError as error:
            raise RelayError(
                StopCode.LOG_DAMAGED, "read the log's cursor", str(error), position=str(self._folder / cursors.NAME),
                hint="without it the log starts again at the oldest rows of the journal: rows may appear twice",
            ) from None  # fmt: skip

    def _open_file(self, cursor: Cursor) -> str:
        """Open the file that was written last. Return what it has lost, if gaps are accepted; "" without loss."""
        self._close()
        name = Name.parse(cursor.file)
        if name is None:
            return ""
        if not (self._folder / cursor.file).exists():
            self._log("log_file_gone", file=cursor.file)  # removed with everything in it
            self._commit()
            return ""
        self._file = LogFile(self._folder, name)
        beyond = self._file.cut(cursor.length)
        if beyond > 0:
            self._log("log_cut", file=cursor.file, bytes=beyond)
        if beyond >= 0:
            return ""
        return self._accepted_loss(StopCode.LOG_DAMAGED, f"{cursor.file} has lost its last {-beyond} bytes")

    def _find_position(self, cursor: Cursor) -> str:
        """Open the journal at the cursor, or at its beginning if that fails and gaps are accepted.

        Return the loss, "" without loss.
        """
        lost = ""
        if cause := self._open_failure(cursor):
            lost = self._accepted_loss(StopCode.JOURNAL_LOST, f"the journal: {cause}")
            self._open_journal(0)
        return lost

    def _open_failure(self, cursor: Cursor) -> str:
        """Open the journal at the cursor. Return why that is impossible, or ""."""
        generation = self._journal.generation()
        if cursor.generation != generation:
            return f"its id is {generation}, but the log was written from {cursor.generation}"
        if cursor.position < self._journal.first():
            return f"retention deleted the rows after position {cursor.position}"
        try:
            self._open_journal(cursor.position)
        except JournalError as error:
            if error.code is not StopCode.JOURNAL_LOST:
                raise
            return error.cause
        if cursor.sequence and self._reader.sequence not in (0, cursor.sequence):
            return f"the rows before position {cursor.position} are not those that were logged"
        return ""

    def _accepted_loss(self, code: StopCode, cause: str) -> str:
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
        included = matching_schema(self._settings.schemas, schema)
        return bool(included) and not matching_exclude(self._settings.excludes, schema, table)

    def _read(self, flushed: int) -> None:
        day = self._file.name.day if self._file else _BEFORE_ALL_DAYS
        before = self._reader.lines
        try:
            reached = self._reader.read(flushed, self._read_limit(), day, self._today())
        except RelayError as error:
            self._write(self._reader.take(), self._reader.lines - before)
            self._advance()
            self._commit()
            if error.code is not StopCode.JOURNAL_LOST or self._reader.position >= self._journal.first():
                raise
            self._resume()
            return
        if reached.why == "gap":
            self._write_gap(reached.text)
            return
        self._write(self._reader.take(), self._reader.lines - before)
        self._advance()
        if reached.why == "end":
            self._read_to = flushed
        elif reached.why == "day":
            self._next_file(reached.day)

    def _advance(self) -> None:
        """Move the position to the reader's, once everything read is written."""
        reader = self._reader
        self._written = Cursor(
            generation=reader.generation, position=reader.position, sequence=reader.sequence, file="", length=0
        )

    def _read_limit(self) -> int:
        """Bytes to read at once, so that a file does not grow far beyond its limit."""
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
            self._next_file(self._file.name.day)
        self._append(lines, count)

    def _append(self, lines: bytes, count: int) -> None:
        assert self._file is not None
        self._file.append(lines)
        self._unflushed += len(lines)
        self._lines += count
        self._bytes += len(lines)

    def _next_file(self, day: int) -> None:
        """Continue in another file. The cursor names it before anything new is written to it."""
        self._close()
        name = files.next_name(self._folder, day, self._suffix, self._settings.rotate_bytes)
        self._file = LogFile(self._folder, name)
        self._commit()
        self._deleted_at = 0.0

    def _write_gap(self, loss: str) -> None:
        """Write a line about missing lines. Line and cursor are committed together, in the same file."""
        now = int(time.time())
        if self._file is None:
            self._next_file(self._today())
        assert self._file is not None
        form = files.FORMS[self._file.name.suffix]
        self._append(gap_line(form, now, self._zone.offset(now)[0], loss), 1)
        self._advance()
        self._commit()
        self._log("log_gap", cause=loss)

    def _due(self, caught_up: bool) -> bool:
        waited = time.monotonic() - self._committed_at
        if self._unflushed:
            return caught_up or waited >= COMMIT_SECONDS or self._unflushed >= COMMIT_BYTES
        return self._written.position > self._committed and waited >= IDLE_COMMIT_SECONDS

    def _commit(self) -> None:
        """Flush the lines to disk, and then the cursor."""
        file, length = "", 0
        if self._file is not None:
            file, length = str(self._file.name), self._file.sync()
            if length < self._file.length:
                cause = f"{file} has lost {self._file.length - length} bytes while the relay wrote it"
                raise RelayError(StopCode.LOG_DAMAGED, _OPERATION, cause, position=str(self._folder), hint=_ACCEPT_GAP)
            if not self._file.is_in_place():
                self._log("log_file_gone", file=file)
                self._save("", 0)  # after a kill here, the new file must not count as the rest of the old one
                self._file.close()
                self._file = LogFile(self._folder, self._file.name)
                length = self._file.length
        self._save(file, length)

    def _save(self, file: str, length: int) -> None:
        cursors.save(self._folder, msgspec.structs.replace(self._written, file=file, length=length))
        self._committed, self._committed_at, self._unflushed = self._written.position, time.monotonic(), 0

    def _close(self) -> None:
        if self._file is not None:
            self._file.sync()
            self._file.close()
            self._file = None

    def _delete_old(self) -> None:
        """Delete files that are older than `keep_seconds`."""
        if not self._settings.keep_seconds or time.monotonic() - self._deleted_at < DELETE_SECONDS:
            return
        self._deleted_at = time.monotonic()
        oldest = self._zone.day(int(time.time()) - self._settings.keep_seconds)
        current = str(self._file.name) if self._file else ""
        for name in files.delete_before(self._folder, oldest, current):
            self._log("log_file_deleted", file=name)

    def _progress(self, flushed: int) -> Progress:
        caught_up = self._read_to >= flushed
        if caught_up and not self._unflushed:
            self._behind_since = 0.0
        else:
            self._behind_since = self._behind_since or time.time()
        behind = self._behind_since
        if not caught_up and self._reader.timestamp:
            behind = min(behind, self._reader.timestamp)
        return Progress(
            committed=self._committed,
            covered=flushed if caught_up and not self._unflushed else self._committed,
            file=self._reader.file,
            offset=self._reader.offset,
            log_file=str(self._file.name) if self._file else "",
            lines=self._lines,
            bytes=self._bytes,
            caught_up=caught_up,
            behind_since=behind,
        )
