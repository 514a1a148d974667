"""Reads a stretch of the source's binlog again, into a journal of its own, as the reader did the first time."""

from __future__ import annotations

import secrets
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pymysql.connections import Connection

from relay._native import Ingest, JournalReader, JournalWriter
from relay.binlog import facts, reading, resume
from relay.binlog.catalog import Catalog
from relay.binlog.compression import zstd_parts
from relay.binlog.dump import open_dump
from relay.binlog.facts import ServerFacts
from relay.binlog.failures import SourceLost
from relay.binlog.place import Place
from relay.binlog.sources import Sources
from relay.config import Config
from relay.errors import ErrorCode, RelayError, StopCode
from relay.journal import frames
from relay.log import Log
from relay.repair.layout import Wanted
from relay.repair.survey import State
from relay.schema.facts import Unreadable
from relay.schema.store import SCHEMA_FILE, Store, put_aside

_CHUNK: Final = 1 << 20
_POLL_SECONDS: Final = 0.5
_SILENT_SECONDS: Final = 30.0
_OPERATION: Final = "read the damaged part again"


def reread(config: Config, begin: State, before: State, end: int, folder: Path, log: Log) -> list[Wanted]:
    """What the binlog has behind `before`, enough to reach the journal position `end`, or all there is.

    It is read from `begin` on, so that definitions are told where the reader told them.

    `folder` is empty, and for what is needed meanwhile; nothing else is written. Raises `RelayError`, with the
    source's reason where it has none of it any more.
    """
    data_dir = Path(config.relay.data_dir)
    _copy(data_dir / "state.db", folder / "state.db")
    sources = Sources(config, log)
    with closing(Catalog(folder / "state.db")) as catalog, closing(_history(data_dir, folder)) as store:
        try:
            connected = sources.connect()
            writer = _read(config, sources, connected, (catalog, store), begin, end - begin.position, folder, log)
        except SourceLost as lost:
            raise RelayError(ErrorCode.SOURCE_UNREACHABLE, _OPERATION, str(lost), position=sources.host) from lost
        finally:
            sources.close()
    return _behind(before, begin, _wanted(folder / "journal", writer))


def _behind(before: State, begin: State, wanted: list[Wanted]) -> list[Wanted]:
    state = begin
    for number, each in enumerate(wanted):
        if (state.place, state.gtid_set, state.sequence) == (before.place, before.gtid_set, before.sequence):
            return wanted[number:]
        match each.frame:
            case frames.Rows():
                state = state._replace(sequence=state.sequence + each.frame.rows)
            case frames.Ddl():
                state = state._replace(sequence=state.sequence + 1)
            case _:
                sequence = state.sequence
                state = (state.after(each.frame, 0) or state)._replace(sequence=sequence)
    return []


def _history(data_dir: Path, folder: Path) -> Store:
    """A copy of the schema history; an empty one where that cannot be relied on: the relay makes it anew."""
    copy = folder / SCHEMA_FILE
    try:
        if (data_dir / SCHEMA_FILE).exists():
            _copy(data_dir / SCHEMA_FILE, copy)
        store = Store(copy)
        store.verify()
    except (sqlite3.DatabaseError, Unreadable):
        put_aside(copy)
        store = Store(copy)
    return store


def _copy(path: Path, copy: Path) -> None:
    """Definitions keep their numbers that way, and what is learnt now changes nothing."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def _read(
    config: Config,
    sources: Sources,
    connected: tuple[Connection[Any], ServerFacts],
    known: tuple[Catalog, Store],
    begin: State,
    size: int,
    folder: Path,
    log: Log,
) -> JournalWriter:
    connection, server = connected
    catalog, store = known
    try:
        if server.identity != begin.identity:
            cause = f"the journal was read from {begin.identity}, this is {server.identity}: its binlog is another one"
            raise RelayError(StopCode.WRONG_SOURCE, _OPERATION, cause, position=sources.host)
        status = facts.binlog_position(connection, server)
        end = Place(status.file, status.position)
        writer = JournalWriter(folder / "journal", 4 * size + (16 << 20))
        writer.source(begin.place.position, begin.place.file, begin.gtid_set, begin.identity)
        ingest = Ingest(writer, folder / "journal", zstd_parts)
        answers = reading.answers(config, ingest, writer, catalog, store, sources, connected, log, {})
        where = resume.Known(begin.place.file, begin.place.position, begin.gtid_set, begin.identity)
        start = resume.plan(where, server, resume.LowPlace(catalog))
        ingest.start(start.file, start.position, start.by_gtid)
        server_id = config.source.server_id or int(catalog.get("server_id") or secrets.randbelow(2**31) + 1)
        request = reading.request(start, server, server_id, config)
        dump = open_dump(connection, server.mariadb, request, _POLL_SECONDS)
    finally:
        if connection.open:
            connection.close()
    began, heard = writer.committed(), time.monotonic()
    with closing(dump):
        while writer.committed() - began < 2 * size + _CHUNK and Place(ingest.file, ingest.position) < end:
            received = dump.receive(ingest.buffer(_CHUNK))
            if received:
                heard = time.monotonic()
                ingest.received(received)
            elif time.monotonic() - heard > _SILENT_SECONDS:
                raise SourceLost("read the binlog: nothing came")
            while (attention := ingest.step()) is not None:
                answers.answer(attention)
            answers.passed()
    return writer


def _wanted(folder: Path, writer: JournalWriter) -> list[Wanted]:
    """What is published, but for definitions on their own."""
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
