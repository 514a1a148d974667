"""Which definition stands behind a table map, what a statement leaves of definitions, and what is left out.

One object for a stream; it answers the native ingest's questions about tables. Whatever asks the source comes in as a
function, so that nothing here does I/O but through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.binlog import hidden, tablemap
from relay.binlog.catalog import Catalog
from relay.binlog.place import Place
from relay.binlog.rules import Rules
from relay.binlog.tablemap import TableMap
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import TableName
from relay.errors import RelayError, StopCode
from relay.journal.frames import Definition
from relay.log import Log
from relay.schema.facts import ANY, SKIPPED, Answer
from relay.schema.history import History, Outcome
from relay.schema.look import uncertain_labels
from relay.schema.matching import definition, mismatch, told
from relay.schema.queries import Query
from relay.schema.table import Absent, Table, Unknown

_EVERYTHING: Final = "it may have been changed"


class Verdict(NamedTuple):
    """The answer to a table map.

    `definition` describes all columns of the event, `keep` says which of them to journal; no definition: the table is
    left out. With a `question` it is pending: its rows stay unpublished until a `Resolution` comes.
    """

    definition: Definition | None = None
    keep: tuple[bool, ...] = ()
    question: Question | None = None


class Question(NamedTuple):
    """A definition that holds since a place, once the stream has come `until` another without a statement about it."""

    table: TableName
    since: Place
    until: Place
    definition: Definition
    keep: tuple[bool, ...]
    named: bool = False  # by the table map itself, so that only the rest waits


class Resolution(NamedTuple):
    """The definition to publish for a pending table's handle; None: it will never be proven, and stands as it is."""

    handle: int
    definition: Definition | None


class Definitions:
    """Answers for the table maps of one stream, in its order."""

    def __init__(
        self,
        catalog: Catalog,
        history: History,
        rules: Rules,
        charset_of: Mapping[int, str],
        ask: Callable[[TableName], Answer],
        log: Log,
        *,
        hidden_types: bool,
        names_expected: bool = False,
        questions: dict[int, Question] | None = None,
    ) -> None:
        """`ask` gives a table as it stands; `hidden_types`: its table maps do not tell all types (MariaDB).

        `names_expected`: they tell names, so that a table need not be asked for before its first row comes.
        `questions` are those that an earlier stream from the same source left open.
        """
        self._catalog = catalog
        self._history = history
        self._rules = rules
        self._charset_of = charset_of
        self._ask = ask
        self._log = log
        self._hidden_types = hidden_types
        self._names_expected = names_expected
        self._questions = {} if questions is None else questions

    def decide(self, body: bytes | memoryview, place: Place, sequence: int, dialect: Dialect) -> Verdict:
        """The verdict on the body of a TABLE_MAP event that stands at `place`.

        `sequence` is the number that its first row will have, `dialect` that of the server which wrote it. Raises
        `RelayError` (unsupported_column, unknown_event, schema_unproven), and whatever `ask` raises.
        """
        owner, table = tablemap.table_name(body, str(place))
        if not self._rules.wants(owner, table):
            return Verdict()
        try:
            table_map = tablemap.parse(body, str(place), mariadb=self._hidden_types)
            return self._decide(table_map, place, sequence, dialect)
        except RelayError as error:
            if error.code is not StopCode.UNSUPPORTED_COLUMN or not self._rules.skip_unknown:
                raise
            self._log("table_skipped", table=f"{owner}.{table}", position=place, cause=error)
            return Verdict()

    def _decide(self, table_map: TableMap, place: Place, sequence: int, dialect: Dialect) -> Verdict:
        fallback = (tablemap.definition if table_map.full else tablemap.provisional)(table_map, self._charset_of)
        table = self._history.named(table_map.schema, table_map.table)
        state = self._history.state(table, place)
        known = self._matching(table_map, state, dialect)
        if not isinstance(known, str):
            known = hidden.completed(fallback, known) if table_map.full else known
            return self._verdict(table_map, known, known)
        if not isinstance(state, Unknown):
            self._history.contradicted(table, known, place, sequence)
            self._log("schema_contradicted", table=table, position=place, cause=known)
        told_types = table_map.full and not (self._hidden_types and hidden.may_hide_a_type(table_map))
        if told_types and not hidden.may_hide_a_display(table_map):
            return self._told(table_map, fallback, place, sequence, dialect)
        answer = self._answer(table, table_map, place, dialect)
        found = self._matching(table_map, answer.state, dialect) if answer else "a statement about it came since"
        if told_types and (isinstance(found, str) or not hidden.has_a_display(found)):
            return self._told(table_map, fallback, place, sequence, dialect)
        if answer is None or isinstance(found, str):
            cause = str(found)
            self._require_lengths(fallback, place, cause)
            if not table_map.full:  # otherwise only the difference of BINARY and UUID or INET is uncertain
                self._give_up(fallback, place, cause)
            return self._verdict(table_map, fallback, fallback)
        if table_map.full:
            found = hidden.completed(fallback, found)
        elif isinstance(answer.state, Table) and (uncertain := uncertain_labels(answer.state)):
            cause = f"labels of {', '.join(uncertain)} may stand for others, which the source cannot tell"
            self._log("labels_uncertain", table=table_map.name, position=place, cause=cause)
        verdict = self._verdict(table_map, hidden.sized(fallback, found), found)
        return verdict._replace(question=Question(table, place, answer.until, found, verdict.keep, table_map.full))

    def _matching(self, table_map: TableMap, state: object, dialect: Dialect) -> Definition | str:
        """The definition of rows of such a table, or why these cannot be such."""
        if isinstance(state, Table):
            why = mismatch(table_map, state, self._charset_of, dialect)
            if why:
                return why
            made = definition(state, dialect, table_map)
            return msgspec.structs.replace(made, schema=table_map.schema, table=table_map.table)
        if isinstance(state, Absent):
            return "there is no such table"
        return state.cause if isinstance(state, Unknown) else _EVERYTHING

    def _answer(self, table: TableName, table_map: TableMap, place: Place, dialect: Dialect) -> Answer | None:
        """What the source says of the table; None if that tells nothing of these rows."""
        answer = self._history.answer(table, place)
        if answer is None or isinstance(self._matching(table_map, answer.state, dialect), str):
            self._history.asked([self._ask(table)])
            answer = self._history.answer(table, place)
        return answer

    def _told(
        self, table_map: TableMap, described: Definition, place: Place, sequence: int, dialect: Dialect
    ) -> Verdict:
        """The verdict by what the table map tells itself."""
        table = self._history.named(table_map.schema, table_map.table)
        self._history.told(table, told(described, dialect), place, sequence)
        return self._verdict(table_map, described, described)

    def _verdict(self, table_map: TableMap, shown: Definition, named: Definition) -> Verdict:
        """The verdict with columns left out by the names in `named`."""
        keep = tuple(self._rules.keeps(table_map.schema, table_map.table, column.name) for column in named.columns)
        return Verdict(self._catalog.numbered(shown), keep)

    def wait(self, handle: int, question: Question) -> None:
        """The journal knows the pending table by `handle`."""
        self._questions[handle] = question

    def read(self, query: Query, start: Place) -> list[Outcome]:
        """What a statement that begins at `start` leaves of definitions."""
        return self._history.read(query, start)

    def statement(
        self, outcomes: Sequence[Outcome], query: Query, end: Place, sequence: int, gtid: str
    ) -> list[Resolution]:
        """A statement that ends at `end`, and has that number, left this: what it ends. Raises as `decide` does."""
        self._history.add(outcomes, end, sequence, statement=query.text, gtid=gtid)
        resolutions = self._end(outcomes, f"the statement {query.statement.verb.upper()} at {end}")
        if not self._names_expected:
            self._ask_for(outcomes, end)
        return resolutions

    def skipped(self, position: str) -> None:
        """What stood there was left out, and may have changed a definition."""
        self._catalog.put(SKIPPED, position)
        self._history.skipped(position)

    def anything(self, why: str, place: Place, sequence: int) -> list[Resolution]:
        """Something was skipped at `place` that may have changed any definition. Raises as `decide` does."""
        self._history.forget_all(why, place, sequence)
        return self._end([(*ANY, Unknown(why))], why)

    def _end(self, outcomes: Iterable[Outcome], what: str) -> list[Resolution]:
        """What waits for its proof, and will not get it."""
        changed = {TableName(schema, table) for schema, table, _ in outcomes}
        ended = []
        for handle, question in self._questions.items():
            if question.table in changed or ANY in changed:
                cause = f"{what} came before the answer could be proven"
                self._require_lengths(question.definition, question.since, cause)
                self._give_up(question.definition, question.since, cause, question.named)
                ended.append(handle)
        for handle in ended:
            del self._questions[handle]
        return [Resolution(handle, None) for handle in ended]

    def _ask_for(self, outcomes: Iterable[Outcome], end: Place) -> None:
        """Ask for what a statement that ends there leaves unknown: with luck before the next one changes it.

        Raises whatever `ask` raises; the statement comes again then.
        """
        for schema, table, state in outcomes:
            if isinstance(state, Unknown) and table and self._rules.wants(schema, table):
                name = TableName(schema, table)
                if self._history.answer(name, end) is None:
                    self._history.asked([self._ask(name)])

    def abandon(self) -> list[Resolution]:
        """The stream goes on elsewhere, where no place can prove anything of what waits. Raises `RelayError`."""
        return self._end([(*ANY, Unknown(""))], "another source")

    def passed(self, place: Place) -> list[Resolution]:
        """The stream has come to `place`: what is proven by that."""
        done = [handle for handle, question in self._questions.items() if question.until <= place]
        resolutions = []
        for handle in done:
            question = self._questions.pop(handle)
            resolutions.append(Resolution(handle, kept(self._catalog.numbered(question.definition), question.keep)))
        return resolutions

    @property
    def waiting(self) -> bool:
        """Whether some table waits for its proof."""
        return bool(self._questions)

    def _require_lengths(self, described: Definition, place: Place, cause: str) -> None:
        """Raise `RelayError` (unsupported_column) if rows cannot be read without the source's answer."""
        if self._hidden_types:
            hidden.require_lengths(described, cause, str(place))

    def _give_up(self, described: Definition, place: Place, cause: str, named: bool = False) -> None:
        owner, table = described.schema, described.table
        if not named and self._rules.columns_at_stake(owner, table):
            raise RelayError(
                StopCode.SCHEMA_UNPROVEN,
                f"leave columns out of {owner}.{table}",
                f"their places in its rows are not certain: {cause}",
                position=str(place),
            )
        self._log("schema_unproven", table=f"{owner}.{table}", position=place, cause=cause)


def kept(definition: Definition, keep: Sequence[bool]) -> Definition:
    """The definition without the columns that are left out; with them goes the key, if one of them is a part of it."""
    columns = [column for column, stays in zip(definition.columns, keep, strict=True) if stays]
    if any(column.primary and not stays for column, stays in zip(definition.columns, keep, strict=True)):
        # What remains of a key does not tell rows apart.
        columns = [msgspec.structs.replace(column, primary=False) for column in columns]
    return msgspec.structs.replace(definition, columns=columns)


def packed(definition: Definition) -> bytes:
    """A definition as it stands in a TABLE frame."""
    return msgspec.msgpack.encode(definition)
