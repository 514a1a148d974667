"""One verification: connect, find the range, have both sides read, and count what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pymysql.connections import Connection

from relay.binlog import facts
from relay.binlog.connect import Account, query
from relay.binlog.facts import ServerFacts
from relay.binlog.failures import SourceLost
from relay.binlog.place import Place
from relay.binlog.rules import Rules
from relay.binlog.sources import Sources
from relay.config import Config
from relay.errors import ErrorCode, RelayError, StopCode
from relay.log import logger
from relay.verify import compare, places
from relay.verify.journal import Journal
from relay.verify.places import Range
from relay.verify.report import Report
from relay.verify.sides import OurRows, Seen, Step
from relay.verify.witness import Witness, choose_server_id


class Progress(NamedTuple):
    """How far it has come: the part of the journal's range that is done, the place in the binlog, rows so far."""

    done: float
    place: Place
    rows: int
    seconds: float

    @property
    def text(self) -> str:
        """Rows, speed and place in words."""
        return f"{self.rows:,} rows  {self.rows / self.seconds:,.0f} rows/s  {self.place}"


Show = Callable[[Progress], None]


def run(config: Config, start: str, end: str, show: Show) -> Report:
    """Compare the range from `start` to `end`, positions as `StartPosition` has them; `show` is called often.

    Raises `RelayError` where there is nothing to compare or to compare with; what happens later is in the report.
    """
    journal = Journal(Path(config.relay.data_dir) / "journal")
    source = _ask(config)
    found = places.find(journal, start, end, source.server, source.oldest)
    first, last = found
    report = Report(
        f"{source.server.identity} at {source.account.address}",
        str(first.place), str(last.place), first.end, last.end,
    )  # fmt: skip
    checksum = source.server.checksum
    with closing(Witness(source.account, first.place, last.place, checksum, source.server_id)) as witness:
        _compare(_Sides(journal, found, witness), _policy(config, source), report, show)
    return report


class _Source(NamedTuple):
    """What is asked of the source: the account used, what it says of itself, its oldest place, its collations."""

    account: Account
    server: ServerFacts
    oldest: Place
    charset_of: dict[int, str]
    server_id: int  # that nobody uses


def _ask(config: Config) -> _Source:
    """Ask the first host that answers."""
    sources = Sources(config, logger("verify"))
    for _ in config.server.ip_addr:
        try:
            return _answers(config, sources)
        except SourceLost as error:
            lost = error
    raise RelayError(ErrorCode.SOURCE_UNREACHABLE, "verify", str(lost)) from lost


def _answers(config: Config, sources: Sources) -> _Source:
    connection, server = sources.connect()
    with closing(connection):
        file = str(query(connection, "SHOW BINARY LOGS", "list the binlog's files")[0][0])
        taken = {server.server_id, config.source.server_id, *_replicas(connection, server)}
        charset_of = facts.collations(connection)
    return _Source(sources.account, server, Place(file, 4), charset_of, choose_server_id(taken))


def _replicas(connection: Connection[Any], server: ServerFacts) -> list[int]:
    """Server ids of the replicas that are connected."""
    statement = "SHOW SLAVE HOSTS" if server.mariadb else "SHOW REPLICAS"
    try:
        rows = query(connection, statement, "list the replicas")
    except RelayError as error:
        if error.code is not StopCode.SOURCE_DENIED:
            raise
        return []  # MariaDB wants more rights for this than a replica needs; a clash is unlikely, and named if it comes
    return [int(row[0]) for row in rows]


def _policy(config: Config, source: _Source) -> compare.Policy:
    wanted, skip = config.source, config.relay.on_unknown == "skip"
    rules = Rules(wanted.tables, wanted.exclude_tables, wanted.exclude_columns, skip)
    return compare.Policy(rules, skip, source.charset_of)


class _Sides:
    """Both sides as iterators, and how far they have come."""

    def __init__(self, journal: Journal, found: Range, witness: Witness) -> None:
        self._journal = journal
        self._range = found
        self._witness = witness
        self.position = found.first.end
        self.failure: RelayError | None = None

    @property
    def witness(self) -> Witness:
        """The witness."""
        return self._witness

    @property
    def done(self) -> float:
        """The part of the range that is done."""
        first, last = self._range.first.end, self._range.last.end
        return (self.position - first) / (last - first) if last > first else 1.0

    def steps(self) -> Iterator[Step]:
        """The journal's."""
        for step in self._journal.between(*self._range):
            self.position = step.end
            yield step

    def rows(self, step: Step) -> Iterator[OurRows]:
        """Of a step."""
        for ours in self._journal.rows(step):
            self.position = ours.at
            yield ours

    def sightings(self) -> Iterator[Seen]:
        """The witness', to the end or until it cannot go on."""
        try:
            yield from self._witness.sightings()
        except RelayError as failure:
            self.failure = failure


def _compare(sides: _Sides, policy: compare.Policy, report: Report, show: Show) -> None:
    began = time.monotonic()
    for pair in compare.pairs(sides.steps(), sides.rows, sides.sightings()):
        ours, seen, _ = pair
        if sides.failure and ours and not seen and sides.witness.place < ours.place:
            break
        report.add(compare.judge(pair, policy))
        report.seconds = time.monotonic() - began
        show(Progress(sides.done, sides.witness.place, report.rows, report.seconds))
    report.seconds = time.monotonic() - began
    report.leave_out("of XA transactions that were rolled back", sides.witness.rolled_back)
    report.leave_out("of XA transactions that were prepared, and not yet ended", sides.witness.prepared)
    if sides.failure:
        report.ended_early = str(sides.failure)
        report.end, report.journal_end = str(sides.witness.place), sides.position
