"""What reads a source's binlog into a journal is made of: the answers to its questions, and the request for the stream.

The reader has it run for as long as the relay does, `relay repair` for what it has to read again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pymysql.connections import Connection

from relay._native import GtidSet, Ingest, JournalWriter
from relay.binlog import facts
from relay.binlog.answers import Answers, Policy
from relay.binlog.catalog import Catalog
from relay.binlog.definitions import Definitions, Question
from relay.binlog.dump import Request
from relay.binlog.facts import ServerFacts
from relay.binlog.replication import Flag
from relay.binlog.resume import Start
from relay.binlog.rules import Rules
from relay.binlog.sources import Sources
from relay.config import Config
from relay.log import Log
from relay.schema import restore
from relay.schema import store as stores
from relay.schema.facts import SKIPPED, Unreadable
from relay.schema.history import History
from relay.schema.store import SCHEMA_FILE, Store


def answers(
    config: Config,
    ingest: Ingest,
    writer: JournalWriter,
    catalog: Catalog,
    store: Store,
    sources: Sources,
    connected: tuple[Connection[Any], ServerFacts],
    log: Log,
    questions: dict[int, Question],
) -> Answers:
    """What answers an ingest's questions, as the configuration has it; `questions` are those still open."""
    connection, server = connected
    charset_of = facts.collations(connection)
    definitions = Definitions(
        catalog,
        history(store, log),
        rules(config),
        charset_of,
        sources.ask,
        log,
        hidden_types=server.mariadb,
        names_expected=server.names_columns,
        questions=questions,
    )
    policy = Policy(config.relay.on_unknown == "skip", config.relay.on_partial_image == "send")
    return Answers(ingest, writer, definitions, store, charset_of, policy, log)


def store(data_dir: Path, writer: JournalWriter, catalog: Catalog, log: Log) -> Store:
    """The schema history in that folder, as it was where the journal ends. What is damaged of it is made anew.

    Raises `JournalError`, `sqlite3.Error`, `RelayError`.
    """
    path = data_dir / SCHEMA_FILE
    try:
        found = Store(path)
        known = history(found, log)
        for table, error in found.verify().items():
            known.lose(table, error)
        if restore.is_lost(found, writer, catalog.is_earlier):
            log("schema_damaged", table="*", file=path, cause="it is missing, or empty")
    except Unreadable as unreadable:
        put_aside(path, unreadable, log)
        found = Store(path)
    restore.restore(found, writer, data_dir / "journal", catalog.earlier_proofs, catalog.get(SKIPPED))
    catalog.forget_earlier_proofs()
    return found


def put_aside(path: Path, error: Unreadable, log: Log) -> None:
    """Nothing in that schema history can be relied on: the next one is made of what journal and source tell."""
    log("schema_damaged", table="*", file=path, cause=error)
    stores.put_aside(path)


def history(store: Store, log: Log) -> History:
    """The schema history that is kept there."""
    return History(store, lambda table, error: log("schema_damaged", table=table, file=store.path, cause=error))


def rules(config: Config) -> Rules:
    """What the configuration leaves out of the source."""
    source = config.source
    return Rules(source.tables, source.exclude_tables, source.exclude_columns, config.relay.on_unknown == "skip")


def request(start: Start, server: ServerFacts, server_id: int, config: Config) -> Request:
    """What to ask of the source for a stream that begins there."""
    return Request(
        server_id=server_id,
        file=start.file,
        position=start.position,
        by_gtid=start.by_gtid,
        gtid_set=start.gtid_set,
        encoded_set=GtidSet(start.gtid_set).encode() if start.by_gtid and not server.mariadb else b"",
        heartbeat_seconds=config.source.heartbeat_seconds,
        # MariaDB leaves annotations out unless asked, and from 11.4 on positions in a transaction are counted by
        # what comes: without them those of its rows would be too low.
        flags=Flag.SEND_ANNOTATE_ROWS if server.mariadb else 0,
    )
