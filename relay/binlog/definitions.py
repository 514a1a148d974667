"""Which definition stands behind a table map: told by the event itself, proven earlier, or being proven; and what is
left out.

One object for the life of a reader process; it answers the native ingest's questions about tables. Whatever asks the
source comes in as a function, so that nothing here does I/O but through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.binlog import hidden, schema, tablemap
from relay.binlog.catalog import Catalog, Place
from relay.binlog.rules import Rules
from relay.binlog.statements import Statement
from relay.binlog.tablemap import TableMap
from relay.errors import RelayError, StopCode
from relay.journal.frames import Definition
from relay.log import Log

_UTF8: Final = frozenset({"utf8", "utf8mb3", "utf8mb4"})


class Verdict(NamedTuple):
    """The answer to a table map.

    `definition` describes all columns of the event, `keep` says which of them to journal; no definition: the table is
    left out. With a `question` it is pending: its rows stay unpublished until a `Resolution` comes.
    """

    definition: Definition | None = None
    keep: tuple[bool, ...] = ()
    question: Question | None = None


class Question(NamedTuple):
    """A definition that holds since a place, once the stream has come `until` another without a contradiction."""

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
        rules: Rules,
        charset_of: Mapping[int, str],
        ask: Callable[[str, str], schema.Answer],
        log: Log,
        *,
        hidden_types: bool,
        names_expected: bool = False,
        questions: dict[int, Question] | None = None,
    ) -> None:
        """`ask` gives a table's columns as they stand; `hidden_types`: its table maps do not tell all types (MariaDB).

        `names_expected`: they tell names, so that a table need not be asked for before its first row comes.
        `questions` are those that an earlier stream from the same source left open.
        """
        self._catalog = catalog
        self._rules = rules
        self._charset_of = charset_of
        self._ask = ask
        self._log = log
        self._hidden_types = hidden_types
        self._names_expected = names_expected
        self._questions = {} if questions is None else questions
        self._foreseen: dict[tuple[str, str], tuple[Place, schema.Answer]] = {}
        """Of tables: where the last statement about each ended, and the answer that was asked for then."""

    def decide(self, body: bytes | memoryview, place: Place) -> Verdict:
        """The verdict on the body of a TABLE_MAP event that stands at `place`.

        Raises `RelayError` (unsupported_column, unknown_event, schema_unproven), and whatever `ask` raises.
        """
        owner, table = tablemap.table_name(body, str(place))
        if not self._rules.wants(owner, table):
            return Verdict()
        try:
            return self._decide(tablemap.parse(body, str(place), mariadb=self._hidden_types), place)
        except RelayError as error:
            if error.code is not StopCode.UNSUPPORTED_COLUMN or not self._rules.skip_unknown:
                raise
            self._log("table_skipped", table=f"{owner}.{table}", position=place, cause=error)
            return Verdict()

    def reads(self, collation: int) -> bool:
        """Whether the text of a client with that collation (0: not said) was read in its own character set."""
        return collation == 0 or self._charset_of.get(collation, "") in _UTF8

    def _decide(self, table_map: TableMap, place: Place) -> Verdict:
        fallback = (tablemap.definition if table_map.full else tablemap.provisional)(table_map, self._charset_of)
        typed = table_map.full and not (self._hidden_types and hidden.may_hide_a_type(table_map))
        if typed and not hidden.may_hide_a_display(table_map):
            return self._told(table_map, fallback, place)
        proven = self._catalog.definition_at(table_map.schema, table_map.table, place)
        if proven is not None and tablemap.fits(table_map, proven):
            known = hidden.completed(fallback, proven) if table_map.full else proven
            return self._verdict(table_map, known, known)
        since, answer = self._foreseen.get((table_map.schema, table_map.table), (place, None))
        if answer is None or place < since or isinstance(schema.matched(table_map, answer), str):
            answer = self._ask(table_map.schema, table_map.table)
        found = schema.matched(table_map, answer)
        if typed and (isinstance(found, str) or not hidden.has_a_display(found)):
            return self._told(table_map, fallback, place)
        if isinstance(found, str):
            self._require_lengths(fallback, place, found)
            if not table_map.full:  # otherwise only the difference of BINARY and UUID or INET is uncertain
                self._give_up(fallback, place, found)
            return self._verdict(table_map, fallback, fallback)
        if table_map.full:
            found = hidden.completed(fallback, found)
        elif uncertain := schema.uncertain_labels(answer):
            cause = f"labels of {', '.join(uncertain)} may stand for others, which the source cannot tell"
            self._log("labels_uncertain", table=table_map.name, position=place, cause=cause)
        verdict = self._verdict(table_map, hidden.sized(fallback, found), found)
        return verdict._replace(question=Question(place, answer.until, found, verdict.keep, table_map.full))

    def _told(self, table_map: TableMap, definition: Definition, place: Place) -> Verdict:
        """The verdict by what the table map tells itself."""
        verdict = self._verdict(table_map, definition, definition)
        self._catalog.prove(definition, place)
        return verdict

    def _verdict(self, table_map: TableMap, shown: Definition, named: Definition) -> Verdict:
        """The verdict with columns left out by the names in `named`."""
        keep = tuple(self._rules.keeps(table_map.schema, table_map.table, column.name) for column in named.columns)
        return Verdict(self._catalog.numbered(shown), keep)

    def wait(self, handle: int, question: Question) -> None:
        """The journal knows the pending table by `handle`."""
        self._questions[handle] = question

    def statement(self, statement: Statement, place: Place) -> list[Resolution]:
        """A statement that defines something, and ends at `place`, went by: what it ends. Raises as `decide` does."""
        self._catalog.end_proofs(statement, place)
        ended = []
        for handle, question in self._questions.items():
            if statement.mentions(question.definition.schema, question.definition.table):
                cause = f"the statement {statement.verb.upper()} at {place} came before the answer could be proven"
                self._require_lengths(question.definition, question.since, cause)
                self._give_up(question.definition, question.since, cause, question.named)
                ended.append(handle)
        for handle in ended:
            del self._questions[handle]
        return [Resolution(handle, None) for handle in ended]

    def foresee(self, statement: Statement, place: Place) -> None:
        """Ask for what a statement that ends at `place` defines: with luck before the next one changes it.

        Raises whatever `ask` raises; the statement may then come again.
        """
        for owner, table in [known for known in self._foreseen if statement.mentions(*known)]:
            del self._foreseen[owner, table]
        if self._names_expected:
            return
        for owner, table in statement.defines:
            if self._rules.wants(owner, table):
                answer = self._ask(owner, table)
                if answer.columns:
                    self._foreseen[owner, table] = place, answer

    def abandon(self) -> list[Resolution]:
        """The stream goes on elsewhere, where no place can prove anything of what waits. Raises `RelayError`."""
        cause = "the stream moved to another server before the answer could be proven"
        for question in self._questions.values():
            self._require_lengths(question.definition, question.since, cause)
            self._give_up(question.definition, question.since, cause, question.named)
        resolutions = [Resolution(handle, None) for handle in self._questions]
        self._questions.clear()
        self._foreseen.clear()
        return resolutions

    def passed(self, place: Place) -> list[Resolution]:
        """The stream has come to `place`: what is proven by that."""
        done = [handle for handle, question in self._questions.items() if question.until <= place]
        resolutions = []
        for handle in done:
            question = self._questions.pop(handle)
            self._catalog.prove(question.definition, question.since)
            resolutions.append(Resolution(handle, kept(self._catalog.numbered(question.definition), question.keep)))
        return resolutions

    @property
    def waiting(self) -> bool:
        """Whether some table waits for its proof."""
        return bool(self._questions)

    def _require_lengths(self, definition: Definition, place: Place, cause: str) -> None:
        """Raise `RelayError` (unsupported_column) if rows cannot be read without the source's answer."""
        if self._hidden_types:
            hidden.require_lengths(definition, cause, str(place))

    def _give_up(self, definition: Definition, place: Place, cause: str, named: bool = False) -> None:
        owner, table = definition.schema, definition.table
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
