"""Executes statements on a server and reads them back from its binlog into a schema history, to compare both.

After each statement information_schema is recorded, and every table gets a row, so that its table map is in the binlog.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pymysql
from pymysql.constants import ER
from pymysql.cursors import Cursor

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay.binlog import Flag, Replication, Stream, events
from relay.binlog.events.position import BinlogPosition
from relay.binlog.events.table_maps import parse
from relay.ddl.dialect import Dialect, version_of
from relay.ddl.syntax import TableName
from relay.schema.columntype import UNKNOWN_CHARSET, column_type
from relay.schema.facts import ANY
from relay.schema.history import History
from relay.schema.matching import mismatch, with_charsets
from relay.schema.queries import Session, query
from relay.schema.store import SCHEMA_FILE, Store
from relay.schema.table import Absent, State, Table, Unknown
from relay.source import facts
from relay.source.connect import Account, connect
from tests.support.waiting import patience

Columns = list[tuple[str, str, str, bool, bool]]
"""Per column: name, COLUMN_TYPE, character set, whether it may be NULL, whether it is in the key."""
_ALTER_BEGUN_OR_UNDONE = events.GtidExtra.START_ALTER | events.GtidExtra.ROLLBACK_ALTER


class Step(NamedTuple):
    """A statement, the end of the binlog after it, and the server's tables at that time."""

    statement: str
    end: BinlogPosition
    tables: dict[TableName, Columns]


class Recording(NamedTuple):
    """What was executed: its beginning in the binlog, and the statements that did not fail."""

    start: BinlogPosition
    steps: list[Step]
    errors: list[str]


class Findings(NamedTuple):
    """The result of a replay: where the history was wrong, and where it reported unknown."""

    wrong: list[str]
    unknown: list[str]


def record(
    server: DatabaseServer, statements: Iterable[str] | Callable[[Cursor], Iterable[str]], schemas: Sequence[str]
) -> Recording:
    """Executes statements in the first of the schemas, which are created again.

    A function yields them one after the other and may use the connection between them. Those that fail are left out.
    """
    steps: list[Step] = []
    errors: list[str] = []
    with (
        closing(server.connect()) as own,
        closing(server.connect()) as other,
        own.cursor() as cursor,
        other.cursor() as looking,
    ):
        looking.execute("SET sql_mode = '', foreign_key_checks = 0")
        looking.execute("SET innodb_lock_wait_timeout = 1")  # seconds; a statement of the corpus may keep rows locked
        if server.kind.mysql:
            looking.execute("SET information_schema_stats_expiry = 0")
        for schema in schemas:
            looking.execute(f"DROP DATABASE IF EXISTS {schema}")
        known = facts.query_facts(other)
        start = facts.binlog_end(other, known)
        looking.execute(f"CREATE DATABASE {schemas[0]}")
        cursor.execute(f"USE {schemas[0]}")
        for statement in statements(cursor) if callable(statements) else statements:
            try:
                _execute(cursor, statement)
            except pymysql.MySQLError as error:
                errors.append(f"{statement}: {error}")
            tables = _listed(looking, schemas)
            for table in tables:
                with suppress(pymysql.MySQLError):
                    looking.execute(f"INSERT INTO `{table.schema}`.`{table.table}` () VALUES ()")
                    looking.execute(f"DELETE FROM `{table.schema}`.`{table.table}`")
            end = facts.binlog_end(other, known)
            steps.append(Step(statement, BinlogPosition(end.file, end.position), tables))
    return Recording(BinlogPosition(start.file, start.position), steps, errors)


def _execute(cursor: Cursor, statement: str) -> None:
    """Executes a statement, again while InnoDB's purge has its table locked, for which NOWAIT does not wait."""
    deadline = time.monotonic() + patience(20)
    while True:
        try:
            cursor.execute(statement)
            return
        except pymysql.OperationalError as error:
            if error.args[0] != ER.LOCK_WAIT_TIMEOUT or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _listed(cursor: Cursor, schemas: Sequence[str]) -> dict[TableName, Columns]:
    cursor.execute(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE, COLUMN_KEY"
        " FROM information_schema.COLUMNS JOIN information_schema.TABLES USING (TABLE_SCHEMA, TABLE_NAME)"
        " WHERE TABLE_SCHEMA IN %s AND TABLE_TYPE <> 'VIEW' ORDER BY 1, 2, ORDINAL_POSITION",
        (list(schemas),),
    )
    found: dict[TableName, Columns] = {}
    for owner, table, name, kind, charset, null, key in cursor.fetchall():
        kind = kind.decode() if isinstance(kind, bytes) else kind
        # MariaDB has a character set for labels that are bytes, MySQL has not.
        charset = "" if charset in (None, "binary") else charset
        found.setdefault(TableName(owner, table), []).append((name, kind, charset, null == "YES", key == "PRI"))
    return found


def replay(server: DatabaseServer, recording: Recording, folder: Path) -> Findings:
    """Reads what was recorded from the binlog into a history, and compares it with the server after each statement."""
    with (
        closing(connect(Account("127.0.0.1", server.port, USER, PASSWORD))) as connection,
        closing(connect(Account("127.0.0.1", server.port, USER, PASSWORD))) as asking,
        closing(Store(folder / SCHEMA_FILE)) as store,
    ):
        charset_of = facts.collations(asking)
        history = History(store, lambda table, error: None)
        history.set_lower_case(0)
        version = facts.query_facts(asking).version
        dialect = Dialect(*version_of(version))
        findings = Findings([], [])
        steps = iter(recording.steps)
        step = next(steps, None)
        description = Replication(
            file_name=recording.start.file, start_position=recording.start.position, flags=Flag.NON_BLOCK,
            server_id=4799,
        )  # fmt: skip
        number, at = 1, recording.start
        with Stream(connection, description) as stream:
            for event in stream:
                end = BinlogPosition(description.file_name, description.position)
                while step and step.end < end and step.end.file == end.file:
                    _compare(store, history, step, dialect, findings)
                    step = next(steps, None)
                if isinstance(event, events.QueryEvent):
                    if (event.status.gtid_flags3 or 0) & _ALTER_BEGUN_OR_UNDONE:
                        continue
                    session = Session(event.database, event.errornr, event.header.flags, event.status)
                    found = query(event.statement, session, version, charset_of)
                    history.add(history.outcomes(found, at), end, number)
                    number += 1
                elif isinstance(event, events.TableMapEvent):
                    seen = parse(description.buffer[20:-4], mariadb=not server.kind.mysql)
                    state = history.state(TableName(event.database, event.table), end)
                    state = with_charsets(state, seen, charset_of)
                    if isinstance(state, Table) and (why := mismatch(seen, state, charset_of, dialect)):
                        findings.wrong.append(f"{event.database}.{event.table}: {why}")
                at = end
        while step:
            _compare(store, history, step, dialect, findings)
            step = next(steps, None)
        return findings


def _compare(store: Store, history: History, step: Step, dialect: Dialect, findings: Findings) -> None:
    known: dict[TableName, State] = {table: history.state(table, step.end) for table in step.tables}
    for table, state in known.items():
        if isinstance(state, Unknown):
            findings.unknown.append(f"{step.statement}: {table}: {state.cause}")
        elif isinstance(state, Absent):
            findings.wrong.append(f"{step.statement}: {table} is there")
        else:
            ours, shown = _described(state, dialect), step.tables[table]
            if any(charset == UNKNOWN_CHARSET for _, _, charset, _, _ in ours):
                findings.unknown.append(f"{step.statement}: {table}: a character set is not known")
                shown = _without_unknown(shown, ours)
            if ours != shown:
                findings.wrong.append(f"{step.statement}: {table}: {ours}, and not {shown}")
    for table in store.tables():
        if table not in known and table != ANY and isinstance(history.state(table, step.end), Table):
            findings.wrong.append(f"{step.statement}: {table} is not there")


def _without_unknown(shown: Columns, ours: Columns) -> Columns:
    """What the server shows, without the character sets that we do not know."""
    if len(shown) != len(ours):
        return shown
    return [
        (name, kind, UNKNOWN_CHARSET if known == UNKNOWN_CHARSET and charset else charset, nullable, key)
        for (name, kind, charset, nullable, key), (_, _, known, _, _) in zip(shown, ours, strict=True)
    ]


def _described(table: Table, dialect: Dialect) -> Columns:
    return [
        (
            column.name,
            column_type(column.type, dialect),
            column.type.charset.replace("binary", ""),
            column.nullable is not False,
            column.name in table.key,
        )
        for column in table.columns
        if not column.implicit
    ]
