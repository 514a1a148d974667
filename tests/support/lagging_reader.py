"""A reader without a process: a test controls how far it lags behind its source and when it queries the source.

The parts are the real ones: a stream recorded from a server, the native ingest, replies, definitions, reader state and
journal. Each row contains the names that its columns had: the value of each column is its name.
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
from relay.binlog.events.compression import zstd_parts
from relay.ddl.syntax import TableName
from relay.ingest.assumptions import Assumptions
from relay.ingest.definitions import Definitions
from relay.ingest.handler import IngestHandler, Policy
from relay.ingest.left_out import StatementCounts
from relay.ingest.reader_state import ReaderState
from relay.ingest.rules import Rules
from relay.journal import frames
from relay.journal.frames import Definition
from relay.runtime.process_status import ASSUMED_BYTES, AssumedRows, AssumedTable, StatusPage
from relay.schema import source_tables
from relay.schema.history import History
from relay.schema.restore import restore
from relay.schema.store import SCHEMA_FILE, Store
from relay.source import facts
from relay.source.connect import Account, connect
from tests.support.binlogs import StreamPosition, place, record
from tests.support.random_tables import quoted
from tests.support.reader_process import definition_at
from tests.types.payloads import cells

_DELETE = 4


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
        """Whether each column has its own name, or, if that is not proven, only its number."""
        if not self.proven:
            return self.names == ",".join(f"@{number}" for number in range(1, len(self.cells) + 1))
        return all(value == identity(name) for name, value in self.cells)


def identity(name: str) -> str:
    """The value of a column with that name: the same for text and integer columns."""
    return str(zlib.crc32(name.encode()) % 1_000_000)


def columns_of(cursor: Cursor, owner: str, table: str) -> list[str]:
    """The current names of a table's columns."""
    cursor.execute(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (owner, table),
    )
    return [str(name) for (name,) in cursor.fetchall()]


def write(cursor: Cursor, owner: str, table: str) -> None:
    """Inserts a row whose values are the current names of its columns."""
    names = columns_of(cursor, owner, table)
    columns = ", ".join(quoted(name) for name in names)
    values = ", ".join(f"'{identity(name)}'" for name in names)
    cursor.execute(f"INSERT INTO {quoted(owner)}.{quoted(table)} ({columns}) VALUES ({values})")


class Laggard:
    """Reads `database` of a server into a journal and a reader state in a folder, which survive `restart`."""

    def __init__(
        self, server: DatabaseServer, folder: Path, database: str, start: StreamPosition | None = None
    ) -> None:
        self.server = server
        self.folder = folder
        self.database = database
        self.before_answer: Callable[[], object] = lambda: None
        self.after_answer: Callable[[], object] = lambda: None
        self.asked = 0
        self.logged: list[tuple[str, str]] = []
        self._first = start or place(server)
        self._assumed_page = StatusPage(ASSUMED_BYTES)
        with closing(server.connect()) as connection:
            self._facts = facts.query_facts(connection)
            self._collations = facts.collations(connection)
        self._connection = connect(Account("127.0.0.1", server.port, USER, PASSWORD))
        source_tables.prepare(self._connection, self._facts)
        self._open()

    def close(self) -> None:
        self._connection.close()
        self._reader_state.close()
        self._store.close()

    def restart(self) -> None:
        """Restarts like a killed process: forgets everything outside the journal and the reader state."""
        self._reader_state.close()
        self._store.close()
        self._open()

    def _open(self) -> None:
        self._writer = JournalWriter(self.folder, 1 << 20)
        if not self._writer.state().file:
            self._writer.source(self._first.position, self._first.file, "", "test")
        self._reader_state = ReaderState(self.folder / "state.db")
        self._store = Store(self.folder / SCHEMA_FILE)
        restore(self._store, self._writer, self.folder, self._reader_state.earlier_proofs)
        history = History(self._store, lambda table, error: self.logged.append(("schema_damaged", str(error))))
        history.set_lower_case(source_tables.lower_case(self._connection))
        self.assumptions = Assumptions(self._reader_state, self._writer, self.folder, self._log, self._assumed_page)
        self._definitions = Definitions(
            self._reader_state,
            history,
            Rules((f"{self.database}*.*",)),
            self._collations,
            self._ask,
            self._log,
            assumptions=self.assumptions,
            incomplete_types=self._facts.mariadb,
            names_expected=facts.query_facts(self._connection).names_columns,
        )
        self._ingest = Ingest(self._writer, self.folder, zstd_parts)

    def _log(self, event: str, **fields: object) -> None:
        self.logged.append((event, str(fields.get("cause", ""))))

    def assumed(self) -> dict[str, AssumedTable]:
        """The tables whose rows are counted as read with a wrong character set, by name."""
        self.assumptions.report()
        found = self._assumed_page.decode(AssumedRows).tables
        return {f"{each.schema}.{each.table}": each for each in found}

    def look(self) -> None:
        """Queries all tables, as at a first start."""
        rules = Rules((f"{self.database}*.*",))
        for answers in source_tables.query_all(self._connection, self._facts, rules.wants, lambda *_: None):
            self._store.put_replies(answers)
        self._store.commit()

    def catch_up(self, bytes_: int | None = None) -> int:
        """Reads to the binlog's end, or at most that many bytes of the stream; returns the available bytes."""
        here = self._ingest.resume()
        stream = record(self.server, StreamPosition(here.file, here.position))
        self._ingest.start(here.file, here.position)

        def silent(*_: object, **__: object) -> None:
            pass

        answers = IngestHandler(
            self._ingest, self._writer, self._definitions, self._store, self._collations, Policy(False, False),
            StatementCounts(silent), silent,
        )  # fmt: skip
        data = stream[:bytes_]
        for at in range(0, len(data), 65536):
            piece = data[at : at + 65536]
            self._ingest.buffer(len(piece))[: len(piece)] = piece
            self._ingest.received(len(piece))
            while (asked := self._ingest.step()) is not None:
                answers.commit()
                if asked.asks == "end":
                    break
                answers.handle(asked)
            answers.commit()
            answers.resolve_proven()
        self._writer.rollback()
        answers.commit_after_rollback()
        return len(stream)

    def _ask(self, table: TableName) -> None:
        self.asked += 1
        self.before_answer()
        self._store.put_replies(source_tables.query_tables(self._connection, self._facts, [table]))
        self.after_answer()

    def frames(self) -> list[frames.Frame]:
        """All committed frames."""
        journal = JournalReader(self.folder)
        return [frames.decode(payload) for _, payload in journal.frames(journal.first(), self._writer.committed())]

    def rows(self) -> list[Delivered]:
        """Every row that may be published now."""
        return delivered(self.folder, self._writer.committed())


def delivered(journal_dir: Path, committed: int) -> list[Delivered]:
    """The rows in a journal up to a position."""
    journal = JournalReader(journal_dir)
    found = []
    for _, payload in journal.frames(journal.first(), committed):
        frame = frames.decode(payload)
        if not isinstance(frame, frames.Rows):
            continue
        packed = definition_at(journal, frame.table)
        table = msgspec.msgpack.decode(packed, type=Definition)
        for row in RowImages(packed, frame.kind, frame.body).render("poll"):
            shown = "before" if frame.kind == _DELETE else "after"
            values = tuple((cell.name, _text(getattr(cell, shown))) for cell in cells(row)[0])
            found.append(Delivered(table.schema, table.table, frame.kind, table.proven, values))
    return found


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
