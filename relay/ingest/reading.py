"""Make the objects that read a source's binlog into a journal, and the request for the stream.

The reader uses them, and `relay repair` for events that it reads again.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from pymysql.connections import Connection

from relay._native import GtidSet, Ingest, JournalWriter
from relay.base.log import Log
from relay.binlog.dump import Request
from relay.binlog.replication import Flag
from relay.config.tree import Config
from relay.ddl.syntax import TableName
from relay.ingest.assumptions import Assumptions
from relay.ingest.definitions import Definitions, PendingDefinition
from relay.ingest.handler import IngestHandler, Policy
from relay.ingest.hosts import Sources
from relay.ingest.left_out import StatementCounts
from relay.ingest.reader_state import ReaderState
from relay.ingest.resume import Start, parse_start
from relay.ingest.rules import Rules
from relay.schema import restore
from relay.schema import store as stores
from relay.schema.facts import SKIPPED, Unreadable
from relay.schema.history import History
from relay.schema.store import SCHEMA_FILE, Store
from relay.source import facts
from relay.source.facts import BinlogStatus, ServerFacts


def start_position(config: Config, connection: Connection[Any], server: ServerFacts) -> BinlogStatus:
    """Where `StartPosition` begins on this server."""
    wanted = config.source.start_position
    if wanted == "newest":
        return facts.binlog_end(connection, server)
    if wanted == "oldest":
        return facts.binlog_start(connection, server)
    start = parse_start(wanted)
    if not start.file:
        return start
    return BinlogStatus(start.file, start.position, facts.gtid_at(connection, server, start.file, start.position))


def server_id(config: Config, reader_state: ReaderState) -> int:
    """Return the configured server id, or one chosen at random once and stored."""
    kept = reader_state.get("server_id")
    if not config.source.server_id and not kept:
        kept = str(secrets.randbelow(2**31 - 10_000) + 10_000)
        reader_state.put("server_id", kept)
    return config.source.server_id or int(kept)


def make_handler(
    config: Config,
    ingest: Ingest,
    writer: JournalWriter,
    reader_state: ReaderState,
    store: Store,
    sources: Sources,
    connected: tuple[Connection[Any], ServerFacts],
    passed_over: StatementCounts,
    assumptions: Assumptions,
    log: Log,
    pending: dict[int, PendingDefinition],
) -> IngestHandler:
    """Return the handler of an ingest, by the configuration; `pending` is what an earlier stream left pending."""
    connection, server = connected
    charset_of = facts.collations(connection)

    def query_table(table: TableName) -> None:
        store.put_replies([sources.query_table(table)])

    definitions = Definitions(
        reader_state,
        history(store, log),
        rules(config),
        charset_of,
        query_table,
        log,
        assumptions=assumptions,
        incomplete_types=server.mariadb,
        names_expected=server.names_columns,
        stop_at_assumed=config.relay.on_assumed_charset == "stop",
        pending=pending,
    )
    policy = Policy(config.relay.on_unknown == "skip", config.relay.on_partial_image == "send")
    return IngestHandler(ingest, writer, definitions, store, charset_of, policy, passed_over, log)


def open_store(data_dir: Path, writer: JournalWriter, reader_state: ReaderState, log: Log) -> Store:
    """Open the schema history in that folder and bring it to the journal's end. Damaged parts are rebuilt.

    Raises `JournalError`, `sqlite3.Error`, `RelayError`.
    """
    path = data_dir / SCHEMA_FILE
    try:
        found = Store(path)
        known = history(found, log)
        for table, error in found.verify().items():
            known.forget_damaged(table, error)
        if restore.is_lost(found, writer, reader_state.is_of_earlier_release):
            log("schema_damaged", table="*", file=path, cause="it is missing or empty")
    except Unreadable as unreadable:
        discard_damaged(path, unreadable, log)
        found = Store(path)
    restore.restore(found, writer, data_dir / "journal", reader_state.earlier_proofs, reader_state.get(SKIPPED))
    reader_state.forget_earlier_proofs()
    return found


def discard_damaged(path: Path, error: Unreadable, log: Log) -> None:
    """Rename the file of a damaged schema history. A new one is built from journal and source."""
    log("schema_damaged", table="*", file=path, cause=error)
    stores.rename_damaged(path)


def history(store: Store, log: Log) -> History:
    """Return the schema history in a store."""
    return History(store, lambda table, error: log("schema_damaged", table=table, file=store.path, cause=error))


def rules(config: Config) -> Rules:
    """Return the exclusions of the configuration."""
    source = config.source
    return Rules(source.tables, source.exclude_tables, source.exclude_columns, config.relay.on_unknown == "skip")


def dump_request(start: Start, server: ServerFacts, server_id: int, config: Config) -> Request:
    """Return the request for a stream that begins at `start`."""
    return Request(
        server_id=server_id,
        file=start.file,
        position=start.position,
        by_gtid=start.by_gtid,
        gtid_set=start.gtid_set,
        encoded_set=GtidSet(start.gtid_set).encode() if start.by_gtid and not server.mariadb else b"",
        heartbeat_seconds=config.source.heartbeat_seconds,
        # MariaDB sends annotations only on request. Since 11.4, positions in a transaction are computed from the events
        # that are sent: without annotations, those of its rows would be too low.
        flags=Flag.SEND_ANNOTATE_ROWS if server.mariadb else 0,
    )
