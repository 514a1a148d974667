"""Run one verification: connect, find the range, read both sides and count the findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pymysql.connections import Connection

from relay.base.errors import RelayError, StopCode
from relay.base.log import logger
from relay.binlog.events.position import BinlogPosition
from relay.config.tree import Config
from relay.ingest.hosts import Sources
from relay.ingest.rules import Rules
from relay.source import facts
from relay.source.connect import Account, query
from relay.source.facts import ServerFacts
from relay.source.failures import SourceLost
from relay.verify import compare, ranges
from relay.verify.journal import Journal
from relay.verify.ranges import Range
from relay.verify.reference import ReferenceReader, choose_server_id
from relay.verify.report import Report
from relay.verify.sides import JournalRows, ReferenceEvent, Step


class Progress(NamedTuple):
    """The progress: the finished fraction of the journal's range, the binlog position, rows and seconds so far."""

    done: float
    position: BinlogPosition
    rows: int
    seconds: float

    @property
    def text(self) -> str:
        """Rows, speed and position as text."""
        return f"{self.rows:,} rows  {self.rows / self.seconds:,.0f} rows/s  {self.position}"


Show = Callable[[Progress], None]


def run(config: Config, start: str, end: str, show: Show) -> Report:
    """Compare the range from `start` to `end`, in the form of `StartPosition`; `show` is called often.

    Raises `RelayError` if there is nothing to compare; later failures are in the report.
    """
    journal = Journal(Path(config.relay.data_dir) / "journal")
    source = _query_source(config)
    found = ranges.find(journal, start, end, source.server, source.oldest)
    first, last = found
    report = Report(
        f"{source.server.identity} at {source.account.address}",
        str(first.position), str(last.position), first.end, last.end,
    )  # fmt: skip
    reference = ReferenceReader(source.account, first.position, last.position, source.server.checksum, source.server_id)
    with closing(reference):
        _compare(_Sides(journal, found, reference), _policy(config, source), report, show)
    return report


class _Source(NamedTuple):
    """Facts about the source: the account used, the server, its oldest binlog position, its collations."""

    account: Account
    server: ServerFacts
    oldest: BinlogPosition
    charset_of: dict[int, str]
    server_id: int  # not in use


def _query_source(config: Config) -> _Source:
    """Query the first host that replies."""
    sources = Sources(config, logger("verify"))
    for _ in config.server.ip_addr:
        try:
            return _query_host(config, sources)
        except SourceLost as error:
            lost = error
    raise lost.failure("verify") from lost


def _query_host(config: Config, sources: Sources) -> _Source:
    connection, server = sources.connect()
    with closing(connection):
        file = str(query(connection, "SHOW BINARY LOGS", "list the binlog's files")[0][0])
        taken = {server.server_id, config.source.server_id, *_replicas(connection, server)}
        charset_of = facts.collations(connection)
    return _Source(sources.account, server, BinlogPosition(file, 4), charset_of, choose_server_id(taken))


def _replicas(connection: Connection[Any], server: ServerFacts) -> list[int]:
    """Server ids of the connected replicas."""
    statement = "SHOW SLAVE HOSTS" if server.mariadb else "SHOW REPLICAS"
    try:
        rows = query(connection, statement, "list the replicas")
    except RelayError as error:
        if error.code is not StopCode.SOURCE_DENIED:
            raise
        return []  # MariaDB requires privileges that a replica lacks; a clash is unlikely, and reported
    return [int(row[0]) for row in rows]


def _policy(config: Config, source: _Source) -> compare.Policy:
    wanted, skip = config.source, config.relay.on_unknown == "skip"
    rules = Rules(wanted.tables, wanted.exclude_tables, wanted.exclude_columns, skip)
    return compare.Policy(rules, skip, source.charset_of)


class _Sides:
    """Both sides as iterators, and their progress."""

    def __init__(self, journal: Journal, found: Range, reference: ReferenceReader) -> None:
        self.reference = reference
        self._journal = journal
        self._range = found
        self.journal_position = found.first.end
        self.failure: RelayError | None = None

    @property
    def done(self) -> float:
        """The finished fraction of the range."""
        first, last = self._range.first.end, self._range.last.end
        return (self.journal_position - first) / (last - first) if last > first else 1.0

    def steps(self) -> Iterator[Step]:
        """Yield the steps of the journal."""
        for step in self._journal.between(*self._range):
            self.journal_position = step.end
            yield step

    def rows(self, step: Step) -> Iterator[JournalRows]:
        """Yield the rows events of a step."""
        for ours in self._journal.rows(step):
            self.journal_position = ours.journal_position
            yield ours

    def events(self) -> Iterator[ReferenceEvent]:
        """Yield the events of the reference reader, up to the end or to its failure."""
        try:
            yield from self.reference.events()
        except RelayError as failure:
            self.failure = failure


def _compare(sides: _Sides, policy: compare.Policy, report: Report, show: Show) -> None:
    began = time.monotonic()
    for pair in compare.pairs(sides.steps(), sides.rows, sides.events()):
        ours, seen, _ = pair
        if sides.failure and ours and not seen and sides.reference.position < ours.position:
            break
        report.add(compare.compare_pair(pair, policy))
        report.seconds = time.monotonic() - began
        show(Progress(sides.done, sides.reference.position, report.rows, report.seconds))
    report.seconds = time.monotonic() - began
    report.leave_out("of XA transactions that were rolled back", sides.reference.rolled_back)
    report.leave_out("of XA transactions that are prepared and not ended", sides.reference.prepared)
    if sides.failure:
        report.ended_early = str(sides.failure)
        report.end, report.journal_end = str(sides.reference.position), sides.journal_position
