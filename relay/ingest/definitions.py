"""Decide for one stream which definition a table map has, what a statement changes, and what is excluded.

The function that queries the source is an argument; the only other I/O is on the relay's own files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

import msgspec

from relay.base.errors import RelayError, StopCode
from relay.base.log import Log
from relay.binlog.events import incomplete_metadata, table_maps
from relay.binlog.events.position import BinlogPosition
from relay.binlog.events.table_maps import TableMap
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import TableName
from relay.ingest import left_out
from relay.ingest.assumptions import Assumptions
from relay.ingest.reader_state import ReaderState
from relay.ingest.rules import Rules
from relay.journal.frames import Definition
from relay.schema.columntype import lacks_charset
from relay.schema.expected_map import Collations, Source, expected_map
from relay.schema.facts import ANY, SKIPPED, Fact, Reply
from relay.schema.history import History, Outcome
from relay.schema.matching import definition, depends_on_charset, mismatch, table_of, with_charsets
from relay.schema.queries import Query
from relay.schema.source_tables import uncertain_labels
from relay.schema.table import Absent, Table, Unknown

_NO_ID: Final = bytes(6)


class Verdict(NamedTuple):
    """The decision about a table map.

    `definition` describes all columns of the event, and `keep` says which of them to journal. Without a definition, the
    table is excluded. With `pending`, consumers do not get its rows before a `Resolution`.
    """

    definition: Definition | None = None
    keep: tuple[bool, ...] = ()
    pending: PendingDefinition | None = None


class Expected(NamedTuple):
    """A table map that may come, from its flags on, and the definition that its rows will have."""

    table_map: bytes
    definition: Definition
    keep: tuple[bool, ...]


class PendingDefinition(NamedTuple):
    """A definition that holds from `since` on, if the stream reaches `until` without a statement about the table."""

    table: TableName
    since: BinlogPosition
    until: BinlogPosition
    definition: Definition
    keep: tuple[bool, ...]
    named: bool = False  # the table map has the names: only the rest is pending


class Resolution(NamedTuple):
    """The end of a pending definition: the definition to publish for its handle, None if it stays unproven."""

    handle: int
    definition: Definition | None


class Definitions:
    """Find the definitions for the table maps of one stream, in order."""

    def __init__(
        self,
        reader_state: ReaderState,
        history: History,
        rules: Rules,
        charset_of: Mapping[int, str],
        query_table: Callable[[TableName], None],
        log: Log,
        *,
        assumptions: Assumptions,
        incomplete_types: bool,
        names_expected: bool = False,
        stop_at_assumed: bool = False,
        pending: dict[int, PendingDefinition] | None = None,
    ) -> None:
        """`query_table` queries the source about a table, and puts the reply into the store of the history.

        `incomplete_types`: table maps lack some types (MariaDB). `names_expected`: table maps have names, so the source
        is not asked about a table before its first row. `stop_at_assumed`: a row that needs an assumed character set is
        a fatal error. `pending` is what an earlier stream from the same source left.
        """
        self._reader_state = reader_state
        self._history = history
        self._rules = rules
        self._charset_of = charset_of
        self._query_table = query_table
        self._log = log
        self._incomplete_types = incomplete_types
        self._assumptions = assumptions
        self._names_expected = names_expected
        self._stop_at_assumed = stop_at_assumed
        self._pending = {} if pending is None else pending
        self._collations = Collations(charset_of)

    def decide(self, body: bytes | memoryview, position: BinlogPosition, sequence: int, dialect: Dialect) -> Verdict:
        """Decide about a TABLE_MAP event, given its body, at `position`.

        `sequence` is the number that its first row will have, `dialect` that of the server which wrote it. Raises
        `RelayError` (unsupported_column, unknown_event, schema_unproven, charset_assumed), and any error of
        `query_table`.
        """
        owner, table = table_maps.table_name(body, str(position))
        if not self._rules.wants(owner, table):
            return Verdict()
        try:
            table_map = table_maps.parse(body, str(position), mariadb=self._incomplete_types)
            return self._decide(table_map, position, sequence, dialect)
        except RelayError as error:
            if error.code is not StopCode.UNSUPPORTED_COLUMN or not self._rules.skip_unknown:
                raise
            self._log("table_skipped", table=f"{owner}.{table}", position=position, cause=error)
            return Verdict()

    def _decide(self, table_map: TableMap, position: BinlogPosition, sequence: int, dialect: Dialect) -> Verdict:
        fallback = (table_maps.definition if table_map.full else table_maps.provisional)(table_map, self._charset_of)
        table = self._history.key(table_map.schema, table_map.table)
        self._collations.learn(table_map)
        state = with_charsets(self._history.state(table, position), table_map, self._charset_of)
        known = self._matching(table_map, state, dialect)
        if isinstance(state, Table) and state.assumed and self._is_doubtful(state, position):
            known = "its character set was assumed, which was contradicted"
        if not isinstance(known, str):
            known = incomplete_metadata.completed(fallback, known) if table_map.full else known
            verdict = self._verdict(table_map, known, known)
            if isinstance(state, Table) and state.assumed and depends_on_charset(known, table_map, dialect):
                self._begin_assumptions(state, position, dialect)
                self._register(table, state, verdict, position)
            return verdict
        if isinstance(state, Table):
            self._assumptions.contradict(self._keys(state.assumed), f"{table} at {position}: {known}")
        if not isinstance(state, Unknown):
            self._history.mark_contradicted(table, known, position, sequence)
            self._log("schema_contradicted", table=table, position=position, cause=known)
        has_all_types = not incomplete_metadata.may_lack_type(table_map, dialect)
        types_complete = table_map.full and has_all_types
        if types_complete and not incomplete_metadata.may_lack_display(table_map):
            return self._from_table_map(table_map, fallback, position, sequence, dialect)
        # Without a reply, BINARY cannot be distinguished from UUID and INET.
        shown = fallback if has_all_types else msgspec.structs.replace(fallback, proven=False)
        reply = self._reply(table, table_map, position, dialect)
        found = self._matching(table_map, reply.state, dialect) if reply else "a later statement changes it"
        if types_complete and (isinstance(found, str) or not incomplete_metadata.has_display(found)):
            return self._from_table_map(table_map, fallback, position, sequence, dialect)
        if reply is None or isinstance(found, str):
            cause = str(found)
            self._require_lengths(fallback, position, cause)
            self._leave_unproven(fallback, position, cause, table_map.full)
            return self._verdict(table_map, shown, shown)
        if table_map.full:
            found = incomplete_metadata.completed(fallback, found)
        elif isinstance(reply.state, Table) and (uncertain := uncertain_labels(reply.state)):
            cause = f"labels of {', '.join(uncertain)} may be others: the source cannot distinguish them"
            self._log("labels_uncertain", table=table_map.name, position=position, cause=cause)
        verdict = self._verdict(table_map, incomplete_metadata.with_lengths(shown, found), found)
        pending = PendingDefinition(table, position, reply.until, found, verdict.keep, table_map.full)
        return verdict._replace(pending=pending)

    def expect(self, table: TableName, position: BinlogPosition, dialect: Dialect) -> Expected | None:
        """Return what to expect before the next row of a table.

        None if the history does not tell it, or if it depends on what is assumed.
        """
        state = self._history.state(table, position)
        if not isinstance(state, Table) or state.assumed or not self._rules.wants(*table):
            return None
        body = expected_map(table, state, Source(dialect, self._names_expected), self._collations)
        if body is None:
            return None
        try:
            table_map = table_maps.parse(_NO_ID + body, str(position), mariadb=self._incomplete_types)
            known = self._matching(table_map, with_charsets(state, table_map, self._charset_of), dialect)
            if isinstance(known, str):
                return None
            if table_map.full:
                known = incomplete_metadata.completed(table_maps.definition(table_map, self._charset_of), known)
        except RelayError:  # it is the row's, if one comes
            return None
        return Expected(body, self._reader_state.with_ids(known), self._keep(table_map, known))

    def _register(self, table: TableName, state: Table, verdict: Verdict, position: BinlogPosition) -> None:
        """Register the definition of a verdict whose rows need an assumed character set."""
        assumed = self._assumptions.of(self._keys(state.assumed))
        if not assumed or verdict.definition is None:
            return
        if self._stop_at_assumed:
            schema, charset = next(iter(assumed.items()))
            cause = f"the character set of the schema {schema} is assumed to be {charset}, and nothing proves it yet"
            raise RelayError(StopCode.CHARSET_ASSUMED, f"read rows of {table}", cause, position=str(position))
        self._assumptions.register(verdict.definition.version, table, assumed, position)

    def _is_doubtful(self, table: Table, position: BinlogPosition) -> bool:
        """Whether a contradicted assumption is left of the time before the source was asked about all tables."""
        return self._history.is_listed(position) and self._assumptions.is_contradicted(self._keys(table.assumed))

    def _keys(self, schemas: Iterable[str]) -> list[str]:
        return [self._history.key(schema, "").schema for schema in schemas]

    def _matching(self, table_map: TableMap, state: object, dialect: Dialect) -> Definition | str:
        """Return the definition of the rows if the table map matches the table's state, else why it does not."""
        if isinstance(state, Table):
            return mismatch(table_map, state, self._charset_of, dialect) or definition(state, dialect, table_map)
        if isinstance(state, Absent):
            return "there is no such table"
        return state.cause if isinstance(state, Unknown) else "it may have changed"

    def _reply(self, table: TableName, table_map: TableMap, position: BinlogPosition, dialect: Dialect) -> Reply | None:
        """Return the source's reply about the table, from the history if it matches.

        None if no reply is about these rows.
        """
        reply = self._history.reply(table, position)
        if reply is None or isinstance(self._matching(table_map, reply.state, dialect), str):
            self._query_table(table)
            reply = self._history.reply(table, position)
        return reply

    def _from_table_map(
        self, table_map: TableMap, described: Definition, position: BinlogPosition, sequence: int, dialect: Dialect
    ) -> Verdict:
        """Return the verdict by the metadata of the table map alone."""
        table = self._history.key(table_map.schema, table_map.table)
        self._history.add_from_table_map(table, table_of(described, dialect), position, sequence)
        return self._verdict(table_map, described, described)

    def _verdict(self, table_map: TableMap, shown: Definition, named: Definition) -> Verdict:
        """Return the verdict with the definition `shown`; columns are excluded by the names in `named`."""
        return Verdict(self._reader_state.with_ids(shown), self._keep(table_map, named))

    def _keep(self, table_map: TableMap, named: Definition) -> tuple[bool, ...]:
        return tuple(self._rules.keeps(table_map.schema, table_map.table, column.name) for column in named.columns)

    def add_pending(self, handle: int, pending: PendingDefinition) -> None:
        """Register a pending table under its `handle` in the journal."""
        self._pending[handle] = pending

    def outcomes(self, query: Query, start: BinlogPosition) -> list[Outcome]:
        """Return the outcomes of a statement that begins at `start`."""
        return self._history.outcomes(query, start)

    def doubt(self, query: Query, updated: Sequence[str] | None) -> str:
        """Why a statement that changed rows matters; "" if nobody can get them (`left_out.doubt`)."""
        return left_out.doubt(query.statement.targets, updated, self._rules, self._history.key)

    def apply_statement(
        self, outcomes: Sequence[Outcome], query: Query, end: BinlogPosition, sequence: int, gtid: str
    ) -> list[Resolution]:
        """Apply the outcomes of a statement that ends at `end`; return the resolutions. Raises as `decide` does."""
        self._history.add(outcomes, end, sequence, statement=query.text, gtid=gtid)
        changed = {TableName(schema, table) for schema, table, _ in outcomes}
        self._assumptions.apply(query.statement, query.text, end)
        for _, _, state in outcomes:
            if isinstance(state, Table):
                self._begin_assumptions(state, end, query.dialect)
        resolutions = self._end_pending(changed, f"the statement {query.statement.verb.upper()} at {end}")
        if not self._names_expected:
            self._query_unknown(outcomes, end, query.dialect)
        return resolutions

    def _begin_assumptions(self, table: Table, position: BinlogPosition, dialect: Dialect) -> None:
        """Begin the assumptions that a table depends on, if they have not begun."""
        if not table.assumed or self._history.is_listed(position):
            return
        for schema in self._keys(table.assumed):
            changed = self._history.has_earlier_charset(schema, position)
            doubt = f"a session may still use the one that {schema} had before" if changed else ""
            charset = self._history.assumed_charset(schema, position, dialect)
            self._assumptions.begin(schema, charset, position, doubt)

    def finish_assumptions(self, position: BinlogPosition) -> bool:
        """End the assumptions if the stream has reached what the source said of all tables.

        Returns whether definitions depended on any: then all tables have to be decided again.
        """
        return self._assumptions.is_open and self._history.is_listed(position) and self._assumptions.finish()

    def abandon_assumptions(self) -> None:
        """End the assumptions about an earlier epoch."""
        self._assumptions.abandon("the stream continues elsewhere, with definitions of its own")

    def record_skipped(self, position: str) -> None:
        """Record that an event was skipped at `position` that may have changed a definition."""
        self._reader_state.put(SKIPPED, position)
        self._history.record_skipped(position)

    def forget_all(self, why: str, position: BinlogPosition, sequence: int) -> list[Resolution]:
        """Apply a skipped event that may have changed any definition. Raises as `decide` does."""
        self._history.mark_all_unknown(why, position, sequence)
        self._assumptions.contradict_all(why)
        return self._end_pending({ANY}, why)

    def _end_pending(self, changed: Set[TableName], what: str) -> list[Resolution]:
        """Resolve the pending definitions of these tables, which can no longer be proven."""
        ended = []
        for handle, pending in self._pending.items():
            if pending.table in changed or ANY in changed:
                cause = f"{what} came before the definition could be proven"
                self._require_lengths(pending.definition, pending.since, cause)
                self._leave_unproven(pending.definition, pending.since, cause, pending.named)
                ended.append(handle)
        for handle in ended:
            del self._pending[handle]
        return [Resolution(handle, None) for handle in ended]

    def _query_unknown(self, outcomes: Iterable[Outcome], end: BinlogPosition, dialect: Dialect) -> None:
        """Query the tables that a statement leaves incomplete, at once, because the next statement may change them.

        Raises any error of `query_table`; the statement then comes again.
        """
        for schema, table, state in outcomes:
            if table and self._rules.wants(schema, table) and _is_incomplete(state, dialect):
                name = TableName(schema, table)
                if self._history.reply(name, end) is None:
                    self._query_table(name)

    def abandon_pending(self) -> list[Resolution]:
        """Resolve all pending definitions: the stream continues where no position can prove them.

        Raises `RelayError`.
        """
        return self._end_pending({ANY}, "another source")

    def resolve_proven(self, position: BinlogPosition) -> list[Resolution]:
        """Resolve the pending definitions that are proven once the stream has reached `position`."""
        proven = {handle: pending for handle, pending in self._pending.items() if pending.until <= position}
        for handle in proven:
            del self._pending[handle]
        return [
            Resolution(handle, without_excluded(self._reader_state.with_ids(pending.definition), pending.keep))
            for handle, pending in proven.items()
        ]

    @property
    def has_pending(self) -> bool:
        """Whether a definition is pending."""
        return bool(self._pending)

    def _require_lengths(self, described: Definition, position: BinlogPosition, cause: str) -> None:
        """Raise `RelayError` (unsupported_column) if the rows cannot be read without a reply of the source."""
        if self._incomplete_types:
            incomplete_metadata.require_lengths(described, cause, str(position))

    def _leave_unproven(self, described: Definition, position: BinlogPosition, cause: str, named: bool = False) -> None:
        owner, table = described.schema, described.table
        if not named and self._rules.columns_at_stake(owner, table):
            raise RelayError(
                StopCode.SCHEMA_UNPROVEN,
                f"exclude columns of {owner}.{table}",
                f"their positions in its rows are uncertain: {cause}",
                position=str(position),
            )
        self._log("schema_unproven", table=f"{owner}.{table}", position=position, cause=cause)


def _is_incomplete(state: Fact, dialect: Dialect) -> bool:
    """Whether neither the statements nor the table maps tell all of a table."""
    if isinstance(state, Table):
        return not dialect.has_charsets_in_table_maps and any(lacks_charset(column.type) for column in state.columns)
    return isinstance(state, Unknown)


def without_excluded(definition: Definition, keep: Sequence[bool]) -> Definition:
    """Return the definition without excluded columns, and without the key if one of them belongs to it."""
    columns = [column for column, stays in zip(definition.columns, keep, strict=True) if stays]
    if any(column.primary and not stays for column, stays in zip(definition.columns, keep, strict=True)):
        # The other columns of the key do not identify rows.
        columns = [msgspec.structs.replace(column, primary=False) for column in columns]
    return msgspec.structs.replace(definition, columns=columns)


def packed(definition: Definition) -> bytes:
    """Pack a definition for a TABLE frame."""
    return msgspec.msgpack.encode(definition)
