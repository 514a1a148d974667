"""Which definition stands behind a table map: told by the event itself, proven earlier, or being proven; and what is
left out.

One object for the life of a reader process; it answers the native ingest's questions about tables. Whatever asks the
source
comes in as a function, so that nothing here does I/O but through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from relay.binlog import schema, tablemap
from relay.binlog.catalog import Catalog, Place
from relay.binlog.statements import Statement
from relay.binlog.tablemap import TableMap
from relay.errors import RelayError, StopCode
from relay.journal.frames import Definition
from relay.log import Log


class Rules(NamedTuple):
    """What the configuration leaves out, as patterns (`*` and `?`), and what it says of columns not understood."""

    tables: Sequence[str] = ("*.*",)
    exclude_tables: Sequence[str] = ()
    exclude_columns: Sequence[str] = ()
    skip_unknown: bool = False

    def wants(self, schema: str, table: str) -> bool:
        """Whether rows of the table are to be journaled."""
        name = f"{schema}.{table}"
        return _any(name, self.tables) and not _any(name, self.exclude_tables)

    def columns_at_stake(self, schema: str, table: str) -> bool:
        """Whether some column of the table may have to be left out."""
        return any(_fits((schema, table), pattern.split(".")[:2]) for pattern in self.exclude_columns)

    def keeps(self, schema: str, table: str, column: str) -> bool:
        """Whether the column is to be journaled."""
        return not any(_fits((schema, table, column), pattern.split(".", 2)) for pattern in self.exclude_columns)


class Verdict(NamedTuple):
    """The answer to a table map. `definition` describes all columns of the event, `keep` says which of them to journal.

    No definition: the table is left out. Pending: its rows stay unpublished until a `Resolution` comes.
    """

    definition: Definition | None
    keep: tuple[bool, ...] = ()
    pending: bool = False


class Resolution(NamedTuple):
    """The proven definition for a pending table map; None: it will never be proven, and stands as it is."""

    table_id: int
    definition: Definition | None


class _Question(NamedTuple):
    table_map: TableMap
    since: Place
    answer: schema.Answer
    definition: Definition
    keep: tuple[bool, ...]


class Definitions:
    """Answers for table maps, in the order of the stream."""

    def __init__(
        self,
        catalog: Catalog,
        rules: Rules,
        charset_of: Mapping[int, str],
        ask: Callable[[str, str], schema.Answer],
        log: Log,
        *,
        hidden_types: bool,
    ) -> None:
        """`ask` gives a table's columns as they stand; `hidden_types`: the source is a MariaDB that has UUID and
        INET."""
        self._catalog = catalog
        self._rules = rules
        self._charset_of = charset_of
        self._ask = ask
        self._log = log
        self._hidden_types = hidden_types
        self._questions: dict[int, _Question] = {}
        self._known: dict[int, tuple[str, str]] = {}

    def decide(self, body: bytes | memoryview, place: Place) -> Verdict:
        """The verdict on the body of a TABLE_MAP event that stands at `place`.

        Raises `RelayError` (unsupported_column, unknown_event, schema_unproven), and whatever `ask` raises.
        """
        owner, table = tablemap.table_name(body, str(place))
        if not self._rules.wants(owner, table):
            return Verdict(None)
        try:
            return self._decide(tablemap.parse(body, str(place)), place)
        except RelayError as error:
            if error.code is not StopCode.UNSUPPORTED_COLUMN or not self._rules.skip_unknown:
                raise
            self._log("table_skipped", table=f"{owner}.{table}", position=place, cause=error)
            return Verdict(None)

    def _decide(self, table_map: TableMap, place: Place) -> Verdict:
        self._known[table_map.table_id] = (table_map.schema, table_map.table)
        self._questions.pop(table_map.table_id, None)
        fallback = (tablemap.definition if table_map.full else tablemap.provisional)(table_map, self._charset_of)
        if table_map.full and not (self._hidden_types and schema.hides_a_type(table_map)):
            return self._verdict(table_map, fallback, fallback, place)
        proven = self._catalog.proven_at(table_map.schema, table_map.table, place)
        if proven is not None and tablemap.fits(table_map, proven):
            return self._verdict(table_map, proven, proven, place)
        answer = self._ask(table_map.schema, table_map.table)
        found = schema.matched(table_map, answer.columns)
        if isinstance(found, str):
            self._give_up(table_map, place, found)
            return self._verdict(table_map, fallback, fallback, place)
        verdict = self._verdict(table_map, fallback, found, place)
        self._questions[table_map.table_id] = _Question(table_map, place, answer, found, verdict.keep)
        return verdict._replace(pending=True)

    def _verdict(self, table_map: TableMap, shown: Definition, named: Definition, place: Place) -> Verdict:
        """The verdict with columns left out by the names in `named`."""
        keep = tuple(self._rules.keeps(table_map.schema, table_map.table, column.name) for column in named.columns)
        tablemap.refuse(table_map, named, keep, str(place))
        return Verdict(self._catalog.numbered(shown), keep)

    def statement(self, statement: Statement, place: Place) -> list[Resolution]:
        """A statement that defines something went by: what it ends. Raises `RelayError` (schema_unproven)."""
        self._catalog.end_proofs(statement, place)
        ended = [
            table_id
            for table_id, question in self._questions.items()
            if statement.mentions(question.table_map.schema, question.table_map.table)
        ]
        for table_id in ended:
            question = self._questions.pop(table_id)
            cause = f"the statement {statement.verb.upper()} at {place} came before the answer could be proven"
            self._give_up(question.table_map, question.since, cause)
        return [Resolution(table_id, None) for table_id in ended]

    def mentioned(self, statement: Statement) -> list[int]:
        """Ids of tables decided on so far that a statement may concern: what is known of them ends with it."""
        return [table_id for table_id, (owner, table) in self._known.items() if statement.mentions(owner, table)]

    def passed(self, place: Place) -> list[Resolution]:
        """The stream has come to `place`: what is proven by that."""
        done = [table_id for table_id, question in self._questions.items() if question.answer.until <= place]
        resolutions = []
        for table_id in done:
            question = self._questions.pop(table_id)
            self._catalog.prove(question.definition, question.since)
            resolutions.append(Resolution(table_id, self._catalog.numbered(question.definition)))
        return resolutions

    def forget(self) -> None:
        """The stream starts again: table ids have a new meaning."""
        self._questions.clear()
        self._known.clear()

    @property
    def waiting(self) -> bool:
        """Whether some table waits for its proof."""
        return bool(self._questions)

    def _give_up(self, table_map: TableMap, place: Place, cause: str) -> None:
        if table_map.full:
            return  # its names are certain, only the difference of BINARY and UUID or INET is not
        if self._rules.columns_at_stake(table_map.schema, table_map.table):
            raise RelayError(
                StopCode.SCHEMA_UNPROVEN,
                f"leave columns out of {table_map.name}",
                f"their places in its rows are not certain: {cause}",
                position=str(place),
            )
        self._log("schema_unproven", table=table_map.name, position=place, cause=cause)


def packed(definition: Definition) -> bytes:
    """A definition as it stands in a TABLE frame."""
    return msgspec.msgpack.encode(definition)


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(_fits(name.split(".", 1), pattern.split(".", 1)) for pattern in patterns)


def _fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return all(fnmatchcase(name, pattern) for name, pattern in zip(names, patterns, strict=True))
