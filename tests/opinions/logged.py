"""The corpus as a server executed it: each case in its binlog, and its tables after each statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import Flag, Replication, Stream, events
from relay.binlog.events.position import BinlogPosition
from relay.ddl.syntax import TableName
from relay.schema.queries import Query, Session, query
from relay.source.connect import Account, connect
from relay.source.facts import collations, query_facts
from tests.ddl_corpus import CASES
from tests.support.statement_replay import Findings, Recording, record, replay

SCHEMAS = ("d", "d_2")
Names = dict[TableName, list[str]]
_TWO_PHASES = events.GtidExtra.START_ALTER | events.GtidExtra.ROLLBACK_ALTER


class Step(NamedTuple):
    """Statements of the binlog, and the columns of each table after them."""

    statements: list[Query]
    tables: Names


class Case(NamedTuple):
    """A case of the corpus, and what the relay found in it."""

    name: str
    steps: list[Step]
    ours: Findings


def cases(server: DatabaseServer) -> Iterator[Case]:
    """Execute the cases one by one."""
    for name, statements in CASES[server.name].items():
        recording = record(server, statements, SCHEMAS)
        with TemporaryDirectory() as folder:
            yield Case(name, list(_steps(server, recording)), replay(server, recording, Path(folder)))


def _steps(server: DatabaseServer, recording: Recording) -> Iterator[Step]:
    found = list(_queries(server, recording.start))
    for step in recording.steps:
        ours = [each for end, each in found if end <= step.end]
        found = found[len(ours) :]
        yield Step(ours, {table: [column[0] for column in columns] for table, columns in step.tables.items()})


def _queries(server: DatabaseServer, start: BinlogPosition) -> Sequence[tuple[BinlogPosition, Query]]:
    with closing(connect(Account("127.0.0.1", server.port, USER, PASSWORD))) as connection:
        charset_of, version = collations(connection), query_facts(connection).version
        description = Replication(start.file, start.position, 4798, Flag.NON_BLOCK)
        found = []
        with Stream(connection, description) as stream:
            for event in stream:
                if isinstance(event, events.QueryEvent) and not (event.status.gtid_flags3 or 0) & _TWO_PHASES:
                    session = Session(event.database, event.errornr, event.header.flags, event.status)
                    end = BinlogPosition(description.file_name, description.position)
                    found.append((end, query(event.statement, session, version, charset_of)))
        return found
