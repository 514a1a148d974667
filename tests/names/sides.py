"""Two sides of the same transactions: rows in the relay's journal, and the same rows in the replica's binlog."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from relay._native import RowImages
from relay.binlog import BinlogError, events
from relay.binlog.events import table_maps
from relay.binlog.events.collations import CHARSET_OF
from relay.binlog.eventstream import EventStream
from relay.binlog.rowvalues import Row
from relay.journal.frames import Definition
from relay.verify.journal import Journal
from relay.verify.sides import ROWS, Step

POSITIONAL: Final = "@1"


class Run(NamedTuple):
    """Consecutive rows of one transaction, table and kind (1 insert, 2 update, 4 delete).

    `values` has the number of values and the sum of their CRCs by column name. A sum, because a replica may change
    rows without a key in another order. `first` is the text of the first row.
    """

    table: tuple[str, str]
    kind: int
    rows: int
    names: tuple[str, ...]
    proven: bool
    values: dict[str, tuple[int, int]]
    first: str


class Transaction(NamedTuple):
    """Rows that were committed together."""

    gtid: str
    runs: list[Run]


class JournalSide:
    """The transactions in the relay's journal."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder)
        ((self._last, _),) = self._journal.segments()[:1]
        self._step: Step | None = None

    def transactions(self) -> Iterator[Transaction]:
        """The transactions with rows since the last call. Raises `RelayError`."""
        for step in self._journal.steps(self._step or self._last):
            assert not step.lost, step.lost
            runs: list[Run] = []
            for each in self._journal.rows(step) if step.rows else ():
                definition = each.table.definition
                proven = definition.proven and definition.columns[0].name != POSITIONAL
                images = RowImages(_without_displays(definition), each.kind, each.body)
                rows = msgspec.msgpack.decode(images.pack("text"), type=list[Row])
                names = (column.name for column in definition.columns)
                _add(runs, (definition.schema, definition.table), each.kind, names, rows, proven)
            self._step = step
            if runs:
                yield Transaction(step.gtid, runs)


class BinlogSide:
    """The transactions in the replica's binlog, whose table maps have the names. A thread reads them."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._found: deque[Transaction] = deque()
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def new(self) -> Iterator[Transaction]:
        """The transactions with rows since the last call."""
        while self._found:
            yield self._found.popleft()

    def _run(self) -> None:
        try:
            for transaction in self._transactions():
                self._found.append(transaction)
        except BinlogError:
            if not self.closing.is_set():
                raise

    def _transactions(self) -> Iterator[Transaction]:
        gtid, runs = "", list[Run]()
        for event in self._stream:
            match event:
                case events.MariadbGtidEvent():
                    gtid, runs = f"{event.domain_id}-{event.header.server_id}-{event.sequence_nr}", []
                case events.GtidEvent():
                    gtid, runs = f"{event.source_id}:{event.sequence_nr}", []
                case events.RowsEvent():
                    assert event.table_map is not None, "rows without a table map"
                    table = (event.table_map.database, event.table_map.table)
                    names = (column.name or "?" for column in event.table_map.columns)
                    rows = self._stream.rows(event, _told(event.table_map))
                    _add(runs, table, ROWS[event.type], names, rows, proven=True)
                case events.XidEvent() | events.QueryEvent() if runs:
                    yield Transaction(gtid, runs)
                    runs = []


def _told(event: events.TableMapEvent) -> Definition:
    """The definition from the table map alone, so that the reference does not depend on any statement."""
    table_map = table_maps.TableMap(event.table_id, event.database, event.table, event.columns)
    return table_maps.definition(table_map, CHARSET_OF)


def _add(
    runs: list[Run], table: tuple[str, str], kind: int, names: Iterable[str], rows: list[Row], proven: bool
) -> None:
    run = Run(table, kind, 0, tuple(names), proven, {}, repr(rows[0]))
    if runs and (*runs[-1][:2], *runs[-1][3:5]) == (*run[:2], *run[3:5]):
        run = runs.pop()
    for side in (side for row in rows for side in (row.before, row.after) if side is not None):
        for name, value in side.items():
            count, total = run.values.get(name, (0, 0))
            data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "backslashreplace")
            run.values[name] = count + 1, total + crc32(data)
    runs.append(run._replace(rows=run.rows + len(rows)))


def _without_displays(definition: Definition) -> bytes:
    """The packed definition without what events do not contain: ZEROFILL, the digits of FLOAT(M,D), UUID and INET."""
    columns = [msgspec.structs.replace(column, sql_type="") for column in definition.columns]
    return msgspec.msgpack.encode(msgspec.structs.replace(definition, columns=columns))
