"""What the native ingest asks while it reads, and the answers: tables, statements, what is not understood."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from relay._native import Attention, Ingest, JournalWriter
from relay.binlog.catalog import Place
from relay.binlog.commands import ServerError
from relay.binlog.definitions import Definitions, Resolution, kept, packed
from relay.binlog.failures import SourceLost, judge
from relay.binlog.refusals import refusal
from relay.binlog.statements import ANYTHING, Kind, Statement, classify
from relay.errors import RelayError, StopCode
from relay.log import Log


class Policy(NamedTuple):
    """`OnUnknown` and `OnPartialImage`."""

    skip_unknown: bool
    send_partial: bool


class Answers:
    """Answers one stream's questions; every refusal is a `RelayError` with the name of the stop."""

    def __init__(
        self, ingest: Ingest, writer: JournalWriter, definitions: Definitions, policy: Policy, log: Log
    ) -> None:
        self._ingest = ingest
        self._writer = writer
        self._definitions = definitions
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
                self._refuse(refusal(attention))
                self._redefine(ANYTHING, attention)
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

    @property
    def waiting(self) -> bool:
        """Whether something is published only once the stream has come further (`passed`)."""
        return self._definitions.waiting

    def passed(self) -> bool:
        """Publish what is proven by the place the stream has come to; whether something was."""
        if not self.waiting:
            return False
        resolutions = self._definitions.passed(Place(self._ingest.file, self._ingest.position))
        self._resolve(resolutions)
        return bool(resolutions)

    def moved(self) -> None:
        """The stream goes on at another server."""
        self._resolve(self._definitions.abandon())

    def _table(self, attention: Attention) -> None:
        verdict = self._definitions.decide(attention.body, Place(attention.file, attention.start))
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

    def _statement(self, attention: Attention) -> None:
        if attention.unfinished:
            self._ingest.ddl(False)
            return
        statement = classify(attention.statement, attention.schema)
        if not attention.statement.isascii() and not self._definitions.reads(attention.collation):
            statement = statement._replace(unreadable=True)
        place = Place(attention.file, attention.start)
        match statement.kind:
            case Kind.DDL:
                self._redefine(statement, attention)
                self._ingest.ddl(True)
                return
            case Kind.DML:
                cause = (
                    f"rows were changed by a statement, {_shortened(attention.statement)}, and are not in the binlog"
                )
                self._refuse(RelayError(StopCode.STATEMENT_FORMAT, "read the binlog", cause, position=str(place)))
                self._redefine(statement, attention)
            case Kind.UNKNOWN:
                cause = f"the statement {_shortened(attention.statement)} is not understood"
                self._refuse(RelayError(StopCode.UNKNOWN_EVENT, "read the binlog", cause, position=str(place)))
                self._redefine(statement, attention)
            case Kind.TRANSACTION | Kind.HARMLESS:
                pass
        self._ingest.ddl(False)

    def _redefine(self, statement: Statement, attention: Attention) -> None:
        if statement.keeps_columns:
            return
        # What was proven before the statement began is not undone by it.
        self._resolve(self._definitions.passed(Place(attention.file, attention.start)))
        end = Place(attention.file, attention.position)
        self._resolve(self._definitions.statement(statement, end))
        self._definitions.foresee(statement, end)
        self._ingest.new_epoch()

    def _resolve(self, resolutions: Iterable[Resolution]) -> None:
        for resolution in resolutions:
            definition = resolution.definition
            self._writer.resolve(resolution.handle, packed(definition) if definition is not None else b"")

    def _refuse(self, stop: RelayError) -> None:
        """Stop by name, or, with `OnUnknown = skip`, log what is skipped."""
        if not self._policy.skip_unknown:
            raise stop
        self._log("event_skipped", code=stop.code, position=stop.position, cause=stop.cause)


def _shortened(statement: str) -> str:
    text = " ".join(statement.split())
    return repr(text if len(text) <= 80 else text[:77] + "...")
