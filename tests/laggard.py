"""A reader without a process: it lags as far behind its source as a test wants, and asks the source when a test wants.

The parts are the real ones: a stream recorded from a server, the native ingest, answers, definitions, catalog and
journal. What a row was written under is written in the row: the value of each column tells the column's name.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
from pymysql.cursors import Cursor

from examples.dbserver import PASSWORD, USER, DatabaseServer
from relay._native import Ingest, JournalReader, JournalWriter, RowImages
from relay.binlog import facts
from relay.binlog.answers import Answers, Policy
from relay.binlog.catalog import Catalog
from relay.binlog.compression import zstd_parts
from relay.binlog.connect import Account, connect
from relay.binlog.definitions import Definitions
from relay.binlog.rules import Rules
from relay.ddl.syntax import TableName
from relay.journal import frames
from relay.journal.frames import Definition
from relay.schema import look
from relay.schema.facts import Answer
from relay.schema.history import History
from relay.schema.restore import restore
from relay.schema.store import SCHEMA_FILE, Store
from tests.binlogs import Place, place, record
from tests.types.payloads import cells


class Delivered(NamedTuple):
    """A row in the journal: its kind (1 insert, 2 update, 4 delete), whether its names are proven, (name, value)s."""

    schema: str
    table: str
    kind: int
    proven: bool
    cells: tuple[tuple[str, str | None], ...]

    @property
    def names(self) -> str:
        return ",".join(name for name, _ in self.cells)

    @property
    def true(self) -> bool:
        """Whether each column has its own name, or, where that is not proven, only its number."""
        if not self.proven:
            return self.names == ",".join(f"@{number}" for number in range(1, len(self.cells) + 1))
        return all(value == identity(name) for name, value in self.cells)


def identity(name: str) -> str:
    """The value that a column of that name is given: the same in a column of text and in one of integers."""
    return str(zlib.crc32(name.encode()) % 1_000_000)


def columns_of(cursor: Cursor, owner: str, table: str) -> list[str]:
    """The names of a table's columns as they are at this moment."""
    cursor.execute(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (owner, table),
    )
    return [str(name) for (name,) in cursor.fetchall()]


def write(cursor: Cursor, owner: str, table: str) -> None:
    """Insert a row whose values tell the names that its columns have at this moment."""
    names = columns_of(cursor, owner, table)
    columns = ", ".join(quoted(name) for name in names)
    values = ", ".join(f"'{identity(name)}'" for name in names)
    cursor.execute(f"INSERT INTO {quoted(owner)}.{quoted(table)} ({columns}) VALUES ({values})")


def quoted(name: str) -> str:
    """A name as an identifier."""
    return "`" + name.replace("`", "``") + "`"


class Laggard:
    """Reads `database` of a server into a journal and a catalog in a folder, which outlive `restart`."""

    def __init__(self, server: DatabaseServer, folder: Path, database: str, start: Place | None = None) -> None:
        self.server = server
        self.folder = folder
        self.database = database
        self.before_answer: Callable[[], object] = lambda: None
        self.after_answer: Callable[[], object] = lambda: None
        self.asked = 0
        self.logged: list[tuple[str, str]] = []
        self._first = start or place(server)
        with closing(server.connect()) as connection:
            self._facts = facts.facts(connection)
            self._collations = facts.collations(connection)
        self._connection = connect(Account("127.0.0.1", server.port, USER, PASSWORD))
        look.prepare(self._connection, self._facts)
        self._open()

    def close(self) -> None:
        self._connection.close()
        self._catalog.close()
        self._store.close()

    def restart(self) -> None:
        """As when the process was killed: what is not in the journal or the catalog is forgotten."""
        self._catalog.close()
        self._store.close()
        self._open()

    def _open(self) -> None:
        self._writer = JournalWriter(self.folder, 1 << 20)
        if not self._writer.state().file:
            self._writer.source(self._first.position, self._first.file, "", "test")
        self._catalog = Catalog(self.folder / "state.db")
        self._store = Store(self.folder / SCHEMA_FILE)
        restore(self._store, self._writer, self.folder, self._catalog.earlier_proofs)
        history = History(self._store, lambda table, error: self.logged.append(("schema_damaged", str(error))))
        history.learn_case(look.lower_case(self._connection))
        self._definitions = Definitions(
            self._catalog,
            history,
            Rules((f"{self.database}*.*",)),
            self._collations,
            self._ask,
            lambda event, **fields: self.logged.append((event, str(fields.get("cause", "")))),
            hidden_types=self._facts.mariadb,
            names_expected=facts.facts(self._connection).names_columns,
        )
        self._ingest = Ingest(self._writer, self.folder, zstd_parts)

    def look(self) -> None:
        """Ask for all tables, as at a first start."""
        rules = Rules((f"{self.database}*.*",))
        for answers in look.everything(self._connection, self._facts, rules.wants, lambda *_: None):
            self._store.put_answers(answers)
        self._store.keep()

    def catch_up(self, bytes_: int | None = None) -> int:
        """Read to the binlog's end, or no more than so many bytes of the stream; the bytes there were."""
        here = self._ingest.resume()
        stream = record(self.server, Place(here.file, here.position))
        self._ingest.start(here.file, here.position)
        answers = Answers(
            self._ingest, self._writer, self._definitions, self._store, self._collations, Policy(False, False),
            lambda *_, **__: None,
        )  # fmt: skip
        data = stream[:bytes_]
        for at in range(0, len(data), 65536):
            piece = data[at : at + 65536]
            self._ingest.buffer(len(piece))[: len(piece)] = piece
            self._ingest.received(len(piece))
            while (asked := self._ingest.step()) is not None:
                answers.keep()
                if asked.asks == "end":
                    break
                answers.answer(asked)
            answers.keep()
            answers.passed()
        self._writer.rollback()
        answers.settle()
        return len(stream)

    def _ask(self, table: TableName) -> Answer:
        self.asked += 1
        self.before_answer()
        answer = look.ask(self._connection, self._facts, [table])[0]
        self.after_answer()
        return answer

    def frames(self) -> list[frames.Frame]:
        """Everything committed."""
        journal = JournalReader(self.folder)
        return [frames.decode(payload) for _, payload in journal.frames(journal.first(), self._writer.committed())]

    def rows(self) -> list[Delivered]:
        """Every row that may be published by now."""
        return delivered(self.folder, self._writer.committed())


def delivered(journal_dir: Path, committed: int) -> list[Delivered]:
    """The rows in a journal up to a position of it."""
    journal = JournalReader(journal_dir)
    found = []
    for _, payload in journal.frames(journal.first(), committed):
        frame = frames.decode(payload)
        if not isinstance(frame, frames.Rows):
            continue
        packed = _definition(journal, frame.table)
        table = msgspec.msgpack.decode(packed, type=Definition)
        for row in RowImages(packed, frame.kind, frame.body).render("poll"):
            values = tuple((cell.name, _text(cell.after or cell.before)) for cell in cells(row)[0])
            found.append(Delivered(table.schema, table.table, frame.kind, table.proven, values))
    return found


def _definition(journal: JournalReader, position: int) -> bytes:
    frame = frames.decode(journal.frame(position)[1])
    assert isinstance(frame, frames.Table)
    return _definition(journal, frame.link) if frame.link else frame.definition


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
