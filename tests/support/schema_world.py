"""Definitions of a stream and what the source answers, without a source."""

from __future__ import annotations

from pathlib import Path

from relay._native import JournalWriter
from relay.binlog.events import QueryStatus
from relay.binlog.events.position import BinlogPosition
from relay.ddl import Dialect, parse_statement
from relay.ddl.syntax import CreateTable, TableName
from relay.ingest.assumptions import Assumptions
from relay.ingest.definitions import Definitions, Resolution, Verdict
from relay.ingest.reader_state import ReaderState
from relay.ingest.rules import Rules
from relay.journal.frames import Definition
from relay.schema.create import created_table
from relay.schema.facts import Reply
from relay.schema.history import History
from relay.schema.queries import Session, query
from relay.schema.store import SCHEMA_FILE, Store
from relay.schema.table import State, Table
from tests.binlog.test_table_map import CHARSETS

MYSQL, MARIADB = Dialect(False, 90_700), Dialect(True, 101_108)


def made(columns: str, dialect: Dialect = MYSQL) -> Table:
    """The table that a statement with these columns makes."""
    [change] = parse_statement(f"CREATE TABLE users ({columns})", "shop", dialect).changes
    assert isinstance(change, CreateTable)
    return created_table(change, "utf8mb4", dialect)


SAID = made("id INT UNSIGNED PRIMARY KEY, name VARCHAR(10)")
CREATE = "CREATE TABLE users (id INT UNSIGNED PRIMARY KEY, name VARCHAR(10)) CHARSET utf8mb4"
NOT_UNDERSTOOD = "ALTER TABLE users FROBNICATE"


def at(position: int, file: str = "binlog.000001") -> BinlogPosition:
    return BinlogPosition(file, position)


class World:
    """Definitions on a history and a catalog in a folder, what they ask, and what they log.

    The source says `said`; its binlog stands at `begin` when it is asked, and at `end` when it has answered.
    """

    def __init__(
        self, folder: Path, rules: Rules | None = None, *, mariadb: bool = False, names_expected: bool = False
    ) -> None:
        self.said: State = SAID
        self.begin = self.end = at(500)
        self.asked: list[str] = []
        self.logged: list[str] = []
        self.dialect = MARIADB if mariadb else MYSQL
        self.folder = folder
        self._reader_state = ReaderState(folder / "state.db")
        self._store = Store(folder / SCHEMA_FILE)
        self._sequence = 1
        self.history = History(self._store, lambda *_: None)
        self.history.set_lower_case(0)
        self.definitions = Definitions(
            self._reader_state, self.history, rules or Rules(), CHARSETS, self._ask, self._log,
            assumptions=Assumptions(self._reader_state, JournalWriter(folder / "journal", 1 << 20), folder, self._log),
            incomplete_types=mariadb, names_expected=names_expected,
        )  # fmt: skip

    def close(self) -> None:
        self._store.close()
        self._reader_state.close()

    def restarted(self) -> World:
        """What comes after this one."""
        self._store.commit()
        self.close()
        return World(self.folder, mariadb=self.dialect.mariadb)

    def _ask(self, table: TableName) -> None:
        self.asked.append(str(table))
        self._store.put_replies([Reply(table, self.said, min(self.begin, self.end), self.end)])

    def _log(self, event: str, **fields: object) -> None:
        self.logged.append(event)

    def decide(self, body: bytes, place: BinlogPosition) -> Verdict:
        """The verdict on a table map; if it is pending, its handle in the journal is 7."""
        verdict = self.definitions.decide(body, place, self._sequence, self.dialect)
        if verdict.pending is not None:
            self.definitions.add_pending(7, verdict.pending)
        return verdict

    def known(self, body: bytes, place: BinlogPosition) -> Definition:
        """What a table map means if its definition is not pending."""
        verdict = self.decide(body, place)
        assert verdict.pending is None and verdict.definition is not None
        return verdict.definition

    def execute(self, statement: str, place: BinlogPosition) -> list[Resolution]:
        """A statement that stands just before that place."""
        version = "11.8.1-MariaDB" if self.dialect.mariadb else "9.7.0"
        found = query(statement, Session("shop", 0, 0, QueryStatus()), version, CHARSETS)
        outcomes = self.definitions.outcomes(found, BinlogPosition(place.file, place.position - 1))
        self._sequence += 1
        return self.definitions.apply_statement(outcomes, found, place, self._sequence, "")


def column_names(definition: Definition | None) -> list[str]:
    assert definition is not None
    return [column.name for column in definition.columns]


def sql_types(definition: Definition | None) -> list[str]:
    assert definition is not None
    return [column.sql_type for column in definition.columns]
