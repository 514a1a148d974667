"""What a stream tells of its tables, for those who read it without a DataDir: a history from its own statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from relay.binlog import hidden, tablemap
from relay.binlog.events import (
    Event,
    FormatDescriptionEvent,
    GtidExtra,
    HeaderFlag,
    IncidentEvent,
    MariadbGtidEvent,
    QueryEvent,
    UnknownEvent,
)
from relay.binlog.place import Place
from relay.binlog.tablemap import TableMap
from relay.ddl.dialect import Dialect, version_of
from relay.ddl.statements import Kind
from relay.journal.frames import Definition
from relay.schema.history import History
from relay.schema.matching import definition, mismatch, told
from relay.schema.memory import Memory
from relay.schema.queries import Session, query
from relay.schema.table import Table

if TYPE_CHECKING:
    from relay.binlog.columntypes import MapColumn

_MOST_TABLES: Final = 4096
_PASSED_BY: Final = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA ")
_UNFINISHED: Final = GtidExtra.START_ALTER | GtidExtra.ROLLBACK_ALTER


class Learned:
    """Follows the events of one stream, in their order. Nobody is asked: what its statements do not tell is unknown."""

    def __init__(self, charset_of: Mapping[int, str]) -> None:
        self._charset_of = charset_of
        self._server = ""
        self._dialect: Dialect | None = None
        self._history = History(Memory(), lambda table, error: None)
        self._statements = 0
        self._unfinished = False  # the next statement is half of an ALTER in two phases
        # By the identity of columns, which table maps share, and the name.
        self._known: dict[tuple[int, str, str], tuple[tuple[MapColumn, ...], Definition | None]] = {}

    def note(self, event: Event) -> None:
        """Take note of an event other than a table map."""
        match event:
            case QueryEvent():
                self._statement(event)
            case FormatDescriptionEvent():
                self._server = event.server_version
                self._dialect = Dialect(*version_of(event.server_version))
            case MariadbGtidEvent():
                self._unfinished = bool(event.flags_extra & _UNFINISHED)
            case IncidentEvent():
                self._lose("an INCIDENT")
            case UnknownEvent() if not event.header.flags & HeaderFlag.IGNORABLE:
                self._lose("an event that is not known")

    def definition(self, table_map: TableMap) -> Definition | None:
        """The table of the rows that follow, as the statements before them made it; None if they do not tell."""
        if self._dialect is None:
            return None
        key = id(table_map.columns), table_map.schema, table_map.table
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_TABLES:
                self._known.clear()
            known = self._known[key] = table_map.columns, self._decide(table_map, self._dialect)
        return known[1]

    def _decide(self, table_map: TableMap, dialect: Dialect) -> Definition | None:
        table = self._history.named(table_map.schema, table_map.table)
        state = self._history.state(table, self._place)
        why = mismatch(table_map, state, self._charset_of, dialect) if isinstance(state, Table) else "it is not known"
        if isinstance(state, Table) and not why:
            found = msgspec.structs.replace(
                definition(state, dialect, table_map), schema=table_map.schema, table=table_map.table
            )
            if not table_map.full:
                return found
            return hidden.completed(tablemap.definition(table_map, self._charset_of), found)
        if table_map.full and not (hidden.may_hide_a_type(table_map) or hidden.may_hide_a_display(table_map)):
            described = tablemap.definition(table_map, self._charset_of)
            self._history.told(table, told(described, dialect), self._place, 0)
            return described
        if isinstance(state, Table):
            self._history.contradicted(table, why, self._place, 0)
        return None

    @property
    def _place(self) -> Place:
        return Place("", self._statements)

    def _statement(self, event: QueryEvent) -> None:
        if self._dialect is None or self._unfinished or event.statement.startswith(_PASSED_BY):
            return
        session = Session(event.database, event.errornr, event.header.flags, event.status)
        found = query(event.statement, session, self._server, self._charset_of)
        kind = found.statement.kind
        if kind in (Kind.DDL, Kind.UNKNOWN) or (kind is Kind.DML and found.statement.opaque):
            outcomes = self._history.read(found, self._place)
            self._statements += 1
            self._history.add(outcomes, self._place, 0)
            self._known.clear()

    def _lose(self, why: str) -> None:
        self._statements += 1
        self._history.forget_all(why, self._place, 0)
        self._known.clear()
