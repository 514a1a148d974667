"""A schema history from one stream, for programs that read a binlog without a DataDir."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from relay.binlog.events import (
    Event,
    FormatDescriptionEvent,
    GtidExtra,
    HeaderFlag,
    IncidentEvent,
    MariadbGtidEvent,
    QueryEvent,
    UnknownEvent,
    incomplete_metadata,
    table_maps,
)
from relay.binlog.events.position import BinlogPosition
from relay.binlog.events.table_maps import TableMap
from relay.ddl.dialect import Dialect, version_of
from relay.ddl.statements import Kind
from relay.journal.frames import Definition
from relay.schema.history import History
from relay.schema.matching import definition, mismatch, table_of, with_charsets
from relay.schema.memory import MemoryStore
from relay.schema.queries import Session, query
from relay.schema.table import Table

if TYPE_CHECKING:
    from relay.binlog.events.column_types import MapColumn

_MOST_TABLES: Final = 4096
_IGNORED: Final = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA ")
_UNFINISHED: Final = GtidExtra.START_ALTER | GtidExtra.ROLLBACK_ALTER


class StreamHistory:
    """Find definitions from the events of one stream, which must be passed in order.

    The source is not asked: a table that the statements do not define is unknown.
    """

    def __init__(self, charset_of: Mapping[int, str]) -> None:
        self._charset_of = charset_of
        self._server = ""
        self._dialect: Dialect | None = None
        self._history = History(MemoryStore(), lambda table, error: None, has_source=False)
        self._statements = 0
        self._unfinished = False  # the next statement is the first part of an ALTER in two phases, or its rollback
        # By the identity of the columns object, which table maps share, and the table's name.
        self._cache: dict[tuple[int, str, str], tuple[tuple[MapColumn, ...], Definition | None]] = {}

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

    def definition(self, table_map: TableMap) -> Definition | None:
        """Return the definition of the rows behind a table map, from the statements before it; None if unknown."""
        if self._dialect is None:
            return None
        key = id(table_map.columns), table_map.schema, table_map.table
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= _MOST_TABLES:
                self._cache.clear()
            known = self._cache[key] = table_map.columns, self._decide(table_map, self._dialect)
        return known[1]

    def _decide(self, table_map: TableMap, dialect: Dialect) -> Definition | None:
        table = self._history.key(table_map.schema, table_map.table)
        state = with_charsets(self._history.state(table, self._position), table_map, self._charset_of)
        why = mismatch(table_map, state, self._charset_of, dialect) if isinstance(state, Table) else "it is not known"
        if isinstance(state, Table) and not why:
            found = definition(state, dialect, table_map)
            if not table_map.full:
                return found
            return incomplete_metadata.completed(table_maps.definition(table_map, self._charset_of), found)
        if table_map.full and not (
            incomplete_metadata.may_lack_type(table_map) or incomplete_metadata.may_lack_display(table_map)
        ):
            described = table_maps.definition(table_map, self._charset_of)
            self._history.add_from_table_map(table, table_of(described, dialect), self._position, 0)
            return described
        if isinstance(state, Table):
            self._history.mark_contradicted(table, why, self._position, 0)
        return None

    @property
    def _position(self) -> BinlogPosition:
        return BinlogPosition("", self._statements)

    def _statement(self, event: QueryEvent) -> None:
        if self._dialect is None or self._unfinished or event.statement.startswith(_IGNORED):
            return
        session = Session(event.database, event.errornr, event.header.flags, event.status)
        found = query(event.statement, session, self._server, self._charset_of)
        kind = found.statement.kind
        if kind in (Kind.DDL, Kind.UNKNOWN) or (kind is Kind.DML and found.statement.opaque):
            outcomes = self._history.outcomes(found, self._position)
            self._statements += 1
            self._history.add(outcomes, self._position, 0)
            self._cache.clear()

    def _forget_all(self, why: str) -> None:
        self._statements += 1
        self._history.mark_all_unknown(why, self._position, 0)
        self._cache.clear()
