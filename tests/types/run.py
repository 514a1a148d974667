"""Runs the cases on a server, in one metadata mode, through the relay's own way: binlog, ingest, journal, rendering."""

from __future__ import annotations

import codecs
import itertools
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pymysql

from examples.dbserver import DatabaseServer
from relay._native import Attention, JournalReader, RowImages
from relay.binlog import facts, schema
from relay.binlog.answers import Answers, Policy
from relay.binlog.catalog import Catalog
from relay.binlog.definitions import Definitions, Rules
from relay.errors import RelayError
from relay.journal import frames
from tests.binlogs import Fed, Place, place, record
from tests.types.case import TableCase
from tests.types.payloads import cells

INSERT, UPDATE, DELETE = 1, 2, 4
INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
FLOATS = ("float", "double")
BINARIES = (
    "bit", "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector", "geometry", "point",
    "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection",
)  # fmt: skip
QUESTION = "question"  # how text that is no UTF-8 is told where only UTF-8 can be: a question mark for each byte
codecs.register_error(QUESTION, lambda error: ("?" * (error.end - error.start), error.end))  # type: ignore[attr-defined]
_NULL = b"\0nothing"
_MODE = "NO_ENGINE_SUBSTITUTION"  # takes dates with zero parts

Row = dict[str, bytes | None]


class Change(NamedTuple):
    """A row as an event tells it: its columns' texts by name."""

    kind: int
    before: Row | None
    after: Row | None


class ReadColumn(NamedTuple):
    """A column of a case's table."""

    name: str
    data_type: str
    key: bool


class Frame(NamedTuple):
    """A ROWS frame and the packed definition that stands for its table in the end."""

    definition: bytes
    rows: frames.Rows


class Table(NamedTuple):
    """A case's table on a server."""

    case: TableCase
    name: str
    columns: tuple[ReadColumn, ...]


class Outcome(NamedTuple):
    """What became of a case: what the server prints, the frames it is in, and how they differ (nothing: they agree)."""

    table: Table
    expected: list[Change]
    frames: list[Frame]
    wrong: list[str]


class Tables:
    """All cases' tables on a server, in a database of their own; `run` fills, changes and empties them."""

    def __init__(self, server: DatabaseServer, cases: Iterable[TableCase]) -> None:
        self.server = server
        self.db = f"types_{secrets.token_hex(4)}"
        server.execute(f"CREATE DATABASE {self.db} CHARACTER SET utf8mb4")
        self._session = _Session(server, self.db)
        self.tables = [self._made(number, case) for number, case in enumerate(cases) if server.name in case.on]

    def close(self) -> None:
        """Drop the database."""
        self._session.execute(f"DROP DATABASE {self.db}")
        self._session.close()

    def run(self, metadata: str, folder: Path) -> list[Outcome]:
        """Work on every table with that binlog_row_metadata, and read what the binlog tells of it."""
        together = [table for table in self.tables if not table.case.alone]
        groups = [together, *([table] for table in self.tables if table.case.alone)]
        with self._session.set((("GLOBAL binlog_row_metadata", metadata),)):
            return [
                outcome for number, tables in enumerate(groups) for outcome in self._run(tables, folder / str(number))
            ]

    def _run(self, tables: Sequence[Table], folder: Path) -> list[Outcome]:
        """Work on some tables, and read one stream of that."""
        start = place(self.server)
        expected = [self._worked(table) for table in tables]
        found, skipped = _journaled(self.server, start, folder)
        outcomes = []
        for table, changes in zip(tables, expected, strict=True):
            of_table = found.get(table.name, [])
            wrong = _differences(table, changes, of_table)
            if wrong:
                wrong = [skipped[name] for name in (table.name, "") if name in skipped] + wrong
            outcomes.append(Outcome(table, changes, of_table, wrong))
        return outcomes

    def _made(self, number: int, case: TableCase) -> Table:
        name, session = f"c{number}", self._session
        with session.set(case.settings):
            session.execute(f"CREATE TABLE {name} ({case.columns}) {case.options}")
        listed = session.execute(
            "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_KEY FROM information_schema.COLUMNS"
            f" WHERE TABLE_SCHEMA = '{self.db}' AND TABLE_NAME = '{name}' ORDER BY ORDINAL_POSITION"
        )
        columns = [ReadColumn(column.decode(), kind.decode(), key == b"PRI") for column, kind, key in listed]
        hidden = [column for column in case.period or () if column not in {listed.name for listed in columns}]
        columns += [ReadColumn(column, "timestamp", False) for column in hidden]
        return Table(case, name, tuple(columns))

    def _worked(self, table: Table) -> list[Change]:
        """Fill, change and empty the table; what its events are to tell."""
        session, case = self._session, table.case
        with session.set(case.settings):
            for insert in case.inserts:
                session.execute(f"INSERT INTO {table.name} {insert}")
            filled = changed = self._printed(table)
            if case.update:
                session.execute(f"UPDATE {table.name} SET {case.update}")
                changed = self._printed(table)
            session.execute(f"DELETE FROM {table.name}")
        inserts = [Change(INSERT, None, row) for row in filled]
        if case.period:
            return inserts + self._versions(table, case.period, filled, changed)
        return [
            *inserts,
            *(Change(UPDATE, *pair) for pair in zip(filled, changed, strict=True) if pair[0] != pair[1]),
            *(Change(DELETE, row, None) for row in changed),
        ]

    def _versions(
        self, table: Table, period: tuple[str, str], filled: Sequence[Row], changed: Sequence[Row]
    ) -> list[Change]:
        """What is told of rows of a versioned table: their update writes what they were; a delete ends their period."""
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
        """The rows as the server prints them, in the order of the key, or else as they lie."""
        names = [column.name for column in table.columns]
        keys = [_quoted(column.name) for column in table.columns if column.key]
        sort = f" ORDER BY {', '.join(keys)}" if keys else ""
        rows = self._session.execute(f"SELECT {', '.join(map(_quoted, names))} FROM {table.name} {when}{sort}")
        return [dict(zip(names, row, strict=True)) for row in rows]


class _Session:
    """A connection that prints as the relay does: UTF-8, UTC, and nothing made of the texts."""

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
        """Variables for the time being; `default` is the server's own value."""
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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _journaled(server: DatabaseServer, start: Place, folder: Path) -> tuple[dict[str, list[Frame]], dict[str, str]]:
    """The frames of each table from `start` to the binlog's end, and why tables ("": anything else) were left out."""
    skipped: dict[str, str] = {}

    def log(event: str, **fields: object) -> None:
        table = str(fields.get("table", "")).rpartition(".")[2]
        skipped[table] = f"{event} {fields.get('code', '')}: {fields.get('cause', '')}"

    folder.mkdir(parents=True)
    fed = Fed(folder, segment=1 << 24)
    with closing(Catalog(folder / "state.db")) as catalog, closing(server.connect()) as asking:
        server_facts = facts.facts(asking)
        definitions = Definitions(
            catalog,
            Rules(skip_unknown=True),
            facts.collations(asking),
            lambda owner, table: schema.ask(asking, server_facts, owner, table),
            log,
            hidden_types=server_facts.mariadb,
        )
        policy = Policy(skip_unknown=True, send_partial=True)
        answers = Answers(fed.ingest, fed.writer, definitions, policy, log)

        def answer(asked: Attention) -> bool:
            answers.answer(asked)
            return True

        fed.answer = answer
        fed.begin(start)
        try:
            fed.feed(record(server, start))
            answers.passed()
        except RelayError as error:
            skipped[""] = f"the stream stopped: {error}"
    return _frames(folder, fed), skipped


def _frames(folder: Path, fed: Fed) -> dict[str, list[Frame]]:
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


def changes(found: Frame) -> Iterator[tuple[Change, dict[str, Any], dict[str, Any]]]:
    """The rows of a frame: their texts, and the typed values of both sides."""
    images = RowImages(found.definition, found.rows.kind, found.rows.body)
    for poll, packed in zip(images.render("poll", null_text=_NULL), images.render("msgpack"), strict=True):
        texts, _ = cells(poll)
        before, after = msgspec.msgpack.decode(packed)[-2:]
        told = {cell.name: cell for cell in texts}
        sides = [
            None
            if typed is None
            else {name: None if value is None else getattr(told[name], side) for name, value in typed.items()}
            for side, typed in (("before", before), ("after", after))
        ]
        yield Change(found.rows.kind, *sides), before or {}, after or {}


def _differences(table: Table, expected: list[Change], found: list[Frame]) -> list[str]:
    wrong: list[str] = []
    try:
        got = [change for frame in found for change in changes(frame)]
    except ValueError as error:
        return [str(error)]
    if len(got) != len(expected):
        return [f"{len(got)} rows came, not {len(expected)}"]
    types = {column.name: column.data_type for column in table.columns}
    for number, (right, (ours, *typed)) in enumerate(zip(expected, got, strict=True)):
        where = f"row {number}"
        if right.kind != ours.kind:
            wrong.append(f"{where}: kind {ours.kind}, not {right.kind}")
            continue
        for side, is_, ought, values in zip(("before", "after"), ours[1:], right[1:], typed, strict=True):
            lines = itertools.chain(_side(table, right, is_, ought), _typed(types, is_ or {}, values))
            wrong += [f"{where} {side}: {line}" for line in lines]
    return wrong


def _side(table: Table, change: Change, ours: Row | None, right: Row | None) -> Iterator[str]:
    """How one side of a row differs from what is to be there."""
    if ours is None or right is None:
        if ours is not right:
            yield "there, and should not be" if right is None else "not there"
        return
    partial = any("binlog_row_image" in name for name, _ in table.case.settings)
    wanted = [name for name in right if name in ours] if partial else list(right)
    if list(ours) != wanted:
        yield f"columns {list(ours)}, not {wanted}"
        return
    if partial and (missing := needed(table, change, right is change.before) - ours.keys()):
        yield f"lacks {', '.join(sorted(missing))}"
    for name in wanted:
        if ours[name] != right[name]:
            yield f"{name} is {_shown(ours[name], right[name])}, the server prints {_shown(right[name], ours[name])}"


def needed(table: Table, change: Change, before: bool) -> set[str]:
    """Columns that a partial image has all the same: the key before; after, what has changed or was given."""
    if before:
        keys = {column.name for column in table.columns if column.key}
        return keys or {column.name for column in table.columns}
    assert change.after is not None
    old = change.before or dict.fromkeys(change.after)
    return {name for name, value in change.after.items() if value != old[name]}


def _typed(types: dict[str, str], texts: Row, values: dict[str, Any]) -> Iterator[str]:
    """How typed values differ from their texts."""
    for name, text in texts.items():
        kind, value = types.get(name, "binary"), values[name]
        if text is None:
            agree = value is None
        elif kind in INTEGERS:
            agree = value == int(text)
        elif kind in FLOATS:
            agree = isinstance(value, float)
        else:
            agree = value == (text if kind in BINARIES else text.decode(errors=QUESTION))
        if not agree:
            yield f"{name} typed is {value!r:.100}, and {text!r:.100} as text"


def _shown(text: bytes | None, other: bytes | None) -> str:
    """A text from shortly before its first difference on."""
    if text is None or other is None or len(text) < 100:
        return repr(text)[:300]
    at = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start = max(0, at - 10)
    return f"{len(text)} bytes, at {start} {text[start : at + 30]!r}"
