"""The reader process: reads one binlog stream and writes the journal.

It is a loop with I/O. relay/source and relay/ingest decide how to connect and where to resume, relay/journal decides
what the journal may delete. Framing, transactions and rows are native code (`Ingest`).
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import Any, Final

import msgspec
from pymysql.connections import Connection

from relay._native import Attention, Ingest, Intake, JournalWriter
from relay.base.errors import ErrorCode, ExitCode, RelayError
from relay.binlog.dump import Dump, Request, open_dump
from relay.binlog.events.compression import zstd_parts
from relay.binlog.events.position import BinlogPosition
from relay.config.tree import Config
from relay.ingest import reading, resume
from relay.ingest.agreement import Agreement
from relay.ingest.assumptions import Assumptions
from relay.ingest.definitions import PendingDefinition
from relay.ingest.gaps import AcceptedGap
from relay.ingest.handler import IngestHandler
from relay.ingest.hosts import Sources
from relay.ingest.left_out import StatementCounts
from relay.ingest.lineage import Lineage
from relay.ingest.position_report import REPORT_SECONDS, PositionReport
from relay.ingest.reader_state import ReaderState
from relay.ingest.stream_start import StreamStart
from relay.journal import newest
from relay.journal.maintenance import Maintenance
from relay.journal.retention import Limits
from relay.runtime.context import ReaderContext
from relay.schema import source_tables
from relay.schema.facts import Unreadable
from relay.schema.store import Store
from relay.source.commands import SHORT_POSITION
from relay.source.errors import BinlogError
from relay.source.facts import ServerFacts
from relay.source.failures import Backoff, SourceLost

POLL_SECONDS: Final = 0.5  # the longest wait for data: the period of checking flags
LATEST_SECONDS: Final = REPORT_SECONDS + 0.05  # after the last report: until then the next waits for a pause
QUIET_SECONDS: Final = 2.0  # the period of heartbeats while nothing comes: an idle process finds nothing in the caches
SILENT_HEARTBEATS: Final = 3  # the heartbeats that a source may miss before it counts as lost


def run(context: ReaderContext) -> int:
    """Read until the process must stop, or in a drain to the end of a transaction. Raises `RelayError`."""
    context.arena.source_state = "starting"
    state = context.data_dir / "state.db"
    agreement = Agreement(state, context.accept_gap, context.log)
    with closing(agreement.open_reader_state()) as reader_state:
        newest.check(context.journal_dir, reader_state.broker_position())
        writer = JournalWriter(context.journal_dir, context.config.relay.segment_bytes)
        lost_journal = agreement.check_generation(reader_state, writer, context.journal_dir)
        context.arena.first = writer.first()
        if writer.state().identity:  # else nothing may use it before it has a beginning
            context.arena.attach_writer(writer)
        with (
            closing(reading.open_store(context.data_dir, writer, reader_state, context.log)) as store,
            Maintenance(writer, context.arena, _limits(context.config), context.log) as maintenance,
        ):

            def apply(config: Config) -> None:
                maintenance.limits = _limits(config)

            context.apply = apply
            try:
                _Reader(context, reader_state, store, writer, maintenance, lost_journal).run()
            except Unreadable as error:
                reading.discard_damaged(store.path, error, context.log)
                return ExitCode.UNEXPECTED  # the next reader process rebuilds the file
    return 0


def _limits(config: Config) -> Limits:
    relay = config.relay
    return Limits(relay.journal_keep_bytes, relay.journal_keep_age, relay.journal_max_bytes)


class _Reader:
    """Connect to the source, read, and connect again."""

    def __init__(
        self,
        context: ReaderContext,
        reader_state: ReaderState,
        store: Store,
        writer: JournalWriter,
        maintenance: Maintenance,
        lost_journal: RelayError | None,
    ) -> None:
        self._context = context
        self._arena = context.arena
        self._reader_state = reader_state
        self._store = store
        self._writer = writer
        self._maintenance = maintenance
        self._sources = Sources(context.config, context.log, self._alive)
        self._ingest = Ingest(writer, context.journal_dir, zstd_parts)
        self._ingest.count_into(context.arena.counters_address)
        self._low = resume.LowPosition(reader_state)
        self._lineage = Lineage(reader_state)
        self._backoff = Backoff()
        self._gap = AcceptedGap(context.accept_gap, lost_journal)
        self._start = StreamStart(
            reader_state, store, writer, self._ingest, self._sources, self._lineage, self._low, self._gap,
            context.log, self._begun, context.beat, self._ending,
        )  # fmt: skip
        self._report = PositionReport(self._arena, self._ingest, writer, context.log)
        self._pending: dict[int, PendingDefinition] = {}
        self._passed_over = StatementCounts(context.log, context.status_page)
        self._assumptions = Assumptions(reader_state, writer, context.journal_dir, self._log, context.assumed_page)
        maintenance.uncounted = self._assumptions.uncounted
        self._heard = 0.0

    def run(self) -> None:
        """Run until the process must stop. Raises `RelayError`."""
        while not self._ending():
            if self._arena.paused:
                self._arena.source_state = "paused"
                self._idle(POLL_SECONDS)
                continue
            try:
                self._stream()
            except SourceLost as lost:
                self._retry(lost)
            except RelayError as error:
                if self._sources.may_accept_later(error):
                    self._retry(SourceLost(str(error), hint=error.hint))
                    continue
                if not self._gap.takes(error):
                    raise
        self._sources.close()

    def _retry(self, lost: SourceLost) -> None:
        """Report why there is no stream, and wait until the next attempt."""
        if self._ending():
            return
        wait = self._backoff.wait()
        if lost.code is ErrorCode.PASSWORD_COMMAND:
            self._arena.source_state = "no_password"
            self._context.log("password_failed", cause=lost, retry_in=round(wait, 1))
        else:
            self._arena.source_state = "reconnecting"
            self._context.log("source_lost", cause=lost, hint=lost.hint, retry_in=round(wait, 1))
        self._arena.mark_running(self._context.slot)  # it is running, and has reported why it does not stream
        self._idle(wait)

    def _alive(self) -> None:
        """Send a heartbeat while a connection waits for its password. Raises `SourceLost` if the process must end."""
        self._context.beat()
        self._maintenance.check()
        if self._ending():
            raise SourceLost("the relay stops")

    def _ending(self) -> bool:
        return self._context.stopping or self._arena.draining

    def _idle(self, seconds: float) -> None:
        """Wait, with heartbeats; return early if the process must end."""
        until = time.monotonic() + seconds
        while not self._ending() and (left := until - time.monotonic()) > 0:
            self._context.beat()
            self._maintenance.check()
            time.sleep(min(left, POLL_SECONDS))

    def _stream(self) -> None:
        """Serve one connection from its beginning to its end."""
        connection, server = self._sources.connect()
        if connection.by_cache:
            self._context.log("source_unproven", host=self._sources.host, hint=connection.remedy)
        try:
            handler = self._handler(connection, server)
            request = self._request(connection, server, handler)
            dump = open_dump(connection, server.mariadb, request, POLL_SECONDS)
        finally:
            if connection.open:
                connection.close()
        self._context.log("streaming", host=self._sources.host, source=server.identity, position=request.where)
        try:
            try:
                self._read(dump, handler, server)
            finally:
                self._lineage.save(self._ingest.mark)
        except BinlogError:
            with suppress(SourceLost):  # the source's error may be a consequence of another history
                self._lineage.check(self._sources.account, self._here)
            raise
        finally:
            dump.close()
            self._lineage.close()
            self._writer.rollback()  # an unfinished transaction comes again
            handler.commit_after_rollback()

    def _request(self, connection: Connection[Any], server: ServerFacts, handler: IngestHandler) -> Request:
        """Return the request for the stream. Raises `RelayError`, `SourceLost`."""
        config = self._context.config
        try:
            start = self._start.decide(config, connection, server, handler)
        finally:
            self._arena.count_stored_change()  # it may have recorded a gap
        self._report.known_until = start.known_until
        self._ingest.start(start.file, start.position, start.by_gtid)
        return reading.dump_request(start, server, reading.server_id(config, self._reader_state), config)

    def _begun(self) -> None:
        """Let the other processes use the journal, which has a new beginning."""
        self._maintenance.flush()
        self._arena.attach_writer(self._writer)

    def _handler(self, connection: Connection[Any], server: ServerFacts) -> IngestHandler:
        reading.history(self._store, self._log).set_lower_case(source_tables.lower_case(connection))
        return reading.make_handler(
            self._context.config, self._ingest, self._writer, self._reader_state, self._store, self._sources,
            (connection, server), self._passed_over, self._assumptions, self._log, self._pending,
        )  # fmt: skip

    def _log(self, event: str, **fields: object) -> None:
        """Log an event, and count it if it is about something skipped."""
        if event.endswith("_skipped"):
            self._arena.count_skipped()
        self._context.log(event, **fields)

    def _read(self, dump: Dump, handler: IngestHandler, server: ServerFacts) -> None:
        """Read until the process must stop, or in a drain or pause to the end of a transaction."""
        silence = SILENT_HEARTBEATS * self._context.config.source.heartbeat_seconds
        wakes = self._context.broker_wake, self._context.broker_wake_ahead
        intake = Intake(self._ingest, self._arena, dump.descriptor(), dump.receive, *wakes)

        def idle() -> None:
            self._alive()
            if dump.has_more():  # a check of an idle source must not delay its events
                raise SourceLost("the source sends events again")

        account = msgspec.structs.replace(self._sources.account, alive=idle)
        self._ingest.stop_at_boundary(False)
        self._arena.source_state = "streaming"
        self._arena.mark_running(self._context.slot)
        wait = True
        while not self._context.stopping:
            self._context.beat()
            self._maintenance.check()
            if self._arena.draining or self._arena.paused:
                self._ingest.stop_at_boundary(True)
            heard = intake.heard
            attention = self._receive(intake, once=handler.has_pending, wait=wait)
            handler.commit()
            wait = True
            now = time.monotonic()
            received = intake.heard > heard
            if received:
                self._heard = time.time()
                self._backoff.reset()
            elif now - heard > silence:
                raise SourceLost(f"read the binlog: no event and no heartbeat for {silence} s")
            if attention is None:
                handler.resolve_proven()
                handler.expect_next()
                wait = not handler.expects_more
            elif attention.asks == "boundary":
                self._report_position(now)
                return
            else:
                handler.handle(attention)
                wait = not handler.has_additions  # they are committed first: the next row does not wait for it
            if self._ingest.position > SHORT_POSITION:  # not only at intervals: the file may end at any moment
                self._update_low_position()
            if self._report.due(now) or (attention is None and not received):
                self._report_position(now)
            self._lineage.follow(self._ingest.mark, self._here, account, server)

    @staticmethod
    def _receive(intake: Intake, *, once: bool, wait: bool) -> Attention | None:
        """Receive and ingest until there is something to check; with `once` one receive, without `wait` none."""
        try:
            now = time.monotonic()
            return intake.run(now + REPORT_SECONDS, now + LATEST_SECONDS, once, wait, now + QUIET_SECONDS)
        except OSError as error:
            raise SourceLost(f"read the binlog: {error.strerror or error}") from error

    @property
    def _here(self) -> BinlogPosition:
        """The position in the binlog up to which the ingest has read."""
        return BinlogPosition(self._ingest.file, self._ingest.position)

    def _report_position(self, now: float) -> None:
        self._update_low_position()
        self._passed_over.show()
        self._assumptions.report()
        self._report.update(now, self._sources.host, self._heard)

    def _update_low_position(self) -> None:
        state = self._writer.state()
        self._low.update(BinlogPosition(state.file, state.position), self._here)
