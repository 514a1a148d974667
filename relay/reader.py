"""The reader process: one binlog stream in, the journal out.

A loop and its I/O. What is decided stands elsewhere: how to connect and where to go on in relay/binlog, what the
journal may forget in relay/journal; framing, transactions and rows are native (`Ingest`).
"""

from __future__ import annotations

import secrets
import time
from contextlib import closing, suppress
from typing import Any, Final

from pymysql.connections import Connection

from relay._native import Attention, Ingest, Intake, JournalWriter
from relay.binlog import facts, reading, resume
from relay.binlog.answers import Answers
from relay.binlog.catalog import Catalog
from relay.binlog.commands import SHORT_POSITION
from relay.binlog.compression import zstd_parts
from relay.binlog.definitions import Question
from relay.binlog.dump import Dump, Request, open_dump
from relay.binlog.errors import BinlogError
from relay.binlog.facts import BinlogStatus, ServerFacts
from relay.binlog.failures import Backoff, SourceLost
from relay.binlog.lineage import Lineage
from relay.binlog.pauses import Pauses
from relay.binlog.place import Place
from relay.binlog.sources import Sources
from relay.config import Config
from relay.context import ReaderContext
from relay.errors import ExitCode, RelayError, StopCode
from relay.journal import newest
from relay.journal.keeper import Keeper
from relay.journal.retention import Limits
from relay.queues.state import ClientState
from relay.schema import look
from relay.schema.facts import Unreadable
from relay.schema.restore import SOURCE
from relay.schema.store import Store

POLL_SECONDS: Final = 0.5  # how long a fetch waits: the rhythm of heartbeats and of looking at the flags
REPORT_SECONDS: Final = 0.1  # least time between two reports of where the source stands
PAUSING_SECONDS: Final = 0.01  # between two looks at whether pauses are still right, where there are some
PROGRESS_SECONDS: Final = 10.0  # between two lines on how far what is read again has come
LACKING_SECONDS: Final = 5.0  # that a source may lack a transaction it sent,
BEHIND_SECONDS: Final = 60.0  # and one that another sent, which it may still replicate
SILENT_HEARTBEATS: Final = 3  # that a source may miss before it counts as lost
_LOOKED: Final = "looked"  # fact of the schema history: the epoch whose tables were asked for
_FROM_THE_START: Final = frozenset({StopCode.BINLOG_PURGED, StopCode.BINLOG_RESET})  # all that the source has is new
_GAPS: Final = _FROM_THE_START | {StopCode.GTID_GAP, StopCode.WRONG_SOURCE, StopCode.EVENT_TOO_LARGE}


def run(context: ReaderContext) -> int:
    """Reads until told to stop or, in a drain, to a transaction's end. A named stop leaves as `RelayError`."""
    context.arena.source_state = "starting"
    state = context.data_dir / "state.db"
    with closing(Catalog(state)) as catalog:
        with closing(ClientState(state)) as queues:
            newest.check(context.journal_dir, queues.position())
        writer = JournalWriter(context.journal_dir, context.config.relay.segment_bytes)
        gap = _check_generation(context, catalog, writer)
        context.arena.first = writer.first()
        if writer.state().identity:  # else nobody may rely on it before it has its beginning
            context.arena.attach_writer(writer)
        with (
            closing(reading.store(context.data_dir, writer, catalog, context.log)) as store,
            Keeper(writer, context.arena, _limits(context.config), context.log) as keeper,
        ):

            def apply(config: Config) -> None:
                keeper.limits = _limits(config)

            context.apply = apply
            try:
                _Reader(context, catalog, store, writer, keeper, gap).run()
            except Unreadable as error:
                reading.put_aside(store.path, error, context.log)
                return ExitCode.UNEXPECTED  # another takes its place, and makes the file anew
    return 0


def _limits(config: Config) -> Limits:
    relay = config.relay
    return Limits(relay.journal_keep_bytes, relay.journal_keep_age, relay.journal_max_bytes)


def _check_generation(context: ReaderContext, catalog: Catalog, writer: JournalWriter) -> RelayError | None:
    """A journal that was lost or wiped is a new one: what clients stand in is gone, and that has to be accepted.

    The gap, if there is one and it is accepted.
    """
    generation, known = str(writer.generation()), catalog.get("generation")
    if not known:
        catalog.put("generation", generation)
    if known in ("", generation):
        return None
    cause = f"its id is {generation}, state.db belongs to {known}"
    lost = RelayError(StopCode.JOURNAL_LOST, "open the journal", cause, position=str(context.journal_dir))
    if not context.accept_gap:
        raise lost
    return lost


class _Reader:
    """Connects, reads, and connects again."""

    def __init__(
        self,
        context: ReaderContext,
        catalog: Catalog,
        store: Store,
        writer: JournalWriter,
        keeper: Keeper,
        gap: RelayError | None,
    ) -> None:
        self._context = context
        self._arena = context.arena
        self._catalog = catalog
        self._store = store
        self._writer = writer
        self._keeper = keeper
        self._sources = Sources(context.config, context.log)
        self._ingest = Ingest(writer, context.journal_dir, zstd_parts)
        self._ingest.count_into(context.arena.counters_address)
        self._low = resume.LowPlace(catalog)
        self._lineage = Lineage(catalog)
        self._backoff = Backoff()
        self._accept_gap = context.accept_gap
        self._gap = gap  # accepted, and not yet written down
        self._lacking: float | None = None
        self._questions: dict[int, Question] = {}
        self._heard = 0.0
        self._reported = 0.0
        self._again = ""  # the place up to which all that comes is known
        self._progress = 0.0

    def run(self) -> None:
        """Until told to stop. Raises `RelayError`."""
        while not self._ending():
            if self._arena.paused:
                self._arena.source_state = "paused"
                self._idle(POLL_SECONDS)
                continue
            try:
                self._stream()
            except SourceLost as lost:
                wait = self._backoff.wait()
                self._arena.source_state = "reconnecting"
                self._arena.mark_running(self._context.slot)  # it knows why it does not stream
                self._context.log("source_lost", cause=lost, retry_in=round(wait, 1))
                self._idle(wait)
            except RelayError as error:
                if error.code not in _GAPS or not self._accept_gap:
                    raise
                self._accept_gap = False
                self._gap = error
        self._sources.close()

    def _ending(self) -> bool:
        return self._context.stopping or self._arena.draining

    def _idle(self, seconds: float) -> None:
        """Wait, with heartbeats, and no longer than there is a reason to."""
        until = time.monotonic() + seconds
        while not self._ending() and (left := until - time.monotonic()) > 0:
            self._context.beat()
            self._keeper.check()
            time.sleep(min(left, POLL_SECONDS))

    def _stream(self) -> None:
        """One connection from its beginning to its end."""
        connection, server = self._sources.connect()
        if connection.by_cache:
            self._context.log("source_unproven", host=self._sources.host, hint=connection.remedy)
        try:
            answers = self._answers(connection, server)
            request = self._request(connection, server, answers)
            dump = open_dump(connection, server.mariadb, request, POLL_SECONDS)
        finally:
            if connection.open:
                connection.close()
        self._context.log("streaming", host=self._sources.host, source=server.identity, position=request.where)
        try:
            try:
                self._read(dump, answers, server)
            finally:
                self._lineage.keep(self._ingest.mark)
        except BinlogError:
            with suppress(SourceLost):  # what it says of its binlog may be the consequence of another history
                self._lineage.check(self._sources.account, Place(self._ingest.file, self._ingest.position))
            raise
        finally:
            dump.close()
            self._lineage.close()
            self._writer.rollback()  # what has not ended comes again
            answers.settle()

    def _request(self, connection: Connection[Any], server: ServerFacts, answers: Answers) -> Request:
        """Where to go on, written down first where that is a new beginning. Raises `RelayError`."""
        if self._gap is not None:
            answers.moved()
            self._skip_gap(self._gap, connection, server)
            self._gap = None
        elif not self._writer.state().identity:
            self._begin(self._first_place(connection, server), server)
        here = self._ingest.resume()
        known = resume.Known(*here[:3], self._writer.state().identity, here.by_gtid_possible)
        if known.identity == server.identity and known.file:
            self._lineage.check(self._sources.account, Place(known.file, known.position))
        self._check_source(connection, server, known)
        start = resume.plan(known, server, self._low)
        if start.moved:
            self._context.log("failed_over", host=self._sources.host, source=server.identity, before=known.identity)
            answers.moved()
            self._store.new_epoch()
            self._ingest.moved()
            self._begin(BinlogStatus("", 4, self._writer.state().gtid_set), server)
        self._again = start.again
        self._look(server)
        self._ingest.start(start.file, start.position, start.by_gtid)
        return reading.request(start, server, self._server_id(), self._context.config)

    def _look(self, server: ServerFacts) -> None:
        """Ask for all tables, where nothing is known of them yet: at the first start, and where places got a new
        meaning."""
        connection, binlog = self._sources.asking()
        if self._store.fact(SOURCE) != server.identity:
            self._store.put_fact(SOURCE, server.identity)
        if self._store.fact(_LOOKED) == str(self._store.epoch):
            return
        began, told = time.monotonic(), time.monotonic()

        def seen(done: int, of: int) -> None:
            nonlocal told
            self._context.beat()
            if time.monotonic() - told > PROGRESS_SECONDS and done < of:
                told = time.monotonic()
                self._context.log("schema_reading", tables=done, of=of)

        tables = 0
        for answers in look.everything(connection, server, reading.rules(self._context.config).wants, seen, binlog):
            self._store.put_answers(answers)
            self._store.keep()
            tables += sum(bool(answer.table.table) for answer in answers)
            if self._ending():
                return
        self._store.put_fact(_LOOKED, str(self._store.epoch))
        self._store.keep()
        self._context.log("schema_read", tables=tables, seconds=round(time.monotonic() - began, 1))

    def _check_source(self, connection: Connection[Any], server: ServerFacts, known: resume.Known) -> None:
        """Stop if the source lacks what it sent; not at once,
        since it sends a transaction before it counts it as done."""
        stop = resume.missing(known, server, facts.executed(connection, server))
        if stop is None:
            self._lacking = None
            return
        now = time.monotonic()
        self._lacking = self._lacking or now
        if now - self._lacking > (LACKING_SECONDS if known.identity == server.identity else BEHIND_SECONDS):
            raise stop
        raise SourceLost(str(stop))

    def _first_place(self, connection: Connection[Any], server: ServerFacts) -> BinlogStatus:
        wanted = self._context.config.source.start_position
        if wanted == "newest":
            return facts.binlog_end(connection, server)
        if wanted == "oldest":
            return facts.binlog_start(connection, server)
        place = resume.spelled_out(wanted)
        if place.file:
            return BinlogStatus(
                place.file, place.position, facts.gtid_at(connection, server, place.file, place.position)
            )
        return place

    def _begin(self, place: BinlogStatus, server: ServerFacts) -> None:
        """The journal goes on at that place. Broker and CDC port wait for the first one: what they acknowledge holds
        from there on, whatever dies."""
        self._lineage.forget()
        self._writer.source(place.position, place.file, place.gtid_set, server.identity)
        self._keeper.flush()
        self._arena.attach_writer(self._writer)

    def _skip_gap(self, error: RelayError, connection: Connection[Any], server: ServerFacts) -> None:
        """Go on after what is lost: with the oldest that the source has if it purged, else with what is new to us."""
        state = self._writer.state()
        if error.code is StopCode.JOURNAL_LOST:
            place = self._first_place(connection, server)
        elif error.code in _FROM_THE_START:
            place = facts.binlog_start(connection, server)
        elif error.code is StopCode.EVENT_TOO_LARGE:
            place = facts.binlog_after(connection, server, error.position.rpartition(":")[0])
        else:
            place = resume.shared(state.gtid_set, state.identity, server, facts.binlog_end(connection, server))
        lost = self._ingest.forget_prepared()
        reason = f"{error}; {lost} prepared transactions are lost with it" if lost else str(error)
        self._writer.gap(state.position, state.file, reason)
        self._store.new_epoch()
        self._begin(place, server)
        self._catalog.put("generation", str(self._writer.generation()))
        before, after = Place(state.file, state.position), Place(place.file, place.position)
        self._catalog.add_gap(time.time(), before, after, reason)
        self._context.log("gap_accepted", cause=reason, before=before, after=after)

    def _server_id(self) -> int:
        """As configured, or chosen at random once and kept."""
        configured = self._context.config.source.server_id
        kept = self._catalog.get("server_id")
        if not configured and not kept:
            kept = str(secrets.randbelow(2**31 - 10_000) + 10_000)
            self._catalog.put("server_id", kept)
        return configured or int(kept)

    def _answers(self, connection: Connection[Any], server: ServerFacts) -> Answers:
        reading.history(self._store, self._log).learn_case(look.lower_case(connection))
        return reading.answers(
            self._context.config,
            self._ingest,
            self._writer,
            self._catalog,
            self._store,
            self._sources,
            (connection, server),
            self._log,
            self._questions,
        )

    def _log(self, event: str, **fields: object) -> None:
        """The log of those who may skip something, which is counted too."""
        if event.endswith("_skipped"):
            self._arena.count_skipped()
        self._context.log(event, **fields)

    def _read(self, dump: Dump, answers: Answers, server: ServerFacts) -> None:
        """Until told to stop, or, in a drain or pause, to the end of a transaction."""
        silence = SILENT_HEARTBEATS * self._context.config.source.heartbeat_seconds
        fd, wake = dump.descriptor(), self._context.broker_wake
        intake = Intake(self._ingest, self._arena, fd, dump.receive, wake)
        pauses = Pauses(intake.heard, intake.transactions)
        self._ingest.stop_at_boundary(False)
        self._arena.source_state = "streaming"
        self._arena.mark_running(self._context.slot)
        while not self._context.stopping:
            self._context.beat()
            self._keeper.check()
            if self._arena.draining or self._arena.paused:
                self._ingest.stop_at_boundary(True)
            heard = intake.heard
            attention = self._take(intake, pauses, once=answers.waiting)
            answers.keep()
            now = time.monotonic()
            received = intake.heard > heard
            if received:
                self._heard = time.time()
                self._backoff.reset()
            elif now - heard > silence:
                raise SourceLost(f"read the binlog: nothing came for {silence} s, not even a heartbeat")
            if attention is None:
                answers.passed()
            elif attention.asks == "boundary":
                self._report(now, at_once=True)  # it is what is shown from here on
                return
            else:
                answers.answer(attention)
            if self._ingest.position > SHORT_POSITION:  # not only now and then: the file may end at any moment
                self._keep_low_place()
            self._report(now, at_once=attention is None and not received)
            place = Place(self._ingest.file, self._ingest.position)
            self._lineage.follow(self._ingest.mark, place, self._sources.account, server)
            pauses.look(now, intake.transactions)

    @staticmethod
    def _take(intake: Intake, pauses: Pauses, *, once: bool) -> Attention | None:
        """Has the stream taken in until there is something to look at; `once`: at each receive there is."""
        until = time.monotonic() + (PAUSING_SECONDS if pauses.seconds else REPORT_SECONDS)
        try:
            return intake.run(until, pauses.seconds, once)
        except OSError as error:
            raise SourceLost(f"read the binlog: {error.strerror or error}") from error

    def _report(self, now: float, *, at_once: bool) -> None:
        """Tell the others where the source stands."""
        if not at_once and now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        here = Place(self._ingest.file, self._ingest.position)
        if self._again and self._ingest.skipping and now - self._progress > PROGRESS_SECONDS:
            self._progress = now
            self._context.log("reading_again", position=here, until=self._again, reason="asked_for_by_4_bytes")
        self._keep_low_place()
        state = self._writer.state()
        self._arena.sequence = state.sequence
        position = state.position
        if self._between_transactions and here.file == state.file:
            position = max(position, here.position)  # the head of a new file is read as well
        self._arena.set_source(
            host=self._sources.host,
            file=state.file,
            position=position,
            gtid_set=state.gtid_set,
            last_event=self._ingest.timestamp,
            heard=self._heard,
        )

    @property
    def _between_transactions(self) -> bool:
        """All that came is in the journal, and published."""
        return not self._ingest.in_transaction and self._writer.committed() == self._writer.end()

    def _keep_low_place(self) -> None:
        state = self._writer.state()
        self._low.passed(Place(state.file, state.position), Place(self._ingest.file, self._ingest.position))
