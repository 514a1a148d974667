"""The rows of a server as they change, from where a file says on: what most readers of a binlog want.

for change in changes(host="db.example", user="reader", password="...", tables="shop.*", resume="shop.pos"):
    print(change.kind, change.table, change.after)
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec
import pymysql
from pymysql.connections import Connection

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.base.retrying import pauses
from relay.binlog import position_file
from relay.binlog.events import (
    Event,
    GtidEvent,
    MariadbGtidEvent,
    RowsEvent,
    TableMapEvent,
    TransactionPayloadEvent,
)
from relay.binlog.position_file import Position
from relay.binlog.replication import Flag, Replication
from relay.binlog.rowvalues import Values
from relay.binlog.stream import SILENCE_SECONDS, Stream, lost_error
from relay.protocol import debezium
from relay.source.commands import FIRST_POSITION
from relay.source.connect import classify_driver_error
from relay.source.errors import BinlogError
from relay.source.facts import ServerFacts, binlog_end, binlog_start, query_facts
from relay.source.failures import SourceLost

_CONNECT: Final = "follow the binlog"
_SAVE_SECONDS: Final = 0.1  # between two saves while more events wait
_IDLE_SAVE_SECONDS: Final = 10.0  # between two saves while no row is of the wanted tables
_LEAVE_SECONDS: Final = 10.0  # to wait for the end of a transaction when the program leaves
_GTID_EVENTS: Final = (GtidEvent, MariadbGtidEvent)
_FIRST_OWN_ID: Final = 1 << 31


class Change(msgspec.Struct, frozen=True, gc=False):
    """A changed row. `before` is None for an insert, `after` for a delete; both map column names to values."""

    kind: Literal["insert", "update", "delete"]
    schema: str
    table: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    file: str
    position: int
    """Where the row's event ends in the file."""
    gtid: str
    """Of the transaction; "" if the server has none."""
    timestamp: int
    """When the statement began, in seconds since 1970."""

    @property
    def time(self) -> datetime:
        """When the statement began, in UTC."""
        return datetime.fromtimestamp(self.timestamp, UTC)

    def debezium(self, name: str = "relay") -> dict[str, Any]:
        """Return the row in Debezium's envelope; `name` is that of the source. It needs `values="python"`."""
        source = {
            "name": name,
            "db": self.schema,
            "table": self.table,
            "ts_ms": self.timestamp * 1000,
            "gtid": self.gtid or None,
            "file": self.file,
            "pos": self.position,
        }
        return debezium.envelope(self.before, self.after, source, time.time_ns() // 1_000_000)


class Changes:
    """An iterator over `Change`, for `for` and for `async for`, and a context manager. `changes` makes it."""

    def __init__(
        self,
        tables: Iterable[str],
        resume: Path | None,
        start: Literal["newest", "oldest"],
        values: Values,
        server_id: int,
        patience: float,
        options: dict[str, Any],
    ) -> None:
        self._patterns = [_pattern(table) for table in tables]
        self._wanted: dict[tuple[str, str], bool] = {}
        self._resume, self._start, self._values = resume, start, values
        self._server_id = server_id or _FIRST_OWN_ID + secrets.randbelow(_FIRST_OWN_ID)
        self._patience = patience
        self._options = options
        self._connection: Connection[Any] | None = None
        self._stream: Stream | None = None
        self._events: Iterator[Event] = iter(())
        self._server = ""  # its identity
        self._has_gtids = False  # the position has all GTIDs before it
        self._gtid = ""  # of the current transaction
        self._rows: deque[Change] = deque()  # of the last event, not given yet
        self._position: Position | None = None  # the end of the last transaction whose rows were all left
        self._given = False  # rows after that position were given
        self._moved = self._unsaved = False  # the position is not saved; and rows before it were given
        self._saved_at = 0.0
        self._working: asyncio.Future[Any] | None = None  # work in a thread, which goes on when a call is cancelled

    def __enter__(self) -> Self:
        """Connect, which is where a first start at the newest event begins. Raises `RelayError`."""
        try:
            self._open()
        except SourceLost as lost:
            raise lost_error(lost) from lost
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Save the position of the last transaction whose rows were all given, unless there was an exception; close."""
        try:
            if kind is None:
                until = time.monotonic() + _LEAVE_SECONDS
                while (stream := self._unfinished()) and (stream.ready() or time.monotonic() < until):
                    if stream.ready() or stream.receive():
                        self._read(stream)
                self._save_if_left()
        except BinlogError:
            self._save_if_left()
        finally:
            self.close()

    async def __aenter__(self) -> Self:
        """Connect, as in a `with` block."""
        await self._in_thread(self.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As when a `with` block is left."""
        with suppress(RelayError, SourceLost):  # of a call that was cancelled
            await self._in_thread(None)
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def close(self) -> None:
        """Close the connection. The position is not saved: the rows since the last save come again."""
        connection, self._connection, self._stream = self._connection, None, None
        if connection is not None:
            connection.close()

    def __iter__(self) -> Iterator[Change]:
        """Return this iterator."""
        return self

    def __next__(self) -> Change:
        """Return the next row. Raises `RelayError`."""
        waits: Iterator[float] | None = None
        while not self._rows:
            try:
                stream = self._stream or self._open()
                if self._should_save(stream):
                    self._save()
                self._read(stream)
                waits = None
            except (SourceLost, BinlogError) as error:
                waits = waits or pauses(self._patience)
                time.sleep(self._pause_after(error, waits))
        return self._rows.popleft()

    def __aiter__(self) -> AsyncIterator[Change]:
        """Return this iterator."""
        return self

    async def __anext__(self) -> Change:
        """Return the next row. It may be cancelled: the next call continues. Raises `RelayError`."""
        waits: Iterator[float] | None = None
        while not self._rows:
            try:
                await self._in_thread(None)
                stream = self._stream or await self._in_thread(self._open)
                if self._should_save(stream):
                    await self._in_thread(self._save)
                while not stream.ready():
                    if not stream.receive(wait=False):
                        await _readable(stream.fileno())
                self._read(stream)
                waits = None
                await asyncio.sleep(0)  # other tasks run, however fast events come
            except (SourceLost, BinlogError) as error:
                waits = waits or pauses(self._patience)
                await asyncio.sleep(self._pause_after(error, waits))
        return self._rows.popleft()

    async def _in_thread(self, work: Callable[[], Any] | None) -> Any:
        """Return the result of work in a thread. It outlives this call if that is cancelled; the next call waits."""
        if work is not None:
            self._working = asyncio.get_running_loop().run_in_executor(None, work)
        if (working := self._working) is None:
            return None
        await asyncio.wait({working})
        self._working = None
        return working.result()

    def _open(self) -> Stream:
        """Connect, and begin at the position. Raises `SourceLost` or `RelayError`."""
        try:
            self._connection = connection = pymysql.connect(**self._options)
        except pymysql.MySQLError as error:
            raise classify_driver_error(error, _CONNECT) from error
        try:
            facts = query_facts(connection)
            if not facts.names_columns:
                raise RelayError(
                    StopCode.SCHEMA_UNPROVEN, _CONNECT, "the server's binlog has no names of columns",
                    hint="SET GLOBAL binlog_row_metadata = FULL, and keep it in the server's configuration",
                )  # fmt: skip
            stream = Stream(connection, self._description(connection, facts), values=self._values)
            stream.open()
        except BaseException:
            self.close()
            raise
        self._server, self._gtid = facts.identity, ""
        self._stream, self._events = stream, iter(stream)
        return stream

    def _description(self, connection: Connection[Any], facts: ServerFacts) -> Replication:
        """Return where to begin: after what was read before, or at the position of the file."""
        if self._position is None and self._resume is not None:
            self._position = position_file.load(self._resume)
            self._has_gtids = self._position is not None and self._position.gtid_set != ""
        if self._position is None:
            begin = (binlog_end if self._start == "newest" else binlog_start)(connection, facts)
            self._has_gtids = facts.has_gtids
            gtid_set = begin.gtid_set if self._has_gtids else ""
            self._position = Position(facts.identity, begin.file, begin.position, gtid_set)
            self._save()  # else a program that is started again before the first row would miss it
        at = self._position
        if at.gtid_set and facts.has_gtids:  # also on the same server: it notices that its binlog was restarted
            return Replication("", FIRST_POSITION, self._server_id, Flag.GTID, at.gtid_set)
        if at.server == facts.identity:
            return Replication(at.file, at.offset, self._server_id, 0, at.gtid_set)
        raise RelayError(
            StopCode.WRONG_SOURCE, _CONNECT, f"the position is of {at.server}, and this is {facts.identity}",
            position=str(self._resume or ""),
            hint="connect to that server, or delete the file to begin at the newest event",
        )  # fmt: skip

    def _read(self, stream: Stream) -> None:
        """Take one event, and the rows in it. Every row before was left. Raises `RelayError`."""
        try:
            event = next(self._events, None)
            if event is None:
                raise lost_error("read the binlog: the server ended the stream")
            for one in event.events if isinstance(event, TransactionPayloadEvent) else (event,):
                if isinstance(one, _GTID_EVENTS):
                    self._gtid = str(one.gtid)
                elif isinstance(one, RowsEvent) and one.table_map is not None:
                    self._take(stream, one, one.table_map)
        except BaseException:
            self._rows.clear()
            self.close()  # else the position would pass over rows that were not given
            raise

    def _take(self, stream: Stream, event: RowsEvent, table: TableMapEvent) -> None:
        name = table.database, table.table
        if (wanted := self._wanted.get(name)) is None:
            wanted = self._wanted[name] = any(
                fnmatchcase(name[0], schema) and fnmatchcase(name[1], pattern) for schema, pattern in self._patterns
            )
        if not wanted:
            return
        if table.definition is None and any(column.name is None for column in table.columns):
            raise RelayError(
                StopCode.SCHEMA_UNPROVEN, "read the binlog", f"a row of {'.'.join(name)} has no names of columns",
                position=f"{stream.replication.file_name}:{stream.replication.position}",
                hint="it was written without binlog_row_metadata = FULL: begin after it",
            )  # fmt: skip
        place = stream.replication.file_name, stream.replication.position, self._gtid, event.header.timestamp
        for row in stream.rows(event):
            kind: Literal["insert", "update", "delete"] = (
                "insert" if row.before is None else "delete" if row.after is None else "update"
            )
            self._rows.append(Change(kind, *name, row.before, row.after, *place))
        self._given = True

    def _advance(self) -> bool:
        """Note the last complete transaction, all of whose rows were left. Returns whether that is not saved."""
        if self._stream is not None and (at := self._stream.replication).file_name:
            gtid_set, last = at.gtid_set if self._has_gtids else "", self._position
            if gtid_set and last is not None and gtid_set == last.gtid_set:
                return self._moved  # between transactions
            position = Position(self._server, at.file_name, at.start_position, gtid_set)
            if position != last:
                self._position, self._moved = position, True
                self._unsaved |= self._given
                self._given = False
        return self._moved

    def _unfinished(self) -> Stream | None:
        """Return the stream if the end of the transaction of the last row is to come, and no further row is known."""
        self._advance()
        return self._stream if self._given and not self._rows else None

    def _save_if_left(self) -> None:
        if not self._rows and self._advance():
            self._save()

    def _should_save(self, stream: Stream) -> bool:
        """Whether to save the position before the next event is read: not with every one while many wait."""
        if not self._advance() or self._resume is None:
            return False
        since = time.monotonic() - self._saved_at
        if since > (_SAVE_SECONDS if self._unsaved else _IDLE_SAVE_SECONDS):
            return True
        try:
            return self._unsaved and not stream.ready() and not stream.receive(wait=False)
        except BinlogError:  # reading reports it, after the position of what came before is on disk
            return True

    def _save(self) -> None:
        if self._resume is not None and self._position is not None:
            position_file.save(self._resume, self._position)
        self._moved = self._unsaved = False
        self._saved_at = time.monotonic()

    def _pause_after(self, error: SourceLost | BinlogError, waits: Iterator[float]) -> float:
        """Return the seconds to wait before the next attempt. Raises the error if there is none."""
        lost = lost_error(error) if isinstance(error, SourceLost) else error
        connected = bool(self._server)
        self.close()
        if lost.code != ErrorCode.SOURCE_UNREACHABLE or not connected or (pause := next(waits, None)) is None:
            raise lost from error
        return pause


def changes(
    tables: str | Iterable[str] = "*.*",
    resume: str | PathLike[str] | None = None,
    *,
    start: Literal["newest", "oldest"] = "newest",
    values: Values = "python",
    server_id: int = 0,
    patience: float = float("inf"),
    **connection: Any,
) -> Changes:
    """Return the rows of tables, given as SCHEMA.TABLE with `*` for any text, as they change, without end.

    `connection` are PyMySQL's options: host, port, user, password, ssl and so on. The first start begins at the newest
    or the oldest event. `resume` is a file for the position: later starts continue there. The position is saved after
    the block for a transaction's last row has been left, so each row comes at least once. `server_id` must be of no
    other replica (0: a random one). A lost connection is made again for `patience` seconds. The server must have
    binlog_row_metadata = FULL. Iteration raises `RelayError`, and `relay.binlog.BinlogError` for errors of the server.
    """
    if start not in ("newest", "oldest"):
        raise RelayError(ErrorCode.USAGE, _CONNECT, f"start = {start!r} is neither 'newest' nor 'oldest'")
    names = [tables] if isinstance(tables, str) else tables
    path = None if resume is None else Path(resume)
    return Changes(names, path, start, values, server_id, patience, connection)


def _pattern(table: str) -> tuple[str, str]:
    schema, dot, name = table.partition(".")
    if not (schema and dot and name):
        raise RelayError(ErrorCode.USAGE, _CONNECT, f"{table!r} is not SCHEMA.TABLE", hint="for all: '*.*'")
    return schema, name


async def _readable(descriptor: int) -> None:
    """Wait until there are bytes. Raises `BinlogError` if none come, not even a heartbeat."""
    loop = asyncio.get_running_loop()
    there = loop.create_future()

    def wake() -> None:
        if not there.done():
            there.set_result(None)

    loop.add_reader(descriptor, wake)
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            await there
    except TimeoutError:
        raise lost_error(f"read the binlog: no event and no heartbeat for {SILENCE_SECONDS} s") from None
    finally:
        loop.remove_reader(descriptor)
