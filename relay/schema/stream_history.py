"""A schema history from one stream, for programs that read a binlog without a DataDir."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from relay.binlog.events import (
    Event,
    FormatDescriptionEvent,
    GtidExtra,
    HeaderFlag,
    IncidentEvent,
    MariadbGtidEvent,
    QueryEvent,
    TableMapEvent,
    UnknownEvent,
    incomplete_metadata,
    table_maps,
)
from relay.binlog.events.position import BinlogPosition
from relay.binlog.events.table_maps import TableMap
from relay.ddl.dialect import Dialect, version_of
from relay.ddl.statements import Kind, fold
from relay.ddl.syntax import TableName
from relay.journal.frames import Definition
from relay.schema.apply import schemas_set_by
from relay.schema.facts import Fact
from relay.schema.history import History, Outcome
from relay.schema.matching import definition, depends_on_charset, mismatch, table_of, with_charsets
from relay.schema.memory import MemoryStore
from relay.schema.queries import Query, Session, query
from relay.schema.table import Table

if TYPE_CHECKING:
    from relay.binlog.events.column_types import MapColumn

_MOST_TABLES: Final = 4096
DEFINE_NOTHING: Final = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA ")
"""How statements begin that define no table and are frequent."""
_UNFINISHED: Final = GtidExtra.START_ALTER | GtidExtra.ROLLBACK_ALTER


class AssumedCharset(msgspec.Struct):
    """A character set that was assumed for a schema.

    `statement` is the first statement that depends on it. `contradicted` is the statement, or the table map, that shows
    that the assumption was wrong or may have been; it is empty if there is none.
    """

    charset: str
    statement: str
    contradicted: str = ""


class StreamHistory:
    """Find definitions from the events of one stream, which must be passed in order.

    The source is not asked: a table that neither the statements nor `learn` define is unknown, and a character set that
    they do not show is assumed. `assumed` has the assumptions, by schema.
    """

    def __init__(self, charset_of: Mapping[int, str]) -> None:
        self.assumed: dict[str, AssumedCharset] = {}
        self._assumable: dict[str, AssumedCharset] = {}  # those, and others that no row has needed yet
        self._charset_of = charset_of
        self._server = ""
        self._dialect: Dialect | None = None
        self._history = History(MemoryStore(), lambda table, error: None, has_source=False)
        self._statements = 0
        self._unfinished = False  # the next statement is the first part of an ALTER in two phases, or its rollback
        # By the identity of the columns object, which table maps share, and the table's name.
        self._cache: dict[tuple[int, str, str], tuple[tuple[MapColumn, ...], Definition | None]] = {}

    def learn(self, definitions: Iterable[tuple[TableName, Fact]]) -> None:
        """Add definitions of tables, and of schemas, that hold at this point of the stream."""
        self._history.add([(*table, state) for table, state in definitions], self._position, 0)
        self._cache.clear()

    def process(self, event: Event) -> None:
        """Process an event other than a table map."""
        match event:
            case QueryEvent():
                self._statement(event)
            case FormatDescriptionEvent():
                self._server = event.server_version
                self._dialect = Dialect(*version_of(event.server_version))
            case MariadbGtidEvent():
                self._unfinished = bool(event.flags_extra & _UNFINISHED)
            case IncidentEvent():
                self._forget_all("an INCIDENT")
            case UnknownEvent() if not event.header.flags & HeaderFlag.IGNORABLE:
                self._forget_all("an event that is not known")

    def definition(self, event: TableMapEvent) -> Definition | None:
        """Return the definition of the rows behind a table map, from the statements before it; None if unknown."""
        if self._dialect is None:
            return None
        key = id(event.columns), event.database, event.table
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= _MOST_TABLES:
                self._cache.clear()
            table_map = TableMap(event.table_id, event.database, event.table, event.columns)
            known = self._cache[key] = table_map.columns, self._decide(table_map, self._dialect)
        return known[1]

    def _decide(self, table_map: TableMap, dialect: Dialect) -> Definition | None:
        table = self._history.key(table_map.schema, table_map.table)
        state = with_charsets(self._history.state(table, self._position), table_map, self._charset_of)
        why = mismatch(table_map, state, self._charset_of, dialect) if isinstance(state, Table) else "it is not known"
        if isinstance(state, Table) and not why:
            found = definition(state, dialect, table_map)
            if depends_on_charset(found, table_map, dialect):
                self.assumed |= {schema: self._assumable[schema] for schema in state.assumed}
            if not table_map.full:
                return found
            return incomplete_metadata.completed(table_maps.definition(table_map, self._charset_of), found)
        if table_map.full and not (
            incomplete_metadata.may_lack_type(table_map, dialect) or incomplete_metadata.may_lack_display(table_map)
        ):
            described = table_maps.definition(table_map, self._charset_of)
            self._history.add_from_table_map(table, table_of(described, dialect), self._position, 0)
            return described
        if isinstance(state, Table):
            for schema in state.assumed:
                self._contradict(schema, f"a row of {table}: {why}")
            self._history.mark_contradicted(table, why, self._position, 0)
        return None

    @property
    def _position(self) -> BinlogPosition:
        return BinlogPosition("", self._statements)

    def _statement(self, event: QueryEvent) -> None:
        if self._dialect is None or self._unfinished or event.statement.startswith(DEFINE_NOTHING):
            return
        session = Session(event.database, event.errornr, event.header.flags, event.status)
        found = query(event.statement, session, self._server, self._charset_of)
        kind = found.statement.kind
        if kind in (Kind.DDL, Kind.UNKNOWN) or (kind is Kind.DML and found.statement.opaque):
            outcomes = self._history.outcomes(found, self._position)
            self._follow_assumptions(found, outcomes)
            self._statements += 1
            self._history.add(outcomes, self._position, 0)
            self._cache.clear()

    def _follow_assumptions(self, found: Query, outcomes: Iterable[Outcome]) -> None:
        """Add the assumptions that the outcomes of a statement depend on, and contradict those that it sets."""
        affected = schemas_set_by(found.statement)
        for schema in self._assumable:
            if affected is None or fold(schema) in affected:
                self._contradict(schema, found.text)
        for _, _, state in outcomes:
            for schema in state.assumed if isinstance(state, Table) else ():
                charset = self._history.assumed_charset(schema, self._position, found.dialect)
                self._assumable.setdefault(schema, AssumedCharset(charset, found.text))
                if self._history.has_earlier_charset(schema, self._position):
                    self._contradict(schema, f"a session may still use the one that {schema} had before")

    def _contradict(self, schema: str, what: str) -> None:
        if not self._assumable[schema].contradicted:
            self._assumable[schema].contradicted = what

    def _forget_all(self, why: str) -> None:
        for schema in self._assumable:
            self._contradict(schema, why)
        self._statements += 1
        self._history.mark_all_unknown(why, self._position, 0)
        self._cache.clear()
