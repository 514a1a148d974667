"""Runs the cases on a server, in one metadata mode, through the relay: binlog, ingest, journal, rendering."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pymysql

from examples.dbserver import DatabaseServer
from relay._native import Attention, JournalReader
from relay.base.log import Log
from relay.errors import RelayError
from relay.ingest.assumptions import Assumptions
from relay.ingest.definitions import Definitions
from relay.ingest.handler import IngestHandler, Policy
from relay.ingest.left_out import StatementCounts
from relay.ingest.reader_state import ReaderState
from relay.ingest.rules import Rules
from relay.journal import frames
from relay.schema import source_tables
from relay.schema.history import History
from relay.schema.store import SCHEMA_FILE, Store
from relay.source import facts
from tests.support.binlogs import Fed, StreamPosition, place, record
from tests.support.random_tables import quoted
from tests.types.case import TableCase
from tests.types.compare import DELETE, INSERT, UPDATE, Change, Frame, ReadColumn, Row, Table, differences

_MODE = "NO_ENGINE_SUBSTITUTION"  # allows dates with zero parts


class Outcome(NamedTuple):
    """The result of a case: what the server prints, the frames with its rows, and the differences (`wrong`).

    `journal` is the folder of the journal with the frames. `selected` are the inserted rows as PyMySQL's objects.
    """

    table: Table
    expected: list[Change]
    selected: list[dict[str, Any]]
    frames: list[Frame]
    wrong: list[str]
    journal: Path


class Tables:
    """The tables of all cases in one database of a server; `run` fills, changes and empties them."""

    def __init__(self, server: DatabaseServer, cases: Iterable[TableCase]) -> None:
        self.server = server
        self.db = f"types_{secrets.token_hex(4)}"
        server.execute(f"CREATE DATABASE {self.db} CHARACTER SET utf8mb4")
        self._session = _Session(server, self.db)
        self._connect = partial(
            server.connect, database=self.db, charset="utf8mb4", init_command="SET time_zone = '+00:00'"
        )
        self.tables = [self._made(number, case) for number, case in enumerate(cases)]

    def close(self) -> None:
        """Drop the database."""
        self._session.execute(f"DROP DATABASE {self.db}")
        self._session.close()

    def run(self, metadata: str, folder: Path) -> list[Outcome]:
        """Run every table with this binlog_row_metadata, and compare the binlog with the server's output."""
        together = [table for table in self.tables if not table.case.alone]
        groups = [together, *([table] for table in self.tables if table.case.alone)]
        with self._session.set((("GLOBAL binlog_row_metadata", metadata),)):
            return [
                outcome for number, tables in enumerate(groups) for outcome in self._run(tables, folder / str(number))
            ]

    def _run(self, tables: Sequence[Table], folder: Path) -> list[Outcome]:
        """Run some tables, and read their changes in one stream."""
        start = place(self.server)
        worked = [self._worked(table) for table in tables]
        found, skipped = _journaled(self.server, start, folder)
        outcomes = []
        for table, (changes, selected) in zip(tables, worked, strict=True):
            of_table = found.get(table.name, [])
            wrong = differences(table, changes, of_table)
            if wrong:
                wrong = [skipped[name] for name in (table.name, "") if name in skipped] + wrong
            outcomes.append(Outcome(table, changes, selected, of_table, wrong, folder))
        return outcomes

    def _made(self, number: int, case: TableCase) -> Table:
        name, session = f"c{number}", self._session
        with session.set(case.settings):
            session.execute(f"CREATE TABLE {name} ({case.columns}) {case.options}")
        listed = session.execute(
            "SELECT COLUMN_NAME, COLUMN_TYPE, COLUMN_KEY FROM information_schema.COLUMNS"
            f" WHERE TABLE_SCHEMA = '{self.db}' AND TABLE_NAME = '{name}' ORDER BY ORDINAL_POSITION"
        )
        columns = [ReadColumn(column.decode(), sql.decode(), key == b"PRI") for column, sql, key in listed]
        hidden = [column for column in case.period or () if column not in {listed.name for listed in columns}]
        columns += [ReadColumn(column, "timestamp", False) for column in hidden]
        return Table(case, name, tuple(columns))

    def _worked(self, table: Table) -> tuple[list[Change], list[dict[str, Any]]]:
        """Fill, change and empty the table. Returns the changes that its events must contain, and what it was."""
        session, case = self._session, table.case
        with session.set(case.settings):
            for insert in case.inserts:
                session.execute(f"INSERT INTO {table.name} {insert}")
            filled = changed = self._printed(table)
            selected = self._selected(table)
            assert filled, f"{case.name}: the table is empty"
            if case.update:
                session.execute(f"UPDATE {table.name} SET {case.update}")
                changed = self._printed(table)
            session.execute(f"DELETE FROM {table.name}")
        inserts = [Change(INSERT, None, row) for row in filled]
        if case.period:
            return inserts + self._versions(table, case.period, filled, changed), selected
        return [
            *inserts,
            *(Change(UPDATE, *pair) for pair in zip(filled, changed, strict=True) if pair[0] != pair[1]),
            *(Change(DELETE, row, None) for row in changed),
        ], selected

    def _versions(
        self, table: Table, period: tuple[str, str], filled: Sequence[Row], changed: Sequence[Row]
    ) -> list[Change]:
        """The changes of a versioned table: an update also inserts the old row, and a delete ends the row's period."""
        begin, _ = period
        past = self._printed(table, "FOR SYSTEM_TIME ALL")
        were, ended = ([row for row in past if row[begin] == some[0][begin]] for some in (filled, changed))
        updates = [
            change
            for before, after, kept in zip(filled, changed, were, strict=True)
            for change in (Change(UPDATE, before, after), Change(INSERT, None, kept))
        ]
        return updates + [Change(UPDATE, *pair) for pair in zip(changed, ended, strict=True)]

    def _printed(self, table: Table, when: str = "") -> list[Row]:
        """The rows as the server prints them, in the order of the key, or in storage order without a key."""
        names = [column.name for column in table.columns]
        return [dict(zip(names, row, strict=True)) for row in self._session.execute(_query(table, when))]

    def _selected(self, table: Table) -> list[dict[str, Any]]:
        """The rows as PyMySQL gives them; none if it cannot read one."""
        names = [column.name for column in table.columns]
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            try:
                cursor.execute(_query(table))
            except UnicodeDecodeError:
                return []
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _query(table: Table, when: str = "") -> str:
    names = [quoted(column.name) for column in table.columns]
    keys = [quoted(column.name) for column in table.columns if column.key]
    return f"SELECT {', '.join(names)} FROM {table.name} {when}" + (f" ORDER BY {', '.join(keys)}" if keys else "")


class _Session:
    """A connection that prints as the relay does: UTF-8, UTC, and texts that the driver does not convert."""

    def __init__(self, server: DatabaseServer, db: str) -> None:
        self._connection = server.connect(database=db, use_unicode=False, conv={})
        self.execute("SET NAMES utf8mb4")
        self.execute(f"SET time_zone = '+00:00', sql_mode = '{_MODE}', max_error_count = 0")

    def execute(self, statement: str) -> Sequence[Any]:
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(statement.encode())
            except pymysql.MySQLError as error:
                error.add_note(f"statement: {statement[:300]}")
                raise
            return list(cursor.fetchall())

    @contextmanager
    def set(self, settings: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Set these variables (name, value as SQL) within the block."""
        before = []
        for name, value in settings:
            [(old,)] = self.execute(f"SELECT @@{name.replace(' ', '.')}")
            before.append((name, old.decode()))
            self.execute(f"SET {name} = {value}")
        try:
            yield
        finally:
            for name, old in before:
                self.execute(f"SET {name} = " + (old if old.isdecimal() else f"'{old}'"))

    def close(self) -> None:
        self._connection.close()


def _journaled(
    server: DatabaseServer, start: StreamPosition, folder: Path
) -> tuple[dict[str, list[Frame]], dict[str, str]]:
    """The frames of each table from `start` to the binlog's end, and why a table ("": the stream) was skipped."""
    skipped: dict[str, str] = {}

    def log(event: str, **fields: object) -> None:
        table = str(fields.get("table", "")).rpartition(".")[2]
        skipped[table] = f"{event} {fields.get('code', '')}: {fields.get('cause', '')}"

    with handling(server, folder, log) as (fed, handler):
        fed.begin(start)
        try:
            fed.feed(record(server, start))
            handler.resolve_proven()
        except RelayError as error:
            skipped[""] = f"the stream stopped: {error}"
    fed.writer.flush()
    return frames_by_table(folder, fed), skipped


@contextmanager
def handling(server: DatabaseServer, folder: Path, log: Log) -> Iterator[tuple[Fed, IngestHandler]]:
    """An ingest in a new folder, with a handler that replies to what it asks."""
    folder.mkdir(parents=True)
    fed = Fed(folder, segment=1 << 24)
    with (
        closing(ReaderState(folder / "state.db")) as reader_state,
        closing(Store(folder / SCHEMA_FILE)) as store,
        closing(server.connect()) as asking,
    ):
        server_facts, charset_of = facts.query_facts(asking), facts.collations(asking)
        source_tables.prepare(asking, server_facts)
        definitions = Definitions(
            reader_state,
            History(store, lambda *_: None),
            Rules(skip_unknown=True),
            charset_of,
            lambda table: store.put_replies(source_tables.query_tables(asking, server_facts, [table])),
            log,
            assumptions=Assumptions(reader_state, fed.writer, folder, log),
            incomplete_types=server_facts.mariadb,
            names_expected=server_facts.names_columns,
        )
        policy = Policy(skip_unknown=True, send_partial=True)
        handler = IngestHandler(
            fed.ingest, fed.writer, definitions, store, charset_of, policy, StatementCounts(log), log
        )

        def answer(asked: Attention) -> bool:
            handler.handle(asked)
            return True

        fed.answer = answer
        yield fed, handler


def frames_by_table(folder: Path, fed: Fed) -> dict[str, list[Frame]]:
    """The journaled rows of each table."""
    journal = JournalReader(folder)
    definitions: dict[int, frames.Table] = {}
    found: dict[str, list[Frame]] = {}
    for position, payload in journal.frames(fed.writer.first(), fed.writer.committed()):
        frame = frames.decode(payload)
        if isinstance(frame, frames.Table):
            definitions[position] = frame
        elif isinstance(frame, frames.Rows):
            table = definitions[frame.table]
            while table.link:
                replaced = frames.decode(journal.frame(table.link)[1])
                assert isinstance(replaced, frames.Table)
                table = replaced
            name = msgspec.msgpack.decode(table.definition, type=frames.Definition).table
            found.setdefault(name, []).append(Frame(table.definition, frame))
    return found
