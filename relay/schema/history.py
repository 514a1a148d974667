"""The schema history: what every table is, as of a place in the binlog.

Statements move it on. What they do not tell, the source is asked for; what it says holds once the stream has come to
where its binlog stood then, if no statement about the table came in between. Nothing that is known to hold later names
an earlier row across a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from relay.binlog.place import Place
from relay.ddl.statements import fold
from relay.ddl.syntax import TableName
from relay.schema.apply import Effects, Schemas, effects, keeps_columns
from relay.schema.facts import ANY, SKIPPED, Answer, Damaged, Facts, Proof, Unreadable, Version, folded_name
from relay.schema.queries import Query
from relay.schema.table import ABSENT, Absent, Schema, State, Table, Unknown

Outcome = tuple[str, str, State | Schema]
"""What a statement leaves of a table, or of a schema, which has no name: schema, name, and what it is."""
_OUTCOMES: Final = msgspec.msgpack.Decoder(list[Outcome])


def packed(outcomes: list[Outcome]) -> bytes:
    """As they stand in the journal, beside their statement."""
    return msgspec.msgpack.encode(outcomes)


def unpacked(data: bytes) -> list[Outcome]:
    """What `packed` made; none of a journal from before there was a history."""
    return _OUTCOMES.decode(data) if data else []


_LOWER_CASE: Final = "lower_case_table_names"
NOTHING_KNOWN: Final = Unknown("nothing is known of it")


class History:
    """What is known of all tables. What changes it is kept once `keep` is called, in place of `undo`."""

    def __init__(self, store: Facts, damaged: Callable[[TableName, Damaged], None]) -> None:
        """`damaged` is told of tables whose history was lost, which then have to be asked for."""
        self._store = store
        self._damaged = damaged
        case = store.fact(_LOWER_CASE)
        self._lowers = int(case) != 0 if case else None

    def learn_case(self, lower_case: int) -> None:
        """The source's lower_case_table_names is this: 0 where the case of names counts."""
        if self._store.fact(_LOWER_CASE) != str(lower_case):
            self._store.put_fact(_LOWER_CASE, str(lower_case))
        self._lowers = lower_case != 0

    def named(self, schema: str, table: str) -> TableName:
        """What stands for a table here."""
        return TableName(lowered(schema), lowered(table)) if self._lowers else TableName(schema, table)

    def tables(self) -> list[TableName]:
        """The tables of which something is known, or was."""
        return self._store.tables()

    def state(self, table: TableName, place: Place) -> State:
        """What the table is for rows at that place, as far as it is certain."""
        found = self._fact(table, place)
        if found is None:
            schema = self._fact(TableName(table.schema, ""), place)
            return ABSENT if isinstance(schema, Schema) and schema.complete else NOTHING_KNOWN
        assert not isinstance(found, Schema)
        return found

    def answer(self, table: TableName, place: Place) -> Answer | None:
        """What the source said of the table, if that tells of rows at this place once the stream has come `until`."""
        found = self._answer(table)
        if found is None or found.until <= place or self.has_changed_since(table, place):
            return None
        return None if self.has_changed_since(table, found.asked) else found

    def has_changed_since(self, table: TableName, place: Place) -> bool:
        """Whether something is known of the table from a later place on."""
        newest = (next(self._versions(name), None) for name in (table, ANY))
        return any(version is not None and place < version.since for version in newest)

    def read(self, query: Query, start: Place) -> list[Outcome]:
        """What a statement that begins there leaves; nothing is changed yet."""
        schemas = Schemas(
            lambda table: self.state(self._lowered(table), start),
            lambda schema: self._schema(self._lowered_schema(schema), start),
            lambda schema: self._there(self._lowered_schema(schema), start),
        )
        if query.statement.opaque:
            return self._opaque(query, start)
        made = effects(query.statement, query.schema, schemas, query.dialect)
        if query.failed or query.temporary:
            why = f"a statement ended with error {query.failed}" if query.failed else "a temporary table may be meant"
            known = keeps_columns(query.statement)
            made = Effects({} if known else dict.fromkeys(made.tables, Unknown(why)), {})
        tables = {self._lowered(table): state for table, state in made.tables.items()}
        if self._lowers is None:
            tables |= self._alike(tables)
        owners = {self._lowered_schema(schema): state for schema, state in made.schemas.items()}
        return [
            *((owner, "", state) for owner, state in owners.items()),
            *((*table, state) for table, state in tables.items() if self._moves(table, state, start)),
        ]

    def add(
        self, outcomes: Iterable[Outcome], end: Place, sequence: int, *, statement: str = "", gtid: str = ""
    ) -> None:
        """A statement that ends there, and has that number in the journal, left this."""
        self._store.add(
            Version(TableName(schema, name), state, end, sequence, Proof.STATEMENT, statement, gtid)
            for schema, name, state in outcomes
        )

    def told(self, table: TableName, state: Table, place: Place, sequence: int) -> None:
        """A table map at that place tells the table in full."""
        self._store.add([Version(table, state, place, sequence, Proof.EVENT)])

    def contradicted(self, table: TableName, why: str, place: Place, sequence: int) -> None:
        """Rows at that place are not of the table that was known."""
        self._store.add([Version(table, Unknown(why), place, sequence, Proof.ROWS)])

    def asked(self, answers: Iterable[Answer]) -> None:
        """The source was asked."""
        self._store.put_answers(answers)

    def forget_all(self, why: str, place: Place, sequence: int) -> None:
        """Something came that may have changed any table."""
        self._store.add([Version(ANY, Unknown(why), place, sequence, Proof.ROWS)])

    def skipped(self, what: str) -> None:
        """Something was left out that may have changed a table; the journal does not say so."""
        self._store.put_fact(SKIPPED, what)

    def _fact(self, table: TableName, place: Place) -> State | Schema | None:
        """What is known of a table or schema at a place."""
        newest: Version | None = None
        for name in (table, ANY):
            version = next((each for each in self._versions(name) if each.since <= place), None)
            if version is not None and (newest is None or newest.since <= version.since):
                newest = version
        answer = self._answer(table)
        if answer is not None and answer.until <= place and (newest is None or newest.since <= answer.asked):
            return answer.state
        return None if newest is None else newest.state

    def _versions(self, table: TableName) -> Iterator[Version]:
        """Those of the table, newest first; one that nobody knows where the file is damaged."""
        try:
            yield from self._store.versions(table)
        except Damaged as error:
            yield self.lose(table, error)

    def _answer(self, table: TableName) -> Answer | None:
        try:
            return self._store.answer(table)
        except Damaged as error:
            self.lose(table, error)
            return None

    def lose(self, table: TableName, error: Damaged) -> Version:
        """Something of the table is damaged: forget it, so that it has to be asked for. Raises `Unreadable`."""
        if table == ANY:  # of all tables, it is not known since when they are unknown
            raise Unreadable(str(error)) from error
        lost = Version(table, Unknown(f"the schema history is damaged: {error}"), Place("", 0), 0, Proof.ROWS)
        self._store.forget(table)
        self._store.add([lost])
        self._damaged(table, error)
        return lost

    def _schema(self, schema: str, place: Place) -> Schema | None:
        found = self._fact(TableName(schema, ""), place)
        return found if isinstance(found, Schema) else None

    def _there(self, schema: str, place: Place) -> list[TableName]:
        return [table for table in self._store.tables(schema) if not isinstance(self._fact(table, place), Absent)]

    def _alike(self, tables: Iterable[TableName]) -> dict[TableName, State]:
        """Tables whose names differ from these by case: nobody said whether that counts at the source."""
        folded = (folded_name(fold(table.schema), fold(table.table)) for table in tables)
        lost = Unknown("a statement is about a table whose name differs by case, which may be the same")
        return {table: lost for table in self._store.alike(folded) if table not in tables}

    def _opaque(self, query: Query, start: Place) -> list[Outcome]:
        """Every table that the statement may be about is not known any more, and it may have made others."""
        statement = query.statement
        lost = Unknown(f"{statement.verb.upper()} is not understood: {statement.opaque}")
        mentioned = statement.mentioned
        if mentioned.everything:
            return [(*ANY, lost)]
        owners = {owner for owner, _ in mentioned.tables}
        if "" in owners or mentioned.schemas:
            tables = [table for table in self._store.tables() if mentioned.has(table)]
        else:
            tables = self._store.alike(folded_name(*pair) for pair in mentioned.tables)
        found: list[Outcome] = [(*table, lost) for table in tables]
        for schema in self._store.schemas():
            if "" in owners or fold(schema) in owners | mentioned.schemas:
                known = self._schema(schema, start) or Schema("")
                if mentioned.schemas:
                    known = known.becoming("")
                found.append((schema, "", msgspec.structs.replace(known, complete=False)))
        return found

    def _moves(self, table: TableName, state: State, start: Place) -> bool:
        """Whether that is news; what is not known any more always is."""
        return isinstance(state, Unknown) or state != self.state(table, start)

    def _lowered(self, table: TableName) -> TableName:
        return self.named(*table)

    def _lowered_schema(self, schema: str) -> str:
        return lowered(schema) if self._lowers else schema


def lowered(name: str) -> str:
    """A name as a server with lower_case_table_names keeps it."""
    return "".join(low if len(low := each.lower()) == 1 else low[0] for each in name)
