"""Read a part of the source's binlog again into a separate journal, as the reader did the first time."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pymysql.connections import Connection

from relay._native import Ingest, JournalReader, JournalWriter
from relay.base.errors import RelayError, StopCode
from relay.base.log import Log
from relay.binlog.dump import open_dump
from relay.binlog.events.compression import zstd_parts
from relay.binlog.events.position import BinlogPosition
from relay.config.tree import Config
from relay.ingest import reading, resume
from relay.ingest.assumptions import Assumptions
from relay.ingest.hosts import Sources
from relay.ingest.left_out import StatementCounts
from relay.ingest.reader_state import ReaderState
from relay.journal import frames
from relay.repair.layout import Wanted, contexts
from relay.repair.survey import State
from relay.schema.facts import Unreadable
from relay.schema.store import SCHEMA_FILE, Store, rename_damaged
from relay.source import facts
from relay.source.facts import ServerFacts
from relay.source.failures import SourceLost

_CHUNK: Final = 1 << 20
_POLL_SECONDS: Final = 0.5
_SILENT_SECONDS: Final = 30.0
_OPERATION: Final = "read the damaged part again"


def reread(config: Config, begin: State, before: State, end: int, folder: Path, log: Log) -> list[Wanted]:
    """Return what the binlog has after `before`: enough to reach the journal position `end`, or everything it has.

    Reading starts at `begin`, so that definitions come where they came the first time. `folder` is an empty folder for
    temporary files; nothing else is written. Raises `RelayError`, with the source's reason if it no longer has that
    part.
    """
    data_dir = Path(config.relay.data_dir)
    _copy(data_dir / "state.db", folder / "state.db")
    sources = Sources(config, log)
    with closing(ReaderState(folder / "state.db")) as reader_state, closing(_history(data_dir, folder)) as store:
        try:
            connected = sources.connect()
            writer = _read(config, sources, connected, (reader_state, store), begin, end - begin.position, folder, log)
        except SourceLost as lost:
            raise lost.failure(_OPERATION, sources.host) from lost
        finally:
            sources.close()
    return _after(before, begin, _wanted(folder / "journal", writer))


def _after(before: State, begin: State, wanted: list[Wanted]) -> list[Wanted]:
    """Return the frames after `before`; `wanted` begins after `begin`."""
    for number, (state, sequence) in enumerate(contexts(begin, wanted)):
        if (state.binlog, state.gtid_set, sequence) == (before.binlog, before.gtid_set, before.sequence):
            return wanted[number:]
    return []


def _history(data_dir: Path, folder: Path) -> Store:
    """Open a copy of the schema history. If the copy is unusable, open an empty one: the relay rebuilds it."""
    copy = folder / SCHEMA_FILE
    try:
        if (data_dir / SCHEMA_FILE).exists():
            _copy(data_dir / SCHEMA_FILE, copy)
        store = Store(copy)
        store.verify()
    except (sqlite3.DatabaseError, Unreadable):
        rename_damaged(copy)
        store = Store(copy)
    return store


def _copy(path: Path, copy: Path) -> None:
    """Copy a database: definitions keep their numbers, and new entries do not change the original."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def _read(
    config: Config,
    sources: Sources,
    connected: tuple[Connection[Any], ServerFacts],
    known: tuple[ReaderState, Store],
    begin: State,
    size: int,
    folder: Path,
    log: Log,
) -> JournalWriter:
    connection, server = connected
    reader_state, store = known
    try:
        if server.identity != begin.identity:
            cause = f"the journal comes from {begin.identity}, this is {server.identity} with another binlog"
            raise RelayError(StopCode.WRONG_SOURCE, _OPERATION, cause, position=sources.host)
        status = facts.binlog_position(connection, server)
        end = BinlogPosition(status.file, status.position)
        writer = JournalWriter(folder / "journal", 4 * size + (16 << 20))
        writer.source(begin.binlog.position, begin.binlog.file, begin.gtid_set, begin.identity)
        ingest = Ingest(writer, folder / "journal", zstd_parts)
        assumptions = Assumptions(reader_state, writer, folder / "journal", log)
        handler = reading.make_handler(
            config, ingest, writer, reader_state, store, sources, connected, StatementCounts(log), assumptions, log, {}
        )
        where = resume.JournalEnd(begin.binlog.file, begin.binlog.position, begin.gtid_set, begin.identity)
        start = resume.plan(where, server, resume.LowPosition(reader_state))
        ingest.start(start.file, start.position, start.by_gtid)
        server_id = reading.server_id(config, reader_state)
        request = reading.dump_request(start, server, server_id, config)
        dump = open_dump(connection, server.mariadb, request, _POLL_SECONDS)
    finally:
        if connection.open:
            connection.close()
    began, heard = writer.committed(), time.monotonic()
    with closing(dump):
        while writer.committed() - began < 2 * size + _CHUNK and BinlogPosition(ingest.file, ingest.position) < end:
            received = dump.receive(ingest.buffer(_CHUNK))
            if received:
                heard = time.monotonic()
                ingest.received(received)
            elif time.monotonic() - heard > _SILENT_SECONDS:
                raise SourceLost("read the binlog: no event arrived")
            while (attention := ingest.step()) is not None:
                handler.handle(attention)
            handler.resolve_proven()
    return writer


def _wanted(folder: Path, writer: JournalWriter) -> list[Wanted]:
    """Return the published frames; a definition is not one of them, but belongs to its rows."""
    reader = JournalReader(folder)
    found = list[Wanted]()
    fresh = False
    for _, payload in reader.frames(writer.first(), writer.committed()):
        frame = frames.decode(payload)
        if isinstance(frame, frames.Rows):
            found.append(Wanted(payload, frame, _definition(reader, frame.table), fresh))
        elif not isinstance(frame, frames.Table | frames.Source):
            found.append(Wanted(payload, frame))
        fresh = isinstance(frame, frames.Table)
    return found


def _definition(reader: JournalReader, position: int) -> bytes:
    while True:
        table = frames.decode(reader.frame(position)[1])
        assert isinstance(table, frames.Table)
        if not table.link:
            return table.definition
        position = table.link
