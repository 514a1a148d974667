"""Handle what the native ingest cannot decide: table maps, statements, and events that are not understood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from relay._native import Attention, Ingest, JournalWriter
from relay.base.errors import RelayError, StopCode
from relay.base.log import Log
from relay.binlog.bodies.statements import session_and_text, session_and_text_of_load
from relay.binlog.events.position import BinlogPosition
from relay.ddl import dialect as dialects
from relay.ddl.dialect import Dialect, version_of
from relay.ddl.statements import Kind
from relay.ddl.syntax import TableName
from relay.ingest.definitions import Definitions, Resolution, packed, without_excluded
from relay.ingest.left_out import StatementCounts
from relay.ingest.unsupported_events import EXECUTE_LOAD_QUERY, LOAD_PIECES, SHOWN_BYTES, fatal_error
from relay.journal.frames import Definition
from relay.schema import history
from relay.schema.facts import ANY
from relay.schema.history import Outcome
from relay.schema.queries import Query, Session, query
from relay.schema.restore import HistoryCommitter
from relay.schema.store import Store
from relay.schema.table import ABSENT
from relay.source.commands import ServerError
from relay.source.failures import SourceLost, classify

_MOST_CHANGED: Final = 1000


class Policy(NamedTuple):
    """The configuration keys `OnUnknown` and `OnPartialImage`."""

    skip_unknown: bool
    send_partial: bool


class IngestHandler:
    """Handle the attentions of the ingest of one stream."""

    def __init__(
        self,
        ingest: Ingest,
        writer: JournalWriter,
        definitions: Definitions,
        store: Store,
        charset_of: Mapping[int, str],
        policy: Policy,
        passed_over: StatementCounts,
        log: Log,
    ) -> None:
        self._ingest = ingest
        self._writer = writer
        self._definitions = definitions
        self._committer = HistoryCommitter(store, writer)
        self._charset_of = charset_of
        self._policy = policy
        self._passed_over = passed_over
        self._log = log
        self._changed: dict[TableName, None] = {}  # tables that statements have changed, for `expect_next`

    def handle(self, attention: Attention) -> None:
        """Handle an attention other than "boundary".

        Raises `RelayError` for a fatal error, and `SourceLost` if the source ended the stream.
        """
        position = f"{attention.file}:{attention.start}"
        match attention.asks:
            case "table":
                self._table(attention)
            case "query":
                self._statement(attention)
            case "unknown":
                self._unknown(attention)
            case "partial":
                if not self._policy.send_partial:
                    cause = "a row lacks columns: binlog_row_image was not FULL in its session"
                    raise RelayError(StopCode.PARTIAL_IMAGE, "read the binlog", cause, position=position)
                self._ingest.accept_partial(attention.table_id)
            case "error":
                raise classify(ServerError(attention.code, "", attention.message), "read the binlog", position)
            case "end":
                raise SourceLost("read the binlog: the source ended the stream")

    def commit_after_rollback(self) -> None:
        """Commit the schema history at the end of a stream, after the journal's unfinished end was cut off."""
        self._committer.commit_after_rollback()

    @property
    def has_pending(self) -> bool:
        """Whether a definition is pending (`resolve_proven`)."""
        return self._definitions.has_pending

    def resolve_proven(self) -> None:
        """Publish the pending definitions that the stream's position proves, and end proven assumptions."""
        position = BinlogPosition(self._ingest.file, self._ingest.position)
        if self.has_pending:
            self._resolve(self._definitions.resolve_proven(position))
        self._finish_assumptions(position)

    @property
    def has_additions(self) -> bool:
        """Whether there are new definitions that are not committed."""
        return self._committer.has_additions

    def commit(self) -> None:
        """Commit new definitions, once the journal has their statements."""
        self._committer.commit()

    @property
    def expects_more(self) -> bool:
        """Whether statements have changed tables that `expect_next` has not looked at."""
        return bool(self._changed)

    def expect_next(self) -> None:
        """Give the ingest the definition of the table that a statement changed last: its next row finds it there."""
        if not self._changed:
            return
        table, _ = self._changed.popitem()
        position = BinlogPosition(self._ingest.file, self._ingest.position)
        expected = self._definitions.expect(table, position, Dialect(*version_of(self._ingest.server)))
        if expected is not None:
            self._ingest.expect(expected.table_map, *_packed(expected.definition, expected.keep))

    def abandon_pending(self) -> None:
        """Prepare for a stream from another server."""
        self._resolve(self._definitions.abandon_pending())

    def abandon_assumptions(self) -> None:
        """Prepare for definitions of another epoch."""
        self._definitions.abandon_assumptions()

    def _table(self, attention: Attention) -> None:
        position = BinlogPosition(attention.file, attention.start)
        dialect = Dialect(*version_of(self._ingest.server))
        verdict = self._definitions.decide(attention.body, position, self._writer.sequence(), dialect)
        if verdict.definition is None:
            self._ingest.exclude(attention.table_id)
            return
        arguments = _packed(verdict.definition, verdict.keep)
        if verdict.pending is None:
            self._ingest.define(attention.table_id, *arguments)
        else:
            self._definitions.add_pending(self._ingest.pending(attention.table_id, *arguments), verdict.pending)

    def _statement(self, attention: Attention) -> None:
        if attention.unfinished:
            self._ingest.skip()
            return
        session, text = session_and_text(attention.body, attention.flags, self._charset_of)
        found = query(text, session, self._ingest.server, self._charset_of)
        position = BinlogPosition(attention.file, attention.start)
        match found.statement.kind:
            case Kind.DDL:
                outcomes = self._definitions.outcomes(found, position)
                self._ingest.ddl(text, dialects.packed(found.dialect), history.packed(outcomes))
                self._redefine(outcomes, found, attention, self._writer.sequence())
                return
            case Kind.DML:
                doubt = self._pass_over(found, session, str(position))
                if doubt:
                    cause = f"a statement changed rows that are not in the binlog: {_shortened(text)}; {doubt}"
                    self._skip(StopCode.STATEMENT_FORMAT, cause, found, attention)
            case Kind.UNKNOWN:
                cause = f"the statement {_shortened(text)} is unknown"
                self._skip(StopCode.UNKNOWN_EVENT, cause, found, attention)
        self._ingest.skip()

    def _unknown(self, attention: Attention) -> None:
        if attention.type in LOAD_PIECES or (attention.type == EXECUTE_LOAD_QUERY and self._pass_over_load(attention)):
            self._ingest.skip()
            return
        stop = fatal_error(attention)
        self._stop_or_skip(stop)
        self._forget_all(attention, f"{stop.cause} was skipped")
        self._ingest.skip()

    def _pass_over(self, found: Query, session: Session, position: str) -> str:
        """Count a statement that changed only rows that nobody can get; else return why that is not certain."""
        doubt = self._definitions.doubt(found, session.status.updated_db_names)
        if not doubt and found.statement.targets is not None:
            self._passed_over.add(found.statement.targets.tables, position)
        return doubt

    def _pass_over_load(self, attention: Attention) -> bool:
        """Whether a LOAD DATA changed only rows that nobody can get; it is counted then."""
        if len(attention.body) >= SHOWN_BYTES:  # its end may be missing
            return False
        try:
            session, text = session_and_text_of_load(attention.body, attention.flags, self._charset_of)
        except ValueError:
            return False
        found = query(text, session, self._ingest.server, self._charset_of)
        return not self._pass_over(found, session, f"{attention.file}:{attention.start}")

    def _skip(self, code: StopCode, cause: str, found: Query, attention: Attention) -> None:
        """Stop because of a statement, or skip it; then what is known of its tables is uncertain."""
        position = BinlogPosition(attention.file, attention.start)
        self._stop_or_skip(RelayError(code, "read the binlog", cause, position=str(position)))
        if found.statement.opaque:
            self._redefine(self._definitions.outcomes(found, position), found, attention, self._unnumbered)

    @property
    def _unnumbered(self) -> int:
        """The number for an event that the journal has no frame for.

        It is the number of the change before it, so that the version of such an event survives a restart.
        """
        return self._writer.sequence() - 1

    def _redefine(self, outcomes: list[Outcome], found: Query, attention: Attention, sequence: int) -> None:
        """Apply the outcomes of a statement: resolve pending definitions; the ingest asks about its tables again."""
        self._prove_before(attention)
        end = BinlogPosition(attention.file, attention.position)
        self._resolve(self._definitions.apply_statement(outcomes, found, end, sequence, attention.gtid))
        for schema, table, _ in outcomes:
            if table and (schema + table).isascii():
                self._ingest.redefined(schema, table)
            elif table or (schema, table) == ANY:
                self._ingest.new_epoch()
        changed = [TableName(schema, table) for schema, table, state in outcomes if table and state != ABSENT]
        self._changed = dict.fromkeys([*self._changed, *changed][-_MOST_CHANGED:])

    def _prove_before(self, attention: Attention) -> None:
        """Keep what is proven before the event begins."""
        start = BinlogPosition(attention.file, attention.start)
        self._resolve(self._definitions.resolve_proven(start))
        self._finish_assumptions(start)

    def _finish_assumptions(self, position: BinlogPosition) -> None:
        if self._definitions.finish_assumptions(position):
            self._ingest.new_epoch()

    def _forget_all(self, attention: Attention, why: str) -> None:
        self._prove_before(attention)
        end = BinlogPosition(attention.file, attention.position)
        self._resolve(self._definitions.forget_all(why, end, self._unnumbered))
        self._ingest.new_epoch()

    def _resolve(self, resolutions: Iterable[Resolution]) -> None:
        for resolution in resolutions:
            definition = resolution.definition
            self._writer.resolve(resolution.handle, packed(definition) if definition is not None else b"")

    def _stop_or_skip(self, stop: RelayError) -> None:
        """Raise the fatal error, or, with `OnUnknown = skip`, log what is skipped."""
        if not self._policy.skip_unknown:
            raise stop
        self._definitions.record_skipped(stop.position)
        self._log("event_skipped", code=stop.code, position=stop.position, cause=stop.cause)


def _packed(definition: Definition, keep: Sequence[bool]) -> tuple[bytes, bytes, Sequence[bool]]:
    """Return the definitions for the ingest: of all columns, and of those to keep; and these, () for all."""
    return packed(definition), packed(without_excluded(definition, keep)), () if all(keep) else keep


def _shortened(statement: str) -> str:
    text = " ".join(statement.split())
    return repr(text if len(text) <= 80 else text[:77] + "...")
