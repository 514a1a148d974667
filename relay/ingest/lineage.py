"""Detect whether a source's binlog is still the history that the journal was read from: RESET MASTER begins a new one.

A binlog position of the old history means nothing in the new one, and the new one assigns the same GTIDs again. Once it
is long enough, both seem valid. Therefore the relay keeps a mark of the history that it reads: the creation time of a
binlog file, and an event in it, byte for byte. A new history does not match it.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, Final

from pymysql.connections import Connection

from relay._native import Mark
from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.binlog.events import EventType
from relay.binlog.events.position import BinlogPosition
from relay.binlog.replication import Flag, Replication
from relay.binlog.stream import Stream
from relay.ingest.reader_state import ReaderState
from relay.source import facts
from relay.source.commands import FIRST_POSITION, SHORT_POSITION
from relay.source.connect import Account, connect
from relay.source.errors import BinlogError
from relay.source.facts import ServerFacts
from relay.source.failures import SourceLost

CHECK_SECONDS: Final = 2.0  # between two checks while no events come
REPLY_SECONDS: Final = 5  # the most time for the source's reply

_KEY: Final = "mark"  # a fact of the source, in state.db
_NONE: Final = Mark("", 0, 0, b"")
_TYPE: Final = 4  # the offset of the type in an event


class Lineage:
    """Keep a mark of the history that is read, and compare the source with it."""

    def __init__(self, reader_state: ReaderState) -> None:
        self._reader_state = reader_state
        file, created, start, head = (reader_state.get(_KEY) or " 0 0 ").rsplit(" ", 3)
        self._kept = Mark(file, int(created), int(start), bytes.fromhex(head))
        self._connection: Connection[Any] | None = None
        self._checked_at = 0.0
        self._last_position = self._checked_end = BinlogPosition("", 0)

    def forget(self) -> None:
        """Forget the mark: the journal continues in another history."""
        self._put(_NONE)

    def save(self, mark: Mark) -> None:
        """Store the stream's latest mark. Raises `RelayError` (binlog_reset) if it belongs to another history."""
        if mark.file == self._kept.file and mark.created != self._kept.created:
            raise _binlog_reset(_recreated(self._kept, mark.created), mark.file)
        if mark.file and (mark.start or mark.file != self._kept.file) and mark != self._kept:
            self._put(mark)

    def _put(self, mark: Mark) -> None:
        self._kept = mark
        self._reader_state.put(_KEY, f"{mark.file} {mark.created} {mark.start} {mark.head.hex()}")

    def follow(self, mark: Mark, here: BinlogPosition, account: Account, server: ServerFacts) -> None:
        """Store the mark, and check an idle source; must be called regularly.

        After RESET MASTER, a stream of the old history gets no events. So the source is checked when no events have
        come for a while. Raises `RelayError` (binlog_reset).
        """
        if mark.file != self._kept.file or not self._kept.start:
            self.save(mark)
        now = time.monotonic()
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at, before, self._last_position = now, self._last_position, here
        if before != here:
            return
        self.save(mark)
        try:
            self._check_end(here, account, server)
        except SourceLost:  # the stream itself will report it
            self.close()
        except RelayError as error:  # rejected logins of this connection do not concern the stream
            self.close()
            if error.code is StopCode.BINLOG_RESET:
                raise

    def _check_end(self, here: BinlogPosition, account: Account, server: ServerFacts) -> None:
        if self._connection is None:
            self._connection = connect(account, read_timeout=REPLY_SECONDS)
        status = facts.binlog_position(self._connection, server)
        end = BinlogPosition(status.file, status.position)
        if end not in (here, self._checked_end):
            self.check(account, here)
            self._checked_end = end

    def check(self, account: Account, here: BinlogPosition) -> None:
        """Compare the source with the mark, and with the position that the journal has reached.

        Missing files prove nothing: the source may have purged or renamed binlogs, or a crash may have shortened one.
        Raises `RelayError` (binlog_reset), `SourceLost`.
        """
        with closing(connect(account, read_timeout=REPLY_SECONDS)) as connection:
            sizes = facts.binlog_sizes(connection)
        newest = BinlogPosition(*list(sizes.items())[-1])
        if newest < here and _base(newest.file) == _base(here.file):
            raise _binlog_reset(f"its newest binlog ends at {newest}, but the relay has read up to {here}", str(here))
        if self._kept.file in sizes:
            self._compare(account, here)

    def _compare(self, account: Account, here: BinlogPosition) -> None:
        kept = self._kept
        start = kept.start if FIRST_POSITION < kept.start <= SHORT_POSITION else FIRST_POSITION
        wanted = Replication(file_name=kept.file, start_position=start, flags=Flag.NON_BLOCK)
        created, found = 0, b""
        try:
            with Stream(connect(account, read_timeout=REPLY_SECONDS), wanted) as stream:
                while not found and stream.fetch() == 0 and wanted.size:
                    event = wanted.buffer[1:]
                    if event[_TYPE] == EventType.FORMAT_DESCRIPTION:
                        created = int.from_bytes(event[:4], "little")
                    elif created:
                        found = event
        except BinlogError as error:
            if error.code is ErrorCode.SOURCE_UNREACHABLE:
                raise SourceLost(str(error)) from error
            if not created:  # the file is shorter than that
                return
        if created != kept.created:
            raise _binlog_reset(_recreated(kept, created), str(here))
        if start == kept.start and not found.startswith(kept.head):
            raise _binlog_reset(f"the event that the relay read at {kept.file}:{start} is not there", str(here))

    def close(self) -> None:
        """Close the connection; the next check opens a new one."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None


def _base(file: str) -> str:
    return file.rpartition(".")[0]


def _recreated(kept: Mark, created: int) -> str:
    return f"{kept.file} was created at {_utc(created)}, but the one that the relay read at {_utc(kept.created)}"


def _utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _binlog_reset(evidence: str, position: str) -> RelayError:
    cause = f"the source started a new binlog: {evidence}"
    return RelayError(StopCode.BINLOG_RESET, "read the binlog", cause, position=position)
