"""The schema history: the definition of every table at a binlog position.

Statements change it. If a statement does not define a table completely, the source is asked. Its reply holds once the
stream has reached the source's position at the time of the reply, unless a statement about the table comes in between.
A definition that holds at a later position is never used for earlier rows if a statement is between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from relay.binlog.events.position import BinlogPosition
from relay.ddl.dialect import Dialect
from relay.ddl.statements import fold
from relay.ddl.syntax import TableName
from relay.schema.apply import Effects, Schemas, effects, keeps_columns
from relay.schema.facts import ANY, SKIPPED, Damaged, Fact, Facts, Proof, Reply, Unreadable, Version, folded_name
from relay.schema.queries import Query
from relay.schema.table import ABSENT, Absent, Schema, State, Table, Unknown

Outcome = tuple[str, str, Fact]
"""The outcome of a statement for a table, or for a schema, which has no table name: schema, table, state."""
_OUTCOMES: Final = msgspec.msgpack.Decoder(list[Outcome])
_LOWER_CASE: Final = "lower_case_table_names"
NOTHING_KNOWN: Final = Unknown("nothing is known of it")


def packed(outcomes: list[Outcome]) -> bytes:
    """Pack outcomes for the journal, where they are stored beside their statement."""
    return msgspec.msgpack.encode(outcomes)


def unpacked(data: bytes) -> list[Outcome]:
    """Unpack the outcomes of `packed`; empty for a journal from before the schema history."""
    return _OUTCOMES.decode(data) if data else []


class History:
    """The definitions of all tables. Changes are durable once the store's `commit` is called."""

    def __init__(self, store: Facts, damaged: Callable[[TableName, Damaged], None], *, has_source: bool = True) -> None:
        """`damaged` is called for each table whose history is lost; its state is then unknown.

        Without `has_source`, no source can be asked: what a schema's character set is must always be assumed.
        """
        self._store = store
        self._damaged = damaged
        self._has_source = has_source
        case = store.fact(_LOWER_CASE)
        self._lowers_names = int(case) != 0 if case else None

    def set_lower_case(self, lower_case: int) -> None:
        """Set the source's lower_case_table_names: 0 if names are case-sensitive."""
        if self._store.fact(_LOWER_CASE) != str(lower_case):
            self._store.put_fact(_LOWER_CASE, str(lower_case))
        self._lowers_names = lower_case != 0

    def key(self, schema: str, table: str) -> TableName:
        """Return the key of a table in this history: its name, in lower case if the source lowers names."""
        return TableName(lowered(schema), lowered(table)) if self._lowers_names else TableName(schema, table)

    def state(self, table: TableName, position: BinlogPosition) -> State:
        """Return the table's state for rows at that position; `Unknown` if it is uncertain."""
        found = self._fact(table, position)
        if found is None:
            schema = self._fact(TableName(table.schema, ""), position)
            return ABSENT if isinstance(schema, Schema) and schema.complete else NOTHING_KNOWN
        assert not isinstance(found, Schema)
        return found

    def reply(self, table: TableName, position: BinlogPosition) -> Reply | None:
        """Return the source's reply about the table.

        None unless it will hold at this position once the stream reaches `until`.
        """
        found = self._reply(table)
        if found is None or found.until <= position:
            return None
        newest = (next(self._versions(name), None) for name in (table, ANY))
        return None if any(each and min(position, found.asked) < each.since for each in newest) else found

    def outcomes(self, query: Query, start: BinlogPosition) -> list[Outcome]:
        """Compute the outcomes of a statement that begins at `start`, without adding them."""
        schemas = Schemas(
            lambda table: self.state(self.key(*table), start),
            lambda schema: self._schema(self._lowered_schema(schema), start),
            lambda schema: self._existing(self._lowered_schema(schema), start),
            lambda schema: self.assumed_charset(self._lowered_schema(schema), start, query.dialect),
        )
        if query.statement.opaque:
            return self._opaque(query, start)
        made = effects(query.statement, query.schema, schemas, query.dialect)
        if query.failed or query.temporary:
            why = f"a statement ended with error {query.failed}" if query.failed else "a temporary table may be meant"
            tables_stay = keeps_columns(query.statement)
            made = Effects({} if tables_stay else dict.fromkeys(made.tables, Unknown(why)), {})
        tables = {self.key(*table): state for table, state in made.tables.items()}
        if self._lowers_names is None:
            tables |= self._case_variants(tables)
        owners = {self._lowered_schema(schema): state for schema, state in made.schemas.items()}
        return [
            *((owner, "", state) for owner, state in owners.items()),
            *((*table, state) for table, state in tables.items() if self._is_change(table, state, start)),
        ]

    def add(
        self, outcomes: Iterable[Outcome], end: BinlogPosition, sequence: int, *, statement: str = "", gtid: str = ""
    ) -> None:
        """Add the outcomes of a statement that ends at `end` and has the number `sequence` in the journal."""
        self._store.add(
            Version(TableName(schema, name), state, end, sequence, Proof.STATEMENT, statement, gtid)
            for schema, name, state in outcomes
        )

    def add_from_table_map(self, table: TableName, state: Table, position: BinlogPosition, sequence: int) -> None:
        """Add the state of a table that a table map at `position` defines completely."""
        self._store.add([Version(table, state, position, sequence, Proof.EVENT)])

    def mark_contradicted(self, table: TableName, why: str, position: BinlogPosition, sequence: int) -> None:
        """Mark a table unknown: rows at `position` contradict its definition."""
        self._store.add([Version(table, Unknown(why), position, sequence, Proof.ROWS)])

    def mark_all_unknown(self, why: str, position: BinlogPosition, sequence: int) -> None:
        """Mark all tables unknown: an event may have changed any of them."""
        self._store.add([Version(ANY, Unknown(why), position, sequence, Proof.ROWS)])

    def record_skipped(self, what: str) -> None:
        """Record that an event was skipped that may have changed a table. The journal has no record of it."""
        self._store.put_fact(SKIPPED, what)

    def _fact(self, table: TableName, position: BinlogPosition) -> Fact | None:
        """Return the state of a table or schema at a position, None if nothing is known."""
        newest: Version | None = None
        for name in (table, ANY):
            version = next((each for each in self._versions(name) if each.since <= position), None)
            if version is not None and (newest is None or newest.since <= version.since):
                newest = version
        reply = self._reply(table)
        if reply is not None and reply.until <= position and (newest is None or newest.since <= reply.asked):
            return reply.state
        return None if newest is None else newest.state

    def _versions(self, table: TableName) -> Iterator[Version]:
        """Yield the versions of the table, newest first; for a damaged one, the version that `forget_damaged` adds."""
        try:
            yield from self._store.versions(table)
        except Damaged as error:
            yield self.forget_damaged(table, error)

    def _reply(self, table: TableName) -> Reply | None:
        try:
            return self._store.reply(table)
        except Damaged as error:
            self.forget_damaged(table, error)
            return None

    def forget_damaged(self, table: TableName, error: Damaged) -> Version:
        """Forget a table with damaged facts, add that it is unknown, and return that version. Raises `Unreadable`."""
        if table == ANY:  # for all tables, the position from which they are unknown is lost too
            raise Unreadable(str(error)) from error
        lost = Version(table, Unknown(f"the schema history is damaged: {error}"), BinlogPosition("", 0), 0, Proof.ROWS)
        self._store.forget(table)
        self._store.add([lost])
        self._damaged(table, error)
        return lost

    def _schema(self, schema: str, position: BinlogPosition) -> Schema | None:
        found = self._fact(TableName(schema, ""), position)
        if found is None and self._is_absent(schema, position):
            return Schema("", complete=True)
        return found if isinstance(found, Schema) else None

    def _is_absent(self, schema: str, position: BinlogPosition) -> bool:
        """Whether a schema that no statement is about did not exist when the source listed all schemas."""
        listed = self._reply(ANY)
        if listed is None or listed.until > position:
            return False
        if not (isinstance(listed.state, Schema) and listed.state.complete):
            return False
        doubts = (next(self._versions(name), None) for name in (ANY, TableName(fold(schema), "")))
        return all(each is None or each.since <= listed.asked for each in doubts)

    def assumed_charset(self, schema: str, position: BinlogPosition, dialect: Dialect) -> str:
        """Return the character set to assume for a schema whose own is unknown at that position; "" for none.

        It is the one of now, if no statement has shown another one. A schema that does not exist now is assumed to
        have that of the CREATE DATABASE IF NOT EXISTS before it, or else that of the statement's session. Once the
        stream has reached the list of schemas, nothing has to be assumed: the source can be asked about each table.
        """
        listed = self._reply(ANY)
        if self._has_source and (listed is None or listed.until <= position):
            return ""
        known = self._schema(schema, position) or Schema("")
        reply = self._reply(TableName(schema, ""))
        now = reply.state.charset if reply is not None and isinstance(reply.state, Schema) else ""
        return known.charset or now or known.perhaps or dialect.server_charset or ""

    def is_listed(self, position: BinlogPosition) -> bool:
        """Whether the stream has reached the position up to which the source was asked about all tables."""
        listed = self._reply(ANY)
        return listed is not None and listed.until <= position

    def has_earlier_charset(self, schema: str, position: BinlogPosition) -> bool:
        """Whether statements have changed the character set of a schema."""
        found = self._schema(schema, position)
        return found is not None and bool(found.earlier)

    def _existing(self, schema: str, position: BinlogPosition) -> list[TableName]:
        return [table for table in self._store.tables(schema) if not isinstance(self._fact(table, position), Absent)]

    def _case_variants(self, tables: Iterable[TableName]) -> dict[TableName, State]:
        """Return the tables whose names differ from these by case.

        They become unknown, as they may be the same tables.
        """
        folded = (folded_name(fold(table.schema), fold(table.table)) for table in tables)
        lost = Unknown("a statement is about a table whose name differs by case, which may be the same")
        return {table: lost for table in self._store.by_folded_names(folded) if table not in tables}

    def _opaque(self, query: Query, start: BinlogPosition) -> list[Outcome]:
        """Return the outcomes of an opaque statement.

        Every table that it may be about is unknown, and there may be others.
        """
        statement = query.statement
        lost = Unknown(f"{statement.verb.upper()} is not understood: {statement.opaque}")
        mentioned = statement.mentioned
        if mentioned.everything:
            return [(*ANY, lost)]
        owners = {owner for owner, _ in mentioned.tables}
        if "" in owners or mentioned.schemas:
            tables = [table for table in self._store.tables() if mentioned.may_include(table)]
        else:
            tables = self._store.by_folded_names(folded_name(*pair) for pair in mentioned.tables)
        found: list[Outcome] = [(*table, lost) for table in tables]
        for schema in self._store.schemas():
            if "" in owners or fold(schema) in owners | mentioned.schemas:
                known = self._schema(schema, start) or Schema("")
                if mentioned.schemas:
                    known = known.with_charset("")
                found.append((schema, "", msgspec.structs.replace(known, complete=False)))
        found += [(name, "", Schema("")) for name in mentioned.schemas - {fold(each) for each, *_ in found}]
        return found

    def _is_change(self, table: TableName, state: State, start: BinlogPosition) -> bool:
        """Whether the outcome changes the state; a table that becomes unknown always does."""
        return isinstance(state, Unknown) or state != self.state(table, start)

    def _lowered_schema(self, schema: str) -> str:
        return lowered(schema) if self._lowers_names else schema


def lowered(name: str) -> str:
    """Return the name as a server with lower_case_table_names stores it."""
    return "".join(low if len(low := each.lower()) == 1 else low[0] for each in name)
