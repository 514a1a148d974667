"""Two sides of the same transactions: the names of their rows in the relay's journal, and in the replica's binlog."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from relay.binlog import BinlogError, events
from relay.binlog.eventstream import EventStream
from relay.verify.journal import Journal
from relay.verify.sides import ROWS, Step

_UNPROVEN: Final = "@1"


class Named(NamedTuple):
    """Rows that follow each other and have the same names: table, kind (1 insert, 2 update, 4 delete), names."""

    table: tuple[str, str]
    kind: int
    names: tuple[str, ...]
    rows: int

    @property
    def unproven(self) -> bool:
        """Whether the names are none."""
        return self.names[:1] == (_UNPROVEN,)


Rows = list[Named]


class JournalSide:
    """What the relay wrote."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder)
        ((self._last, _),) = self._journal.segments()[:1]
        self._step: Step | None = None

    def transactions(self) -> Iterator[tuple[str, Rows]]:
        """Those that came since the last call, with rows."""
        for step in self._journal.steps(self._step or self._last):
            rows: Rows = []
            if step.rows:
                for each in self._journal.rows(step):
                    names = tuple(column.name for column in each.table.definition.columns)
                    table = (each.table.definition.schema, each.table.definition.table)
                    _add(rows, Named(table, each.kind, names, each.rows))
            self._step = step
            if rows:
                yield step.gtid, rows


class BinlogSide:
    """What the replica wrote, whose table maps tell names; read as it comes."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self.found: deque[tuple[str, Rows]] = deque()

    def run(self) -> None:
        """Read until the stream ends."""
        with suppress(BinlogError):  # its server was stopped
            self._read()

    def _read(self) -> None:
        gtid, rows = "", Rows()
        for event in self._stream:
            match event:
                case events.MariadbGtidEvent():
                    gtid, rows = f"{event.domain_id}-{event.header.server_id}-{event.sequence_nr}", []
                case events.GtidEvent():
                    gtid, rows = f"{event.source_id}:{event.sequence_nr}", []
                case events.RowsEvent():
                    assert event.table_map is not None
                    table = event.table_map
                    names = tuple(column.name or "?" for column in table.columns)
                    count = len(self._stream.rows(event))
                    _add(rows, Named((table.database, table.table), ROWS[event.type], names, count))
                case events.XidEvent() | events.QueryEvent():
                    if rows and (isinstance(event, events.XidEvent) or event.statement == "COMMIT"):
                        self.found.append((gtid, rows))
                        rows = []


def _add(rows: Rows, more: Named) -> None:
    if rows and rows[-1][:3] == more[:3]:
        rows[-1] = more._replace(rows=rows[-1].rows + more.rows)
    else:
        rows.append(more)
