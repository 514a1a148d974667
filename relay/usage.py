"""Table usage: rows by table and kind, in all and in rolling windows of a day and an hour, counted from the journal.

A minute is that of the event on the source's clock; one that lies ahead of now counts as now. The day is this minute
and the 1439 before it, the hour this one and the 59 before.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

import msgspec

from relay import board
from relay._native import JournalReader, Tally, UsageReader
from relay.board import Counts, TableUsage
from relay.errors import RelayError, StopCode
from relay.journal.frames import Definition
from relay.usagestore import Counted, Table, UsageStore

HOUR: Final = 60  # minutes
DAY: Final = 1440
STEP_BYTES = 8 << 20  # of the journal, in one `advance`
SAVE_SECONDS: Final = 5.0  # what a kill in between takes is counted again
RETRY_SECONDS: Final = 5.0
_MINUTE: Final = 60


class Usage:
    """Counts the journal in `journal_dir`, and keeps the counts in the SQLite file `path`.

    One at a time; the file and the journal are opened by `advance`, which tells failures in `trouble` and goes on as
    soon as it can. Every change is counted once by its number, whenever the process is killed.
    """

    def __init__(self, path: Path, journal_dir: Path) -> None:
        self._path = path
        self._journal_dir = journal_dir
        self.trouble = ""
        self._failed = 0.0  # when
        self._store: UsageStore | None = None
        self._reader: UsageReader | None = None
        self._missed_before = 0  # by earlier readers
        self._counted = Counted()
        self._tables: dict[tuple[str, str], Table] = {}
        self._met: list[Table] = []  # by the reader's number
        self._known: dict[int, int] = {}  # hashes of definitions, by table id
        self._minute = 0  # up to which the windows reach
        self._saved = 0.0  # when
        self._kept = Counted()  # as it was saved last
        # Not yet saved:
        self._fresh: dict[tuple[int, int], Counts] = {}  # by minute and table id
        self._changed: dict[int, Table] = {}
        self._definitions: dict[int, bytes] = {}

    def advance(self, now: float, until: int) -> bool:
        """Count a step on, to at most the position `until`, which is flushed; `now` in Unix seconds.

        True if nothing is left to do for now: it has come to `until`, or there is `trouble`.
        """
        if not until or (self.trouble and 0 <= now - self._failed < RETRY_SECONDS):
            return True
        opened = self._reader is None
        try:
            store = self._opened(now)
            self._turn(store, int(now) // _MINUTE)
            level = self._read(until, now)
            if not 0 <= now - self._saved < SAVE_SECONDS:
                self._save(store)
                self._saved = now
        except (RelayError, sqlite3.Error) as error:
            self._reader = None
            if isinstance(error, RelayError) and error.code is StopCode.JOURNAL_LOST and not opened:
                return False  # retention was faster: the next reader begins with what there is
            self._fail(error)
            self._failed = now
            return True
        self.trouble = ""
        return level

    def tables(self) -> list[TableUsage]:
        """What was counted of each table, in the order in which they were met; the structs go on changing."""
        return [table.usage for table in self._tables.values()]

    def usage(self) -> board.Usage:
        """All of it, for the stat document."""
        counted = self._counted
        return board.Usage(counted.since, counted.position, self.tables(), 0, counted.missed, self.trouble)

    @property
    def minute(self) -> int:
        """The one that has begun, counted since 1970-01-01 UTC: the last of every window."""
        return self._minute

    def minutes(self, schema: str, table: str) -> list[Counts]:
        """Rows of a table in each of the last 60 minutes, oldest first."""
        wanted = range(self._minute - HOUR + 1, self._minute + 1)
        found = self._tables.get((schema, table))
        if found is None or self._store is None:
            return [Counts() for _ in wanted]
        rows = self._store.minutes(found, wanted)
        for minute, counts in zip(wanted, rows, strict=True):
            if fresh := self._fresh.get((minute, found.id)):
                _add(counts, fresh)
        return rows

    def definition(self, schema: str, table: str) -> Definition | None:
        """The newest definition of a table that rows were seen of, None for another."""
        found = self._tables.get((schema, table))
        if found is None or self._store is None:
            return None
        packed = self._definitions.get(found.id) or self._store.definition(found)
        return msgspec.msgpack.decode(packed, type=Definition) if packed else None

    def definitions(self) -> list[Definition]:
        """The newest definition of each table that rows were seen of."""
        kept = self._store.definitions() if self._store else {}
        return [msgspec.msgpack.decode(packed, type=Definition) for packed in (kept | self._definitions).values()]

    def close(self) -> None:
        """Keep what was counted, and end. What cannot be kept is `trouble`, and counted again by the next."""
        if self._store is None:
            return
        try:
            self._save(self._store)
        except sqlite3.Error as error:
            self._fail(error)
        self._store.close()
        self._store = None

    def _fail(self, error: RelayError | sqlite3.Error) -> None:
        self.trouble = str(error) if isinstance(error, RelayError) else f"keep table usage: {self._path}: {error}"

    def _opened(self, now: float) -> UsageStore:
        if self._store is None:
            store = UsageStore(self._path)
            self._counted, self._kept = store.counted(), store.counted()
            self._tables = {(table.usage.schema, table.usage.table): table for table in store.tables()}
            self._store = store
        counted = self._counted
        if self._reader is None:
            journal = JournalReader(self._journal_dir)
            generation = journal.generation()
            if generation != counted.generation:
                counted.generation, counted.position, counted.number = generation, 0, 0
                counted.since = counted.since or now
            elif not journal.first() <= counted.position <= journal.flushed():
                counted.position = 0  # what is counted already is told by its number
            self._reader = UsageReader(self._journal_dir, counted.position, counted.number)
            self._missed_before = counted.missed
            self._met = []
        return self._store

    def _turn(self, store: UsageStore, minute: int) -> None:
        """Move the windows to this minute."""
        if minute == self._minute:
            return
        self._save(store)
        usages = {table.id: table.usage for table in self._tables.values()}
        if self._minute < minute < self._minute + HOUR:
            leave_hour = store.between(self._minute - HOUR, minute - HOUR)
            leave_day = store.between(self._minute - DAY, minute - DAY)
            for id, *rows in leave_hour:
                _add(usages[id].hour, Counts(*rows), -1)
            for id, *rows in leave_day:
                _add(usages[id].day, Counts(*rows), -1)
        else:  # at the start, after a standstill, or if the clock was put back: what is ahead of it counts as now
            hours, days = store.since(minute - HOUR + 1, minute), store.since(minute - DAY + 1, minute)
            for id, usage in usages.items():
                usage.hour, usage.day = hours.get(id, Counts()), days.get(id, Counts())
        self._minute = minute

    def _read(self, until: int, now: float) -> bool:
        reader, counted = self._reader, self._counted
        assert reader is not None
        try:
            return reader.read(until, STEP_BYTES)
        finally:  # what was counted before a failure is counted
            self._meet(reader)
            for tally in reader.take():
                self._count(tally, now)
            counted.position, counted.number = reader.position, reader.number
            counted.missed = self._missed_before + reader.missed

    def _meet(self, reader: UsageReader) -> None:
        for met in reader.met():
            name = met.schema, met.name
            table = self._tables.get(name)
            if table is None:
                usage = TableUsage(*name, Counts(), Counts(), Counts(), 0.0)
                table = self._tables[name] = Table(len(self._tables) + 1, usage)
                self._changed[table.id] = table
            if met.table == len(self._met):
                self._met.append(table)
            digest = hash(met.definition)
            if self._known.get(table.id) != digest:  # each segment repeats it
                self._known[table.id] = digest
                self._definitions[table.id] = met.definition

    def _count(self, tally: Tally, now: float) -> None:
        table = self._met[tally.table]
        rows = Counts(tally.insert, tally.update, tally.delete)
        minute = min(tally.minute, self._minute)
        usage = table.usage
        usage.last = min(float(tally.last), now)
        _add(usage.total, rows)
        usage.unproven += tally.unproven
        self._changed[table.id] = table
        if minute > self._minute - DAY:
            _add(usage.day, rows)
            _add(self._fresh.setdefault((minute, table.id), Counts()), rows)
        if minute > self._minute - HOUR:
            _add(usage.hour, rows)

    def _save(self, store: UsageStore) -> None:
        if self._counted == self._kept and not self._definitions:
            return
        store.save(self._counted, self._changed.values(), self._fresh, self._definitions, self._minute - DAY)
        self._kept = msgspec.structs.replace(self._counted)
        self._changed, self._fresh, self._definitions = {}, {}, {}


def _add(to: Counts, rows: Counts, sign: int = 1) -> None:
    to.insert += sign * rows.insert
    to.update += sign * rows.update
    to.delete += sign * rows.delete
