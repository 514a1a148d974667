"""Table usage: counts rows by table and kind, in total and in rolling windows of a day and an hour, from the journal.

A minute is that of the event on the source's clock; a minute in the future counts as the current one. The day is the
current minute and the 1439 before it, the hour the current minute and the 59 before it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

import msgspec

from relay._native import JournalReader, Tally, UsageReader
from relay.base.errors import RelayError, StopCode
from relay.journal.frames import Definition
from relay.monitoring.usage_store import Counted, Table, UsageStore
from relay.runtime import process_status
from relay.runtime.process_status import Counts, TableUsage

HOUR: Final = 60  # minutes
DAY: Final = 1440
STEP_BYTES = 8 << 20  # bytes of the journal per `advance`
SAVE_SECONDS: Final = 5.0  # after a kill, so many seconds of changes are counted again
RETRY_SECONDS: Final = 5.0
_MINUTE: Final = 60


class Usage:
    """Count the journal in `journal_dir`, and keep the counts in the SQLite file `path`.

    There is one instance at a time. `advance` opens the file and the journal. It reports failures in `trouble` and
    tries again later. Every change is counted once, by its number, even if the process is killed.
    """

    def __init__(self, path: Path, journal_dir: Path) -> None:
        self._path = path
        self._journal_dir = journal_dir
        self.trouble = ""
        self._failed_at = 0.0
        self._store: UsageStore | None = None
        self._reader: UsageReader | None = None
        self._missed_before = 0  # missed by earlier readers
        self._counted = Counted()
        self._tables: dict[tuple[str, str], Table] = {}
        self._by_index: list[Table] = []  # tables by the reader's index
        self._hashes: dict[int, int] = {}  # of definitions, by table id
        self._minute = 0  # the last minute of the windows
        self._saved_at = 0.0
        self._saved = Counted()  # as last saved
        # Not saved yet:
        self._new_counts: dict[tuple[int, int], Counts] = {}  # by minute and table id
        self._changed: dict[int, Table] = {}
        self._definitions: dict[int, bytes] = {}

    def advance(self, now: float, until: int) -> bool:
        """Count one step further, up to the position `until`, which must be flushed. `now` is in Unix seconds.

        True if there is nothing to do for now: it reached `until`, or there is `trouble`. Raises `RelayError` if a sync
        of the file has failed.
        """
        if not until or (self.trouble and 0 <= now - self._failed_at < RETRY_SECONDS):
            return True
        new_reader = self._reader is None
        try:
            store = self._opened(now)
            self._move_windows(store, int(now) // _MINUTE)
            caught_up = self._read(until, now)
            if not 0 <= now - self._saved_at < SAVE_SECONDS:
                self._save(store)
                self._saved_at = now
        except (RelayError, sqlite3.Error) as error:
            self._reader = None
            if isinstance(error, RelayError) and error.code is StopCode.SYNC_FAILED and self._store is not None:
                raise  # the file is rewritten before another monitor begins
            if isinstance(error, RelayError) and error.code is StopCode.JOURNAL_LOST and not new_reader:
                return False  # retention was faster: the next reader begins at the start of the journal
            self._set_trouble(error)
            self._failed_at = now
            return True
        self.trouble = ""
        return caught_up

    def tables(self) -> list[TableUsage]:
        """Return the counts of each table, in the order in which the tables were found. The structs keep changing."""
        return [table.usage for table in self._tables.values()]

    def usage(self) -> process_status.Usage:
        """All counts, for the stat document."""
        counted = self._counted
        return process_status.Usage(counted.since, counted.position, self.tables(), 0, counted.missed, self.trouble)

    @property
    def minute(self) -> int:
        """The current minute since 1970-01-01 UTC: the last of every window."""
        return self._minute

    def minutes(self, schema: str, table: str) -> list[Counts]:
        """Rows of a table in each of the last 60 minutes, oldest first."""
        wanted = range(self._minute - HOUR + 1, self._minute + 1)
        found = self._tables.get((schema, table))
        if found is None or self._store is None:
            return [Counts() for _ in wanted]
        rows = self._store.minutes(found, wanted)
        for minute, counts in zip(wanted, rows, strict=True):
            if new := self._new_counts.get((minute, found.id)):
                counts.add(new)
        return rows

    def definition(self, schema: str, table: str) -> Definition | None:
        """Return the newest definition of a table with counted rows; None for any other table."""
        found = self._tables.get((schema, table))
        if found is None or self._store is None:
            return None
        packed = self._definitions.get(found.id) or self._store.definition(found)
        return msgspec.msgpack.decode(packed, type=Definition) if packed else None

    def definitions(self) -> list[Definition]:
        """Return the newest definition of each table with counted rows."""
        saved = self._store.definitions() if self._store else {}
        return [msgspec.msgpack.decode(packed, type=Definition) for packed in (saved | self._definitions).values()]

    def close(self) -> None:
        """Save the counts and close the file. If saving fails, that is `trouble`; the next instance counts again."""
        if self._store is None:
            return
        try:
            self._save(self._store)
        except sqlite3.Error as error:
            self._set_trouble(error)
        self._store.close()
        self._store = None

    def _set_trouble(self, error: RelayError | sqlite3.Error) -> None:
        self.trouble = str(error) if isinstance(error, RelayError) else f"keep table usage: {self._path}: {error}"

    def _opened(self, now: float) -> UsageStore:
        if self._store is None:
            store = UsageStore(self._path)
            self._counted, self._saved = store.counted(), store.counted()
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
                counted.position = 0  # rows that were counted already are recognized by number
            self._reader = UsageReader(self._journal_dir, counted.position, counted.number)
            self._missed_before = counted.missed
            self._by_index = []
        return self._store

    def _move_windows(self, store: UsageStore, minute: int) -> None:
        """Make this minute the last of the windows."""
        if minute == self._minute:
            return
        self._save(store)
        usages = {table.id: table.usage for table in self._tables.values()}
        if self._minute < minute < self._minute + HOUR:
            out_of_hour = store.between(self._minute - HOUR, minute - HOUR)
            out_of_day = store.between(self._minute - DAY, minute - DAY)
            for id, *rows in out_of_hour:
                usages[id].hour.add(Counts(*rows), -1)
            for id, *rows in out_of_day:
                usages[id].day.add(Counts(*rows), -1)
        else:  # at the start, after a pause, or if the clock was set back; a minute in the future counts as the current
            hours, days = store.since(minute - HOUR + 1, minute), store.since(minute - DAY + 1, minute)
            for id, usage in usages.items():
                usage.hour, usage.day = hours.get(id, Counts()), days.get(id, Counts())
        self._minute = minute

    def _read(self, until: int, now: float) -> bool:
        reader, counted = self._reader, self._counted
        assert reader is not None
        try:
            return reader.read(until, STEP_BYTES)
        finally:  # counts from before a failure are valid
            self._add_tables(reader)
            for tally in reader.take():
                self._count(tally, now)
            counted.position, counted.number = reader.position, reader.number
            counted.missed = self._missed_before + reader.missed

    def _add_tables(self, reader: UsageReader) -> None:
        """Add the tables that the reader has found, and their definitions."""
        for met in reader.definitions():
            name = met.schema, met.name
            table = self._tables.get(name)
            if table is None:
                usage = TableUsage(*name, Counts(), Counts(), Counts(), 0.0)
                table = self._tables[name] = Table(len(self._tables) + 1, usage)
                self._changed[table.id] = table
            if met.table == len(self._by_index):
                self._by_index.append(table)
            digest = hash(met.definition)
            if self._hashes.get(table.id) != digest:  # each segment repeats the definition
                self._hashes[table.id] = digest
                self._definitions[table.id] = met.definition

    def _count(self, tally: Tally, now: float) -> None:
        table = self._by_index[tally.table]
        rows = Counts(tally.insert, tally.update, tally.delete)
        minute = min(tally.minute, self._minute)
        usage = table.usage
        usage.last = min(float(tally.last), now)
        usage.total.add(rows)
        usage.unproven += tally.unproven
        self._changed[table.id] = table
        if minute > self._minute - DAY:
            usage.day.add(rows)
            self._new_counts.setdefault((minute, table.id), Counts()).add(rows)
        if minute > self._minute - HOUR:
            usage.hour.add(rows)

    def _save(self, store: UsageStore) -> None:
        if self._counted == self._saved and not self._definitions:
            return
        store.save(self._counted, self._changed.values(), self._new_counts, self._definitions, self._minute - DAY)
        self._saved = msgspec.structs.replace(self._counted)
        self._changed, self._new_counts, self._definitions = {}, {}, {}
