"""Whether a source's binlog is still the history that the journal was read from: RESET MASTER begins another one.

A place in a file means nothing there, and GTIDs are given out again: both may seem to fit once the new history is long
enough. What does not fit is a mark of the old one: when the file was made, and an event in it, byte for byte.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any, Final

from pymysql.connections import Connection

from relay._native import Mark
from relay.binlog import facts
from relay.binlog.catalog import Catalog
from relay.binlog.commands import FIRST_POSITION, SHORT_POSITION
from relay.binlog.connect import Account, connect
from relay.binlog.errors import BinlogError
from relay.binlog.events import EventType
from relay.binlog.facts import ServerFacts
from relay.binlog.failures import SourceLost
from relay.binlog.place import Place
from relay.binlog.replication import Flag, Replication
from relay.binlog.stream import Stream
from relay.errors import ErrorCode, RelayError, StopCode

LOOK_SECONDS: Final = 2.0  # between two looks while nothing comes
ANSWER_SECONDS: Final = 5  # that the source may take for an answer

_KEY: Final = "mark"  # fact of the source, in state.db
_NONE: Final = Mark("", 0, 0, b"")
_TYPE: Final = 4  # where an event has it


class Lineage:
    """Keeps a mark of the history that is read, and holds the source against it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        file, created, start, head = (catalog.get(_KEY) or " 0 0 ").rsplit(" ", 3)
        self._kept = Mark(file, int(created), int(start), bytes.fromhex(head))
        self._connection: Connection[Any] | None = None
        self._looked = 0.0
        self._here = self._passed = Place("", 0)

    def forget(self) -> None:
        """The journal goes on in another history."""
        self._put(_NONE)

    def keep(self, mark: Mark) -> None:
        """The stream has left this mark. Raises `RelayError` (binlog_reset) where it is of another history."""
        if mark.file == self._kept.file and mark.created != self._kept.created:
            raise _reset(_made_anew(self._kept, mark.created), mark.file)
        if mark.file and (mark.start or mark.file != self._kept.file) and mark != self._kept:
            self._put(mark)

    def _put(self, mark: Mark) -> None:
        self._kept = mark
        self._catalog.put(_KEY, f"{mark.file} {mark.created} {mark.start} {mark.head.hex()}")

    def follow(self, mark: Mark, here: Place, account: Account, server: ServerFacts) -> None:
        """To be called now and then. Where nothing has come for a while, the source is looked at: a dump of a history
        that has ended falls silent. Raises `RelayError` (binlog_reset)."""
        if mark.file != self._kept.file or not self._kept.start:
            self.keep(mark)
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked, before, self._here = now, self._here, here
        if before != here:
            return
        self.keep(mark)
        try:
            self._look(here, account, server)
        except SourceLost:  # the stream itself will tell
            self.close()
        except RelayError as error:  # nor does it matter to the stream who else may log in
            self.close()
            if error.code is StopCode.BINLOG_RESET:
                raise

    def _look(self, here: Place, account: Account, server: ServerFacts) -> None:
        if self._connection is None:
            self._connection = connect(account, read_timeout=ANSWER_SECONDS)
        status = facts.binlog_position(self._connection, server)
        end = Place(status.file, status.position)
        if end not in (here, self._passed):
            self.check(account, here)
            self._passed = end

    def check(self, account: Account, here: Place) -> None:
        """Hold the source against the mark, and against the place that the journal has come to.

        Nothing is concluded from what it does not have: its binlogs may be purged or renamed, and a crash may have cut
        one. Raises `RelayError` (binlog_reset), `SourceLost`.
        """
        with closing(connect(account, read_timeout=ANSWER_SECONDS)) as connection:
            sizes = facts.binlog_sizes(connection)
        newest = Place(*list(sizes.items())[-1])
        if newest < here and _base(newest.file) == _base(here.file):
            raise _reset(f"its newest binlog ends at {newest}, and was read up to {here}", str(here))
        if self._kept.file in sizes:
            self._compare(account, here)

    def _compare(self, account: Account, here: Place) -> None:
        kept = self._kept
        start = kept.start if FIRST_POSITION < kept.start <= SHORT_POSITION else FIRST_POSITION
        wanted = Replication(file_name=kept.file, start_position=start, flags=Flag.NON_BLOCK)
        created, found = 0, b""
        try:
            with Stream(connect(account, read_timeout=ANSWER_SECONDS), wanted) as stream:
                while not found and stream.fetch() == 0 and wanted.size:
                    event = wanted.buffer[1:]
                    if event[_TYPE] == EventType.FORMAT_DESCRIPTION:
                        created = int.from_bytes(event[:4], "little")
                    elif created:
                        found = event
        except BinlogError as error:
            if error.code is ErrorCode.SOURCE_UNREACHABLE:
                raise SourceLost(str(error)) from error
            if not created:  # it does not have so much of the file
                return
        if created != kept.created:
            raise _reset(_made_anew(kept, created), str(here))
        if start == kept.start and not found.startswith(kept.head):
            raise _reset(f"the event that was read at {kept.file}:{start} does not stand there", str(here))

    def close(self) -> None:
        """Hang up; the next look connects again."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None


def _base(file: str) -> str:
    return file.rpartition(".")[0]


def _made_anew(kept: Mark, created: int) -> str:
    return f"{kept.file} was made at {_utc(created)}, and the one that was read at {_utc(kept.created)}"


def _utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _reset(evidence: str, position: str) -> RelayError:
    cause = f"the source's binlog was begun anew: {evidence}"
    return RelayError(StopCode.BINLOG_RESET, "read the binlog", cause, position=position)
