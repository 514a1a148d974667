"""Where a stream begins, which losses are accepted, and what position is reported: decided without a process."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay._native import Arena, Ingest, JournalState, JournalWriter
from relay.base.log import logger
from relay.binlog.events.compression import zstd_parts
from relay.binlog.events.position import BinlogPosition
from relay.config.load import load
from relay.config.tree import Config
from relay.errors import ErrorCode, RelayError, StopCode
from relay.ingest import reading, resume
from relay.ingest.assumptions import Assumptions
from relay.ingest.gaps import AcceptedGap
from relay.ingest.hosts import Sources
from relay.ingest.left_out import StatementCounts
from relay.ingest.lineage import Lineage
from relay.ingest.position_report import REPORT_SECONDS, PositionReport, read_up_to
from relay.ingest.reader_state import ReaderState
from relay.ingest.resume import BEHIND_SECONDS, LACKING_SECONDS, JournalEnd, MissingTransactions
from relay.ingest.stream_start import StreamStart
from relay.source import facts
from relay.source.facts import ServerFacts
from relay.source.failures import SourceLost

OURS = "mysql:ours"
LOSSES = (
    StopCode.BINLOG_PURGED,
    StopCode.BINLOG_RESET,
    StopCode.GTID_GAP,
    StopCode.WRONG_SOURCE,
    StopCode.EVENT_TOO_LARGE,
)


def error(code: ErrorCode | StopCode) -> RelayError:
    return RelayError(code, "test", "cause", position="binlog.000001:4")


@pytest.mark.parametrize("code", LOSSES)
def test_a_loss_is_accepted_once(code: StopCode) -> None:
    gap = AcceptedGap(True, None)
    loss = error(code)
    assert gap.takes(loss)
    assert gap.error is loss
    gap.error = None
    assert not gap.takes(error(code))
    assert gap.error is None


@pytest.mark.parametrize("code", LOSSES)
def test_a_loss_that_nobody_accepted_is_an_error(code: StopCode) -> None:
    assert not AcceptedGap(False, None).takes(error(code))


@pytest.mark.parametrize("code", sorted({*StopCode, *ErrorCode} - {*LOSSES}))
def test_other_errors_are_not_accepted_and_a_later_loss_is(code: ErrorCode | StopCode) -> None:
    gap = AcceptedGap(True, None)
    assert not gap.takes(error(code))
    assert gap.takes(error(StopCode.GTID_GAP))


def test_a_lost_journal_leaves_one_loss_of_the_source_to_accept() -> None:
    lost = error(StopCode.JOURNAL_LOST)
    gap = AcceptedGap(True, lost)
    assert gap.error is lost
    assert gap.takes(error(StopCode.BINLOG_PURGED))


@pytest.mark.parametrize(("identity", "patience"), [(OURS, LACKING_SECONDS), ("mysql:other", BEHIND_SECONDS)])
def test_missing_transactions_are_waited_for_with_a_limit(identity: str, patience: float) -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    server = ServerFacts("mysql", "9.7.0", 1, "ours", 0, True, "CRC32", True, 0)
    known = JournalEnd("binlog.000001", 4, f"{uuid}:1-7", identity)
    missing = MissingTransactions()
    for now in (100.0, 100.0 + patience):
        with pytest.raises(SourceLost):
            missing.check(known, server, f"{uuid}:1-6", now)
    missing.check(known, server, f"{uuid}:1-7", 101.0 + patience)  # the time counts from the beginning again
    with pytest.raises(SourceLost):
        missing.check(known, server, "", 102.0 + patience)
    with pytest.raises(RelayError) as stopped:
        missing.check(known, server, "", 102.1 + 2 * patience)
    assert stopped.value.code is StopCode.GTID_GAP


@pytest.mark.parametrize(
    ("here", "whole", "expected"),
    [
        (BinlogPosition("b.2", 900), True, 900),  # such as the head of a new file
        (BinlogPosition("b.2", 900), False, 500),  # the rows of a transaction are not published yet
        (BinlogPosition("b.3", 900), True, 500),  # the journal has nothing of that file
        (BinlogPosition("b.2", 400), True, 500),  # read again
    ],
)
def test_the_reported_offset_is_what_is_published(here: BinlogPosition, whole: bool, expected: int) -> None:
    assert read_up_to(JournalState("b.2", 500, "", OURS, 7), here, whole=whole) == expected


def test_reports_come_at_intervals_and_name_host_and_position(tmp_path: Path) -> None:
    shape = (4, 1, 0)
    arena = Arena(mmap.mmap(-1, Arena.size(*shape)), *shape)
    writer = JournalWriter(tmp_path, 1 << 20)
    ingest = Ingest(writer, tmp_path, zstd_parts)
    writer.source(4, "binlog.000003", "", OURS)
    ingest.start("binlog.000003", 4)
    report = PositionReport(arena, ingest, writer, logger("test"))
    assert report.due(100.0)
    report.update(100.0, "db1", 1_700_000_000.0)
    found = arena.source()
    assert (found["host"], found["file"], found["position"], found["heard"]) == ("db1", "binlog.000003", 4, 1.7e9)
    assert not report.due(100.0 + REPORT_SECONDS / 2)
    assert report.due(100.0 + REPORT_SECONDS * 1.01)


class Begun:
    """What a `StreamStart` decides on a real source, with its journal and its logged events."""

    def __init__(self, server: DatabaseServer, folder: Path, lost_journal: RelayError | None) -> None:
        flags = {
            "Server.IPAddr": "127.0.0.1",
            "Server.Port": str(server.port),
            "Server.Login": USER,
            "Server.Password": PASSWORD,
            "Server.AuthSecret": "x",
            "Relay.DataDir": str(folder),
        }
        self.config: Config = load(None, {}, flags)[0]
        self.events: list[str] = []
        self.begun = 0
        self.reader_state = ReaderState(folder / "state.db")
        self._journal = folder / "journal"
        self.writer = JournalWriter(self._journal, 1 << 20)
        self.ingest = Ingest(self.writer, folder / "journal", zstd_parts)
        self.store = reading.open_store(folder, self.writer, self.reader_state, self.log)
        self.sources = Sources(self.config, self.log)
        self.gap = AcceptedGap(True, lost_journal)
        self.start = StreamStart(
            self.reader_state, self.store, self.writer, self.ingest, self.sources, Lineage(self.reader_state),
            resume.LowPosition(self.reader_state), self.gap, self.log, self.journal_begun, lambda: None, lambda: False,
        )  # fmt: skip

    def log(self, event: str, **fields: object) -> None:
        self.events.append(event)

    def journal_begun(self) -> None:
        self.begun += 1

    def decide(self) -> resume.Start:
        connection, server = self.sources.connect()
        connected: tuple[Any, ServerFacts] = connection, server
        handler = reading.make_handler(
            self.config, self.ingest, self.writer, self.reader_state, self.store, self.sources, connected,
            StatementCounts(self.log), Assumptions(self.reader_state, self.writer, self._journal, self.log), self.log,
            {},
        )  # fmt: skip
        with closing(connection):
            return self.start.decide(self.config, connection, server, handler)

    def close(self) -> None:
        self.sources.close()
        self.store.close()
        self.reader_state.close()


@pytest.fixture
def begun(mariadb1011: DatabaseServer, tmp_path: Path) -> Iterator[Begun]:
    with closing(Begun(mariadb1011, tmp_path, None)) as made:
        yield made


def test_an_empty_journal_begins_at_the_newest_position_and_the_next_stream_where_it_ends(begun: Begun) -> None:
    first = begun.decide()
    assert (begun.begun, begun.events) == (1, ["schema_read"])
    state = begun.writer.state()
    assert (first.file, first.position) == (state.file, state.position)
    assert begun.decide() == first
    assert (begun.begun, begun.events) == (1, ["schema_read"])


def test_an_accepted_loss_continues_at_the_oldest_position_and_is_recorded(begun: Begun) -> None:
    begun.decide()
    assert begun.gap.takes(error(StopCode.BINLOG_PURGED))
    start = begun.decide()
    connection, server = begun.sources.connect()
    with closing(connection):
        oldest = facts.binlog_start(connection, server)
    assert (start.file, start.position) == (oldest.file, oldest.position)
    assert begun.gap.error is None
    assert begun.events == ["schema_read", "gap_accepted", "schema_read"]
    assert begun.reader_state.get("generation") == str(begun.writer.generation())
