"""`relay tail` without a running relay: events from the source, or from binlog files."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from pymysql.connections import Connection

from relay.base.errors import ErrorCode
from relay.base.log import logger
from relay.binlog import BinlogError, BinlogFile, Flag, Replication, Stream
from relay.binlog.decoder import LearnedDefinitions
from relay.binlog.eventstream import EventStream
from relay.commands.text.events import Form, lines
from relay.config.tree import Config
from relay.ingest import resume
from relay.ingest.hosts import Sources
from relay.ingest.statements import defined_between
from relay.schema import source_tables
from relay.schema.stream_history import AssumedCharset
from relay.schema.table import Unknown
from relay.source import facts
from relay.source.connect import Account
from relay.source.facts import BinlogStatus, ServerFacts
from relay.source.failures import SourceLost

_ATTEMPTS = 5  # to read definitions that no statement changes meanwhile
_SHOWN = 100  # characters of a statement in a note


def from_source(config: Config, start: str, to_end: bool, form: Form, note: Callable[[str], None]) -> Iterator[str]:
    """Events of the source as lines, from `start` on: oldest, newest, FILE:POS or a GTID set.

    With `to_end` it stops at the end of the binlog, else never. Assumed character sets are reported to `note`. Raises
    `RelayError`; if the connection to the source is lost, the hint has the position to continue from.
    """
    with _opened(config, start, to_end, form, note) as stream:
        try:
            yield from _noting(stream, form, set(), note)
        except BinlogError as error:
            if error.code is ErrorCode.SOURCE_UNREACHABLE:
                here = stream.replication
                error.hint = f"continue with --from {here.file_name}:{here.start_position}"
            raise


def from_files(paths: Sequence[Path], form: Form, note: Callable[[str], None]) -> Iterator[str]:
    """Events of binlog files, in the given order, as lines. Raises `RelayError`.

    Table definitions from a file also apply to the next file if that is its successor. An incomplete last event is not
    an error; it is reported to `note`, and so is each character set that is assumed, and what contradicts it.
    """
    before: BinlogFile | None = None
    noted = set[str]()
    for path in paths:
        follows = before is not None and before.next_file == path.name
        with BinlogFile(path, decoder=before.decoder if before and follows else None, values=form.values) as log:
            yield from _noting(log, form, noted, note, f"{path}: ")
            before = log
            if log.incomplete:
                end = log.replication.position
                note(f"{path}:{end}: the last event is incomplete: the file is still being written, or is truncated")


def _noting(
    stream: EventStream, form: Form, noted: set[str], note: Callable[[str], None], where: str = ""
) -> Iterator[str]:
    """Events as lines. Each assumed character set, and what contradicts it, is reported if it is not in `noted`."""
    for line in chain(lines(stream, form), [""]):
        for text in _about(stream.decoder.assumed_charsets):
            if text not in noted:
                noted.add(text)
                note(where + text)
        if line:
            yield line


def _about(assumed: Mapping[str, AssumedCharset]) -> Iterator[str]:
    for schema, each in assumed.items():
        subject = f"the character set of the schema {schema}"
        yield f"{subject} is assumed to be {each.charset}: {_short(each.statement)}"
        if each.contradicted:
            yield f"{subject} was assumed to be {each.charset}, and may be another: {_short(each.contradicted)}"


def _short(statement: str) -> str:
    text = " ".join(statement.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


@contextmanager
def _opened(config: Config, start: str, to_end: bool, form: Form, note: Callable[[str], None]) -> Iterator[Stream]:
    try:
        connection, server, account = _connected(config)
        definitions: LearnedDefinitions = []
        if start == "oldest":
            position = facts.binlog_start(connection, server)
        elif start == "newest" and not form.rows:
            position = facts.binlog_end(connection, server)
        elif start == "newest":
            position, definitions = _current_definitions(connection, server, account, form, note)
        else:
            position = resume.parse_start(start)
    except SourceLost as lost:
        raise lost.failure("tail") from lost
    flags = Flag.SKIP_HEARTBEAT | (Flag.NON_BLOCK if to_end else Flag(0)) | (Flag(0) if position.file else Flag.GTID)
    wanted = Replication(
        file_name=position.file,
        start_position=position.position,
        # Not the relay's own id, which may be in use. A random one, so that several commands can run at once.
        server_id=0 if to_end else 2**31 + secrets.randbelow(2**31),
        flags=flags | (Flag.SEND_ANNOTATE_ROWS if server.mariadb else Flag(0)),
        gtid_set=position.gtid_set,
    )
    with connection, Stream(connection, wanted, values=form.values) as stream:
        stream.decoder.learn(definitions)
        yield stream


def _connected(config: Config) -> tuple[Connection[Any], ServerFacts, Account]:
    """Connect to the first host of the source that replies. Raises `SourceLost` if none does, or `RelayError`."""
    sources = Sources(config, logger("tail"))
    for _ in config.server.ip_addr[1:]:
        with suppress(SourceLost):
            return *sources.connect(), sources.account
    return *sources.connect(), sources.account


def _current_definitions(
    connection: Connection[Any], server: ServerFacts, account: Account, form: Form, note: Callable[[str], None]
) -> tuple[BinlogStatus, LearnedDefinitions]:
    """Return the end of the binlog, and the definitions there of the tables that are shown.

    Raises `SourceLost`, `RelayError`.
    """

    def progress(done: int, of: int) -> None:
        if done == source_tables.AT_A_TIME < of:
            note(f"reading the definitions of {of:,} tables")

    source_tables.prepare(connection, server)
    for _ in range(_ATTEMPTS):
        found = [each for some in source_tables.query_all(connection, server, form.shows, progress) for each in some]
        begin, end = found[0].asked, found[-1].until
        if not defined_between(account, begin, end):
            for table in (each.table for each in found if isinstance(each.state, Unknown)):
                note(f"the columns of {table} are not known: grant SELECT on it, or set binlog_row_metadata = FULL")
            return BinlogStatus(end.file, end.position), [
                (each.table, each.state) for each in found if each.table.schema
            ]
    note("the columns of tables are not known: other sessions change tables all the time")
    return BinlogStatus(end.file, end.position), []
