"""What the CDC service knows of the journal: versions of tables, triplets of transactions, and where to find them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from relay._native import CdcMet, CdcScan, CdcTransaction, JournalError, JournalReader, cdc_fields
from relay.cdc.statements import Statements, defines
from relay.cdc.store import Store, Version
from relay.journal.frames import File, Rows, Source, Table, decode
from relay.wire.cdcwords import Gtid

STEP_BYTES: Final = 16 << 20
"""Of the journal that are walked before something else gets its turn."""

_KEEP_BYTES: Final = 64 << 20  # of the journal that may have to be walked again after a restart
_MARIADB: Final = re.compile(r"(\d+)-(\d+)-(\d+)")


class Step(NamedTuple):
    """What came since `before`, which is between transactions: tables with rows; those with a new version."""

    before: int
    touched: set[tuple[str, str]]
    defined: set[tuple[str, str]]


class Catalogue:
    """Knows everything of the journal up to `position`, which is between transactions.

    Raises `JournalError` and `sqlite3.Error`.
    """

    def __init__(self, journal: JournalReader, store: Store, committed: int) -> None:
        self._journal = journal
        self._store = store
        store.forget_after(committed)
        self._kept = store.known()  # before the versions: another process may add some meanwhile
        self._versions = self._standing(store.versions())
        self._statements = Statements()
        self._scan = CdcScan(journal, self._start(self._kept))

    def _standing(self, found: dict[tuple[str, str], list[Version]]) -> dict[tuple[str, str], list[Version]]:
        """Without versions of an end that the journal lost with its host; it may have grown beyond them since."""
        for (schema, table), versions in found.items():
            for version in [each for each in versions if each.position >= self._kept and not self._stands(each)]:
                self._store.forget(schema, table, version)
                versions.remove(version)
        return found

    def _stands(self, version: Version) -> bool:
        """Whether its first rows are where they were, and of its definition; or were retired."""
        if version.position < self._journal.first():
            return True
        try:
            rows = decode(self._journal.frame(version.position)[1])
            table = decode(self._journal.frame(rows.table)[1]) if isinstance(rows, Rows) else None
            if isinstance(table, Table) and table.link:
                table = decode(self._journal.frame(table.link)[1])
        except JournalError:
            return False
        return isinstance(table, Table) and table.definition == version.definition

    @property
    def position(self) -> int:
        """Up to here everything is known."""
        return self._scan.position

    @property
    def last(self) -> CdcTransaction:
        """The last transaction."""
        return self._scan.last

    def step(self, committed: int) -> Step:
        """Walk on towards a position that is committed."""
        before = self._scan.position
        try:
            self._scan.read(committed, STEP_BYTES)
        except JournalError as error:
            if error.code != "journal_lost":
                raise
            self._scan = CdcScan(self._journal)  # retention was faster: on with what there is
            self._scan.read(committed, STEP_BYTES)
        for source in self._scan.sources():
            self._store.domain(source)
        for each in self._scan.statements():
            gtid = self.triplet(each.gtid, each.server)
            left = defines(each.text, each.schema, each.tables)
            self._statements.add(each.position, left, str(gtid or Gtid(0, 0, 0)))
        defined = {(met.schema, met.table) for met in self._scan.met() if self._define(met)}
        if self.position - self._kept > _KEEP_BYTES or defined:
            self.keep()
        return Step(before, self._scan.touched(), defined)

    def keep(self) -> None:
        """Have the next process begin here; not with what a loss of the host would take from the journal."""
        self._kept = min(self.position, self._journal.flushed())
        self._store.keep_known(self._kept)

    def versions(self, schema: str, table: str) -> list[Version]:
        """Those of the table that may still have rows in the journal, oldest first."""
        known, first = self._versions.get((schema, table), []), self._journal.first()
        gone = sum(1 for later in known[1:] if later.begins <= first)
        return known[gone:]

    def version_at(self, schema: str, table: str, position: int) -> Version:
        """The version of the rows at this position, which is known."""
        return [each for each in self._versions[schema, table] if each.position <= position][-1]

    def domain(self, source: str) -> int:
        """The number that stands for a source of MySQL's."""
        return self._store.domain(source)

    def triplet(self, gtid: str, server: int) -> Gtid | None:
        """What stands for the transaction with this GTID, made on this server; None without a GTID."""
        if match := _MARIADB.fullmatch(gtid):
            return Gtid(*map(int, match.groups()))
        source, _, number = gtid.rpartition(":")
        return Gtid(self._store.domain(source), server, int(number)) if source else None

    def start_of(self, gtid: Gtid) -> int:
        """A position before the first transaction of its domain with this number or a higher one; 0: the oldest."""
        source = self._source(gtid.domain)
        for segment in self._segments_back():
            frame = decode(self._journal.frame(segment)[1])
            assert isinstance(frame, Source)
            before = _highest(frame.gtid_set, source) < gtid.sequence
            if before and not self._journal.torn(segment, self.position):
                return segment
        return 0

    def is_before(self, gtid: Gtid, position: int) -> bool:
        """Whether this transaction was made before the segment of a position, 0: the oldest, as far as is known."""
        before, at = "", self._journal.segment(position) if position else self._journal.first()
        while at < self.position:
            at, payload = self._journal.frame(at)
            frame = decode(payload)
            if isinstance(frame, Source):
                before = frame.gtid_set
            elif not isinstance(frame, File | Table):
                break
        return _highest(before, self._source(gtid.domain)) >= gtid.sequence

    def find(self, gtid: Gtid) -> Iterator[CdcTransaction | None]:
        """Look for a transaction: yields None between steps, and the transaction if it is there."""
        if not gtid.sequence:
            return
        scan = CdcScan(self._journal, self.start_of(gtid))
        scan.find(self._source(gtid.domain), gtid.sequence)
        while not scan.read(self.position, STEP_BYTES):
            yield None
        if scan.found:
            yield scan.last

    def _source(self, domain: int) -> str:
        """A domain as GTIDs have it: MySQL's uuid and tag, or MariaDB's number."""
        mariadb = not self.last.gtid or _MARIADB.fullmatch(self.last.gtid)
        return str(domain) if mariadb else self._store.source(domain) or ""

    def _segments_back(self) -> Iterator[int]:
        """Where segments begin, from the newest to the one after the oldest."""
        first, at = self._journal.first(), self.position
        while at > first:
            at = self._journal.segment(at - 1)
            if at > first:
                yield at

    def _start(self, known: int) -> int:
        """Some transactions before `known`, so that the last one is known, too."""
        if known <= self._journal.first():
            return 0
        at = self._journal.segment(known - 1)
        return self._journal.segment(at - 1) if at > self._journal.first() else at

    def _define(self, met: CdcMet) -> bool:
        """Note the definition; whether it is a new version."""
        known = self._versions.setdefault((met.schema, met.table), [])
        before = [each for each in known if each.position <= met.position]
        if before and cdc_fields(before[-1].definition) == cdc_fields(met.definition):
            return False
        since = before[-1].position if before else 0
        gtid = self._statements.made(met.schema, met.table, since, met.position)
        gtid = gtid or str(self.triplet(met.gtid, met.server) or Gtid(0, 0, 0))
        made = self._store.add_version(met.schema, met.table, met.position, met.begin, gtid, met.definition)
        if made in known:
            return False
        known.append(made)
        return True


def _highest(gtid_set: str, source: str) -> int:
    """The highest number of the source in a set, 0 if it has none."""
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
