"""Decide where a stream begins, and record a new beginning in the journal before the stream is requested.

A stream begins where the journal ends. It begins elsewhere in an empty journal, after a failover and after an accepted
gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pymysql.connections import Connection

from relay._native import Ingest, JournalWriter
from relay.base.errors import RelayError
from relay.base.log import Log
from relay.binlog.events.position import BinlogPosition
from relay.config.tree import Config
from relay.ingest import gaps, reading, resume
from relay.ingest.gaps import AcceptedGap
from relay.ingest.handler import IngestHandler
from relay.ingest.hosts import Sources
from relay.ingest.lineage import Lineage
from relay.ingest.reader_state import ReaderState
from relay.ingest.statements import defined_between
from relay.schema import source_tables
from relay.schema.restore import SOURCE
from relay.schema.store import Store
from relay.source import facts
from relay.source.facts import BinlogStatus, ServerFacts

PROGRESS_SECONDS: Final = 10.0  # between two log lines about the progress of reading tables
ATTEMPTS: Final = 10  # to find a newest position with definitions
_QUERIED: Final = "looked"  # fact of the schema history: the epoch whose tables were queried


@dataclass
class StreamStart:
    """Decide about the streams of one reader.

    `begun` is called when the journal has a new beginning. Broker and CDC port wait for the first one: what they
    acknowledge holds from there on, even if a process dies.
    """

    reader_state: ReaderState
    store: Store
    writer: JournalWriter
    ingest: Ingest
    sources: Sources
    lineage: Lineage
    low: resume.LowPosition
    gap: AcceptedGap
    log: Log
    begun: Callable[[], None]
    beat: Callable[[], None]  # sends a heartbeat
    ending: Callable[[], bool]  # whether the process must end
    _missing: resume.MissingTransactions = field(default_factory=resume.MissingTransactions)

    def decide(
        self, config: Config, connection: Connection[Any], server: ServerFacts, handler: IngestHandler
    ) -> resume.Start:
        """Decide where to request the stream. Raises `RelayError`, `SourceLost`."""
        if self.gap.error is not None:
            handler.abandon_pending()
            self._skip_gap(self.gap.error, config, connection, server)
            self.gap.error = None
        elif not self.writer.state().identity:
            self._begin(self._first_position(config, connection, server, handler), server)
        here = self.ingest.resume()
        known = resume.JournalEnd(*here[:3], self.writer.state().identity, here.by_gtid_possible)
        if known.identity == server.identity and known.file:
            self.lineage.check(self.sources.account, BinlogPosition(known.file, known.position))
        self._missing.check(known, server, facts.executed_gtids(connection, server), time.monotonic())
        start = resume.plan(known, server, self.low)
        if start.moved:
            self.log("failed_over", host=self.sources.host, source=server.identity, before=known.identity)
            handler.abandon_pending()
            self.store.new_epoch()
            self.ingest.moved()
            self._begin(BinlogStatus("", 4, self.writer.state().gtid_set), server)
        self._query_tables(config, server, handler)
        return start

    def _first_position(
        self, config: Config, connection: Connection[Any], server: ServerFacts, handler: IngestHandler
    ) -> BinlogStatus:
        """Return where an empty journal begins.

        At the newest position, no statement may come between it and the definitions of the tables: rows before such a
        statement would have none. So that position is taken again while statements come, as in a database that is
        being set up.
        """
        start = reading.start_position(config, connection, server)
        for _ in range(ATTEMPTS if config.source.start_position == "newest" else 0):
            self.store.new_epoch()
            self._query_tables(config, server, handler)
            end = facts.binlog_position(connection, server)  # not `binlog_end`: MariaDB takes long to find its GTIDs
            begin, until = (BinlogPosition(each.file, each.position) for each in (start, end))
            if self.ending() or not defined_between(self.sources.account, begin, until, self.beat):
                break
            start = facts.binlog_end(connection, server)
        return start

    def _begin(self, start: BinlogStatus, server: ServerFacts) -> None:
        """Let the journal continue at that position."""
        self.lineage.forget()
        self.writer.source(start.position, start.file, start.gtid_set, server.identity)
        self.begun()

    def _skip_gap(self, error: RelayError, config: Config, connection: Connection[Any], server: ServerFacts) -> None:
        """Continue after a loss, and record it for every client."""
        state = self.writer.state()
        start = gaps.end_of_gap(error, state, config, connection, server)
        lost = self.ingest.forget_prepared()
        reason = f"{error}; this also loses {lost} prepared transactions" if lost else str(error)
        self.writer.gap(state.position, state.file, reason)
        self.store.new_epoch()
        self._begin(start, server)
        self.reader_state.put("generation", str(self.writer.generation()))
        before, after = BinlogPosition(state.file, state.position), BinlogPosition(start.file, start.position)
        self.reader_state.add_gap(time.time(), before, after, reason)
        self.log("gap_accepted", cause=reason, before=before, after=after)

    def _query_tables(self, config: Config, server: ServerFacts, handler: IngestHandler) -> None:
        """Query all tables if that was not done in this epoch: at the first start, and on a new history."""
        connection, binlog = self.sources.schema_connections()
        if self.store.fact(SOURCE) != server.identity:
            self.store.put_fact(SOURCE, server.identity)
        if self.store.fact(_QUERIED) == str(self.store.epoch):
            return
        handler.abandon_assumptions()
        began = logged = time.monotonic()

        def progress(done: int, of: int) -> None:
            nonlocal logged
            self.beat()
            if time.monotonic() - logged > PROGRESS_SECONDS and done < of:
                logged = time.monotonic()
                self.log("schema_reading", tables=done, of=of)

        tables, wants = 0, reading.rules(config).wants
        for replies in source_tables.query_all(connection, server, wants, progress, binlog):
            self.store.put_replies(replies)
            self.store.commit()
            tables += sum(bool(reply.table.table) for reply in replies)
            if self.ending():
                return
        self.store.put_fact(_QUERIED, str(self.store.epoch))
        self.store.commit()
        self.log("schema_read", tables=tables, seconds=round(time.monotonic() - began, 1))
