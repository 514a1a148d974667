"""What the native ingest asks while it reads, and the answers: tables, statements, what is not understood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from relay._native import Attention, Ingest, JournalWriter
from relay.binlog.bodies.statements import session_and_text
from relay.binlog.commands import ServerError
from relay.binlog.definitions import Definitions, Resolution, kept, packed
from relay.binlog.failures import SourceLost, judge
from relay.binlog.place import Place
from relay.binlog.refusals import refusal
from relay.ddl import dialect as dialects
from relay.ddl.dialect import Dialect, version_of
from relay.ddl.statements import Kind
from relay.errors import RelayError, StopCode
from relay.log import Log
from relay.schema import history
from relay.schema.facts import ANY
from relay.schema.history import Outcome
from relay.schema.queries import Query, query
from relay.schema.restore import Keeper
from relay.schema.store import Store


class Policy(NamedTuple):
    """`OnUnknown` and `OnPartialImage`."""

    skip_unknown: bool
    send_partial: bool


class Answers:
    """Answers one stream's questions; every refusal is a `RelayError` with the name of the stop."""

    def __init__(
        self,
        ingest: Ingest,
        writer: JournalWriter,
        definitions: Definitions,
        store: Store,
        charset_of: Mapping[int, str],
        policy: Policy,
        log: Log,
    ) -> None:
        self._ingest = ingest
        self._writer = writer
        self._definitions = definitions
        self._keeper = Keeper(store, writer)
        self._charset_of = charset_of
        self._policy = policy
        self._log = log

    def answer(self, attention: Attention) -> None:
        """Answer anything but "boundary". Raises `RelayError`, or `SourceLost` where the source ended the stream."""
        place = f"{attention.file}:{attention.start}"
        match attention.asks:
            case "table":
                self._table(attention)
            case "query":
                self._statement(attention)
            case "unknown":
                stop = refusal(attention)
                self._refuse(stop)
                self._forget_all(attention, f"{stop.cause} was skipped")
                self._ingest.skip()
            case "partial":
                if not self._policy.send_partial:
                    cause = "a row lacks columns: binlog_row_image is not FULL in the session that wrote it"
                    raise RelayError(StopCode.PARTIAL_IMAGE, "read the binlog", cause, position=place)
                self._ingest.accept_partial(attention.table_id)
            case "error":
                raise judge(ServerError(attention.code, "", attention.message), "read the binlog", place)
            case "end":
                raise SourceLost("read the binlog: the source ended the stream")

    def settle(self) -> None:
        """The stream is over, and what had not ended is gone from the journal."""
        self._keeper.settle()

    @property
    def waiting(self) -> bool:
        """Whether something is published only once the stream has come further (`passed`)."""
        return self._definitions.waiting

    def passed(self) -> None:
        """Publish what is proven by the place the stream has come to."""
        if self.waiting:
            self._resolve(self._definitions.passed(Place(self._ingest.file, self._ingest.position)))

    def keep(self) -> None:
        """Keep what was learnt of definitions, once the journal has the statements that it is of."""
        self._keeper.keep()

    def moved(self) -> None:
        """The stream goes on at another server."""
        self._resolve(self._definitions.abandon())

    def _table(self, attention: Attention) -> None:
        place = Place(attention.file, attention.start)
        verdict = self._definitions.decide(attention.body, place, self._writer.sequence(), self._dialect())
        if verdict.definition is None:
            self._ingest.exclude(attention.table_id)
            return
        published = packed(kept(verdict.definition, verdict.keep))
        keep = () if all(verdict.keep) else verdict.keep
        arguments = (attention.table_id, packed(verdict.definition), published, keep)
        if verdict.question is None:
            self._ingest.define(*arguments)
        else:
            self._definitions.wait(self._ingest.pending(*arguments), verdict.question)

    def _dialect(self) -> Dialect:
        return Dialect(*version_of(self._ingest.server))

    def _statement(self, attention: Attention) -> None:
        if attention.unfinished:
            self._ingest.pass_by()
            return
        session, text = session_and_text(attention.body, attention.flags, self._charset_of)
        found = query(text, session, self._ingest.server, self._charset_of)
        place = Place(attention.file, attention.start)
        match found.statement.kind:
            case Kind.DDL:
                outcomes = self._definitions.read(found, place)
                self._ingest.ddl(text, dialects.packed(found.dialect), history.packed(outcomes))
                self._redefine(outcomes, found, attention, self._writer.sequence())
                return
            case Kind.DML:
                cause = f"rows were changed by a statement, {_shortened(text)}, and are not in the binlog"
                self._refuse(RelayError(StopCode.STATEMENT_FORMAT, "read the binlog", cause, position=str(place)))
                if found.statement.opaque:
                    self._redefine(self._definitions.read(found, place), found, attention, self._unnumbered)
            case Kind.UNKNOWN:
                cause = f"the statement {_shortened(text)} is not understood"
                self._refuse(RelayError(StopCode.UNKNOWN_EVENT, "read the binlog", cause, position=str(place)))
                self._redefine(self._definitions.read(found, place), found, attention, self._unnumbered)
            case Kind.TRANSACTION | Kind.HARMLESS:
                pass
        self._ingest.pass_by()

    @property
    def _unnumbered(self) -> int:
        """Of what takes no number in the journal: that of the change before it, so that a restart does not cut it."""
        return self._writer.sequence() - 1

    def _redefine(self, outcomes: list[Outcome], found: Query, attention: Attention, sequence: int) -> None:
        """A statement left this: what waited for its proof is published, and tables are asked for again."""
        # What was proven before the statement began is not undone by it.
        self._resolve(self._definitions.passed(Place(attention.file, attention.start)))
        end = Place(attention.file, attention.position)
        self._resolve(self._definitions.statement(outcomes, found, end, sequence, attention.gtid))
        for schema, table, _ in outcomes:
            if (schema, table) == ANY:
                self._ingest.new_epoch()
            elif table and (schema + table).isascii():
                self._ingest.redefined(schema, table)
            elif table:
                self._ingest.new_epoch()

    def _forget_all(self, attention: Attention, why: str) -> None:
        self._resolve(self._definitions.passed(Place(attention.file, attention.start)))
        end = Place(attention.file, attention.position)
        self._resolve(self._definitions.anything(why, end, self._unnumbered))
        self._ingest.new_epoch()

    def _resolve(self, resolutions: Iterable[Resolution]) -> None:
        for resolution in resolutions:
            definition = resolution.definition
            self._writer.resolve(resolution.handle, packed(definition) if definition is not None else b"")

    def _refuse(self, stop: RelayError) -> None:
        """Stop by name, or, with `OnUnknown = skip`, log what is skipped."""
        if not self._policy.skip_unknown:
            raise stop
        self._definitions.skipped(stop.position)
        self._log("event_skipped", code=stop.code, position=stop.position, cause=stop.cause)


def _shortened(statement: str) -> str:
    text = " ".join(statement.split())
    return repr(text if len(text) <= 80 else text[:77] + "...")
