"""The CDC service's knowledge of the journal: versions of tables, triplets of transactions, and their positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from relay._native import CdcDefinition, CdcScan, CdcTransaction, JournalError, JournalReader, cdc_fields
from relay.cdc.statements import Statements, defines
from relay.cdc.store import Store, Version
from relay.journal.decoding import decoding
from relay.journal.frames import File, Frame, Rows, Source, Table, decode
from relay.protocol.cdc_messages import Gtid

STEP_BYTES: Final = 16 << 20
"""The bytes of the journal that are read before other work gets its turn."""

_KEEP_BYTES: Final = 64 << 20  # of the journal that may have to be read again after a restart
_MARIADB: Final = re.compile(r"(\d+)-(\d+)-(\d+)")


class Step(NamedTuple):
    """New in the journal since `before`, which is between transactions: tables with rows, tables with a new version."""

    before: int
    touched: set[tuple[str, str]]
    defined: set[tuple[str, str]]


class Versions:
    """The table versions in the journal up to `position`, which is between transactions.

    Raises `JournalError` and `sqlite3.Error`.
    """

    def __init__(self, journal: JournalReader, store: Store, committed: int) -> None:
        self._journal = journal
        self._store = store
        store.forget_after(committed)
        self._saved = store.known()  # read before the versions: another process may add some meanwhile
        self._versions = self._without_lost(store.versions())
        self._statements = Statements()
        self._scan = CdcScan(journal, self._start(self._saved))

    def _without_lost(self, found: dict[tuple[str, str], list[Version]]) -> dict[tuple[str, str], list[Version]]:
        """Drop versions from an end of the journal that was lost with the host.

        The journal may have grown beyond it since.
        """
        for (schema, table), versions in found.items():
            for version in [each for each in versions if each.position >= self._saved and not self._is_valid(each)]:
                self._store.forget(schema, table, version)
                versions.remove(version)
        return found

    def _is_valid(self, version: Version) -> bool:
        """Whether the version's first rows are at its position and have its definition, or are deleted by retention."""
        if version.position < self._journal.first():
            return True
        try:
            rows = self._frame(version.position)[1]
            table = self._frame(rows.table)[1] if isinstance(rows, Rows) else None
            if isinstance(table, Table) and table.link:
                table = self._frame(table.link)[1]
        except JournalError:
            return False
        return isinstance(table, Table) and table.definition == version.definition

    def _frame(self, position: int) -> tuple[int, Frame]:
        """Return the frame at a position, and the position of the next one."""
        following, payload = self._journal.frame(position)
        with decoding(self._journal, position):
            return following, decode(payload)

    @property
    def position(self) -> int:
        """The position up to which everything is known."""
        return self._scan.position

    @property
    def last(self) -> CdcTransaction:
        """The last transaction."""
        return self._scan.last

    def step(self, committed: int) -> Step:
        """Read on towards `committed`."""
        before = self._scan.position
        try:
            self._scan.read(committed, STEP_BYTES)
        except JournalError as error:
            if error.code != "journal_lost":
                raise
            self._scan = CdcScan(self._journal)  # retention was faster: continue with the oldest position
            self._scan.read(committed, STEP_BYTES)
        for source in self._scan.sources():
            self._store.domain(source)
        for each in self._scan.statements():
            gtid = self.triplet(each.gtid, each.server)
            with decoding(self._journal, each.position):
                left = defines(each.text, each.schema, each.tables)
            self._statements.add(each.position, left, str(gtid or Gtid(0, 0, 0)))
        defined = {(new.schema, new.table) for new in self._scan.definitions() if self._define(new)}
        if self.position - self._saved > _KEEP_BYTES or defined:
            self.keep()
        return Step(before, self._scan.touched(), defined)

    def keep(self) -> None:
        """Store where the next process begins: here, but not behind `flushed`, since the host may lose the rest."""
        self._saved = min(self.position, self._journal.flushed())
        self._store.keep_known(self._saved)

    def versions(self, schema: str, table: str) -> list[Version]:
        """Return the table's versions that may still have rows in the journal, oldest first."""
        known, first = self._versions.get((schema, table), []), self._journal.first()
        gone = sum(1 for later in known[1:] if later.begins <= first)
        return known[gone:]

    def version_at(self, schema: str, table: str, position: int) -> Version:
        """Return the version of the rows at a known position."""
        return [each for each in self._versions[schema, table] if each.position <= position][-1]

    def domain(self, source: str) -> int:
        """Return the number of a MySQL source."""
        return self._store.domain(source)

    def triplet(self, gtid: str, server: int) -> Gtid | None:
        """Return the triplet of the transaction with this GTID from this server; None without a GTID."""
        if match := _MARIADB.fullmatch(gtid):
            return Gtid(*map(int, match.groups()))
        source, _, number = gtid.rpartition(":")
        return Gtid(self._store.domain(source), server, int(number)) if source else None

    def start_of(self, gtid: Gtid) -> int:
        """Return a position before the first transaction of its domain with this number or a higher one.

        0 is the oldest position.
        """
        source = self._source(gtid.domain)
        for segment in self._segments_back():
            frame = self._frame(segment)[1]
            assert isinstance(frame, Source)
            before = _highest(frame.gtid_set, source) < gtid.sequence
            if before and not self._journal.torn(segment, self.position):
                return segment
        return 0

    def is_before(self, gtid: Gtid, position: int) -> bool:
        """Whether this transaction is known to come before the segment of a position (0: the oldest segment)."""
        before, at = "", self._journal.segment(position) if position else self._journal.first()
        while at < self.position:
            at, frame = self._frame(at)
            if isinstance(frame, Source):
                before = frame.gtid_set
            elif not isinstance(frame, File | Table):
                break
        return _highest(before, self._source(gtid.domain)) >= gtid.sequence

    def find(self, gtid: Gtid) -> Iterator[CdcTransaction | None]:
        """Find a transaction: yields None between steps, and the transaction if it exists."""
        if not gtid.sequence:
            return
        scan = CdcScan(self._journal, self.start_of(gtid))
        scan.find(self._source(gtid.domain), gtid.sequence)
        while not scan.read(self.position, STEP_BYTES):
            yield None
        if scan.found:
            yield scan.last

    def _source(self, domain: int) -> str:
        """Return a domain in the form of GTIDs: MySQL's uuid and tag, or MariaDB's number."""
        mariadb = not self.last.gtid or _MARIADB.fullmatch(self.last.gtid)
        return str(domain) if mariadb else self._store.source(domain) or ""

    def _segments_back(self) -> Iterator[int]:
        """Yield the beginnings of segments, from the newest to the one after the oldest."""
        first, at = self._journal.first(), self.position
        while at > first:
            at = self._journal.segment(at - 1)
            if at > first:
                yield at

    def _start(self, known: int) -> int:
        """Return a position some transactions before `known`, so that the last transaction becomes known too."""
        if known <= self._journal.first():
            return 0
        at = self._journal.segment(known - 1)
        return self._journal.segment(at - 1) if at > self._journal.first() else at

    def _define(self, new: CdcDefinition) -> bool:
        """Record a definition. Returns whether it is a new version."""
        known = self._versions.setdefault((new.schema, new.table), [])
        before = [each for each in known if each.position <= new.position]
        if before and cdc_fields(before[-1].definition) == cdc_fields(new.definition):
            return False
        since = before[-1].position if before else 0
        gtid = self._statements.gtid_of(new.schema, new.table, since, new.position)
        gtid = gtid or str(self.triplet(new.gtid, new.server) or Gtid(0, 0, 0))
        made = self._store.add_version(new.schema, new.table, new.position, new.begin, gtid, new.definition)
        if made in known:
            return False
        known.append(made)
        return True


def _highest(gtid_set: str, source: str) -> int:
    """Return the highest number of the source in a GTID set, 0 if it has none."""
    highest = 0
    for part in filter(None, re.split(r"[,\s]+", gtid_set)):
        if match := _MARIADB.fullmatch(part):
            highest = max(highest, int(match[3]) if match[1] == source else 0)
            continue
        uuid, *rest = part.split(":")
        name = uuid
        for each in rest:
            if not each[0].isdigit():
                name = f"{uuid}:{each}"
            elif name == source:
                highest = max(highest, int(each.rpartition("-")[2]))
    return highest
