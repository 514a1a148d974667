"""Decide whether a statement that changed rows is only about tables that nobody can get; count these by table.

Managed servers write such statements about tables of their own, whatever binlog_format is. What a trigger or a stored
function changes is in no statement. MySQL lists the schemas of all changed tables with it, MariaDB does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from relay.base.log import Log
from relay.ddl.syntax import TableName
from relay.ddl.targets import Targets
from relay.ingest.rules import Rules
from relay.runtime.process_status import PassedOver, StatementCount, StatusPage

_SYSTEM: Final = frozenset({"mysql", "sys"})
"""Schemas whose tables change by statements that the relay passes over. Rows of them are journaled if selected."""
_WITHOUT_TRIGGERS: Final = "mysql"
"""The schema whose tables cannot have triggers."""


def doubt(
    targets: Targets | None, updated: Sequence[str] | None, rules: Rules, key: Callable[[str, str], TableName]
) -> str:
    """Why a statement with these targets may have changed a table that clients can get; "" if it certainly did not.

    `updated` are the schemas in which it changed tables: None if the event has no list, empty if the list is too long.
    `key` is the name of a table as the server stores it.
    """
    if targets is None:
        return "the tables that it changes are uncertain"
    tables = sorted(key(*table) for table in targets.tables)
    for table in tables:
        if table.schema not in _SYSTEM and rules.wants(*table):
            return f"it changes {table}"
    if updated is None:
        for table in tables:
            if table.schema != _WITHOUT_TRIGGERS:
                return f"a trigger of {table} may have changed others, and this source does not list their schemas"
        return f"{targets.call} may have changed other tables, and may be a stored function" if targets.call else ""
    if not updated:
        return "it may have changed tables of any schema"
    for schema in updated:
        if schema not in _SYSTEM and not rules.leaves_out(schema):
            return f"the source lists the schema {schema}, of which a trigger or a function may have changed any table"
    if not any(table.schema in updated for table in tables):
        return f"the source reports that it changes other tables, of {', '.join(updated)}"
    return ""


class StatementCounts:
    """Count the statements that the reader passed over, by table, since the relay started."""

    def __init__(self, log: Log, status_page: StatusPage | None = None) -> None:
        """Continue with the numbers of the process before, if they are on the status page."""
        self._log = log
        self._status_page = status_page or StatusPage()
        shown = self._status_page.decode(PassedOver)
        self._tables = {TableName(each.schema, each.table): each for each in shown.tables}
        self._others = shown.others
        self._changed = False

    def add(self, tables: Iterable[TableName], position: str) -> None:
        """Count a statement about these tables; log it if it is the first one about a table."""
        for table in sorted(tables):
            count = self._tables.get(table)
            if count is None:
                count = self._tables[table] = StatementCount(*table)
                self._log("statement_passed_over", table=table, position=position)
            count.statements += 1
            count.position = position
            self._changed = True

    def show(self) -> None:
        """Show the numbers on the status page, if they have changed. Tables that do not fit are shown as a sum."""
        if not self._changed:
            return
        self._changed = False
        tables = sorted(self._tables.values(), key=lambda count: count.statements, reverse=True)
        shown = len(tables)
        while len(content := self._packed(tables, shown)) > self._status_page.capacity:
            shown = shown * 9 // 10
        self._status_page.write(content)

    def _packed(self, tables: Sequence[StatementCount], shown: int) -> bytes:
        others = self._others + sum(count.statements for count in tables[shown:])
        return msgspec.msgpack.encode(PassedOver(list(tables[:shown]), others))
