"""The schema history on disk: DataDir/schema.db.

It has facts of two kinds. A version is what a table is from a place in the binlog on: what a statement made of it, what
an event told, or that it is not known any more. An answer is what the source said of a table when the binlog had come
to a place. What statements left stands in the journal too: versions that a kill kept out of this file are taken from
there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from relay._native import crc32c
from relay.binlog.place import Place
from relay.ddl.statements import fold
from relay.ddl.syntax import TableName
from relay.schema.facts import ANY, Answer, Damaged, Fact, Proof, Unreadable, Version, folded_name
from relay.schema.table import ABSENT, Absent
from relay.statefile import error_code, for_reading, opened

SCHEMA_FILE: Final = "schema.db"
FORMAT: Final = 1
VERSIONS_KEPT: Final = 100
"""Of each table. Rows are read again from no further back than the oldest prepared transaction."""
DROPPED_KEPT: Final = 10_000
"""Tables that are gone and still known, for people. Some sources make tables under new names all the time."""
_BETWEEN_LOOKS: Final = 1_000  # tables dropped
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS versions (
  id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, schema_name TEXT NOT NULL, table_name TEXT NOT NULL,
  folded TEXT NOT NULL, sequence INTEGER NOT NULL, file TEXT NOT NULL, position INTEGER NOT NULL, gtid TEXT NOT NULL,
  proof TEXT NOT NULL, statement TEXT NOT NULL, state BLOB NOT NULL, crc INTEGER NOT NULL)""",
    """CREATE INDEX IF NOT EXISTS versions_by_table ON versions (schema_name, table_name, id)""",
    """CREATE INDEX IF NOT EXISTS versions_by_sequence ON versions (sequence)""",
    """CREATE TABLE IF NOT EXISTS answers (
  schema_name TEXT NOT NULL, table_name TEXT NOT NULL, folded TEXT NOT NULL, asked_file TEXT NOT NULL,
  asked_position INTEGER NOT NULL, until_file TEXT NOT NULL, until_position INTEGER NOT NULL, state BLOB NOT NULL,
  crc INTEGER NOT NULL, PRIMARY KEY (schema_name, table_name)) WITHOUT ROWID""",
)
_VERSION: Final = "epoch, schema_name, table_name, sequence, file, position, gtid, proof, statement, state"
_ANSWER: Final = "schema_name, table_name, asked_file, asked_position, until_file, until_position, state"
_LONGEST_STATEMENT: Final = 4096  # characters that are kept of one, for people
_DECODER: Final = msgspec.msgpack.Decoder(Fact)
_GONE: Final = msgspec.msgpack.encode(ABSENT)
_OUT_OF_REACH: Final = frozenset({
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT,
})  # fmt: skip


class Store:
    """The file. One process writes; opened after the fork.

    What is added belongs to the open transaction until `keep`. Raises `sqlite3.Error`, `Damaged`, `Unreadable`, and
    `RelayError` for a file of a newer release.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        try:
            self._db = for_reading(path) if read_only else opened(path, FORMAT)
        except sqlite3.DatabaseError as error:
            raise _judged(error, path) from error
        try:
            self._db.text_factory = _text
            for table in () if read_only else _TABLES:
                self._execute(table)
            self.epoch = int(self.fact("epoch") or 0)
        except BaseException:
            self._db.close()
            raise
        self._dropped = 0  # since the last look for those that are too many

    def verify(self) -> dict[TableName, Damaged]:
        """Read all of the file. Gives the tables of which a row is damaged; raises `Unreadable` for anything else.

        A query that passes a damaged row by would take an older version for the newest.
        """
        ((found,),) = self._select("PRAGMA integrity_check(1)")
        if found != "ok":
            raise Unreadable(str(found))
        for (key,) in list(self._select("SELECT key FROM facts")):
            self.fact(key)
        damaged = {}
        for kind, columns in (("versions", _VERSION), ("answers", _ANSWER)):
            for owner, name, folded, crc, *row in self._select(
                f"SELECT schema_name, table_name, folded, crc, {columns} FROM {kind}"
            ):
                table = TableName(str(owner), str(name))
                if crc != _checksum(tuple(row)) or folded != _folded(table):
                    damaged[table] = Damaged(f"a row of {kind} in {self.path.name}")
        if ANY in damaged:
            raise Unreadable(str(damaged[ANY]))
        return damaged

    def close(self) -> None:
        """Close the file; what was not kept is forgotten."""
        self._db.close()

    def fact(self, key: str) -> str:
        """A fact of the whole history, empty if it is not there."""
        row = next(self._select("SELECT key, value, crc FROM facts WHERE key = ?", (key,)), None)
        if row and _checksum(row[:2]) != row[2]:
            raise Unreadable(f"the fact {key!r} is not what was written")
        return str(row[1]) if row else ""

    def put_fact(self, key: str, value: str) -> None:
        """Keep a fact of the whole history."""
        self._begin()
        self._execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (key, value, _checksum((key, value))))

    def new_epoch(self) -> None:
        """Places have another meaning from here on: what was known stays only for people to read."""
        self.epoch += 1
        self.put_fact("epoch", str(self.epoch))
        self._execute("DELETE FROM answers")

    def add(self, versions: Iterable[Version]) -> None:
        """Add versions, the newest of their tables."""
        self._begin()
        for version in versions:
            owner, name = version.table
            row = (
                self.epoch, owner, name, version.sequence, version.since.file, version.since.position, version.gtid,
                str(version.proof), version.statement[:_LONGEST_STATEMENT], msgspec.msgpack.encode(version.state),
            )  # fmt: skip
            self._execute(
                f"INSERT INTO versions ({_VERSION}, folded, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, _folded(version.table), _checksum(row)),
            )
            self._execute(
                "DELETE FROM versions WHERE schema_name = ? AND table_name = ? AND id <= (SELECT id FROM versions"
                " WHERE schema_name = ? AND table_name = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (owner, name, owner, name, VERSIONS_KEPT),
            )
            self._dropped += isinstance(version.state, Absent)
        if self._dropped >= _BETWEEN_LOOKS:
            self._dropped = 0
            self._forget_dropped()

    def _forget_dropped(self) -> None:
        rows = self._select(
            "SELECT schema_name, table_name FROM versions AS one WHERE state = ? AND table_name <> '' AND id ="
            " (SELECT max(id) FROM versions WHERE schema_name = one.schema_name AND table_name = one.table_name)"
            " ORDER BY id DESC LIMIT -1 OFFSET ?",
            (_GONE, DROPPED_KEPT),
        )
        for owner, name in list(rows):
            self.forget(TableName(owner, name))

    def put_answers(self, answers: Iterable[Answer]) -> None:
        """Keep answers, each in place of the one before it."""
        self._begin()
        for answer in answers:
            asked, until = answer.asked, answer.until
            row = (
                *answer.table, asked.file, asked.position, until.file, until.position,
                msgspec.msgpack.encode(answer.state),
            )  # fmt: skip
            self._execute(
                f"INSERT OR REPLACE INTO answers ({_ANSWER}, folded, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, _folded(answer.table), _checksum(row)),
            )

    @property
    def changed(self) -> bool:
        """Whether something was added and is not kept yet."""
        return self._db.in_transaction

    def keep(self) -> None:
        """End the open transaction: what it added is there after any kill."""
        if self._db.in_transaction:
            self._execute("COMMIT")

    def flush(self) -> None:
        """What was kept is there after a loss of the host, too."""
        self._execute("PRAGMA wal_checkpoint(FULL)")

    def cut(self, sequence: int) -> None:
        """Forget versions from that number of the journal on: it has lost them, and they come again."""
        self._begin()
        self._execute("DELETE FROM versions WHERE sequence >= ? AND epoch = ?", (sequence, self.epoch))

    def latest(self, table: TableName) -> Version | None:
        """The newest version of a table in this epoch."""
        return next(self.versions(table), None)

    def versions(self, table: TableName, *, everything: bool = False) -> Iterator[Version]:
        """The versions of a table in this epoch, newest first; `everything`: in all epochs."""
        rows = self._select(
            f"SELECT {_VERSION}, crc FROM versions WHERE schema_name = ? AND table_name = ?"
            " AND (epoch = ? OR ?) ORDER BY id DESC",
            (*table, self.epoch, everything),
        )
        for *row, crc in rows:
            yield _version(self._verified(tuple(row), crc))

    def answer(self, table: TableName) -> Answer | None:
        """The last answer about a table."""
        row = next(
            self._select(f"SELECT {_ANSWER}, crc FROM answers WHERE schema_name = ? AND table_name = ?", tuple(table)),
            None,
        )
        return _answer(self._verified(row[:-1], row[-1])) if row else None

    def tables(self, schema: str | None = None) -> list[TableName]:
        """The tables of which there is a version or an answer; all, or those of a schema."""
        one = "" if schema is None else "AND schema_name = ? "
        rows = self._select(
            f"SELECT schema_name, table_name FROM versions WHERE table_name <> '' {one}AND epoch = {self.epoch}"
            f" UNION SELECT schema_name, table_name FROM answers WHERE table_name <> '' {one}",
            () if schema is None else (schema, schema),
        )
        return [TableName(str(owner), str(name)) for owner, name in rows]

    def schemas(self) -> list[str]:
        """The schemas of which there is a version or an answer."""
        rows = self._select(
            f"SELECT schema_name FROM versions WHERE table_name = '' AND epoch = {self.epoch}"
            " UNION SELECT schema_name FROM answers WHERE table_name = ''"
        )
        return [str(name) for (name,) in rows if name]

    def alike(self, folded: Iterable[str]) -> list[TableName]:
        """The tables whose folded names (`folded_name`) are among these."""
        wanted = msgspec.json.encode(list(folded)).decode()
        rows = self._select(
            "SELECT schema_name, table_name FROM versions"
            " WHERE folded IN (SELECT value FROM json_each(?)) AND epoch = ?"
            " UNION SELECT schema_name, table_name FROM answers WHERE folded IN (SELECT value FROM json_each(?))",
            (wanted, self.epoch, wanted),
        )
        return [TableName(str(owner), str(name)) for owner, name in rows if name]

    def forget(self, table: TableName) -> None:
        """Forget all of a table."""
        self._begin()
        for kind in ("versions", "answers"):
            self._execute(f"DELETE FROM {kind} WHERE schema_name = ? AND table_name = ?", tuple(table))

    def _select(self, sql: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._db.execute(sql, values)
        except sqlite3.DatabaseError as error:
            raise _judged(error, self.path) from error

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        for _ in self._select(sql, values):
            pass

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._execute("BEGIN IMMEDIATE")

    def _verified(self, row: tuple[Any, ...], crc: int) -> tuple[Any, ...]:
        if _checksum(row) != crc:
            raise Damaged(f"a row of {self.path.name}")
        return row


def put_aside(path: Path) -> None:
    """Rename a file that nothing can rely on, for people to look at; it takes the place of an earlier one."""
    for end in ("", "-wal", "-shm"):
        aside = path.with_name(f"{path.name}.damaged{end}")
        aside.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(aside)


def _judged(error: sqlite3.DatabaseError, path: Path) -> Exception:
    """What an error of SQLite means: the file is damaged, or only out of reach."""
    code = error_code(error)
    refused = code == sqlite3.SQLITE_READONLY and not os.access(path, os.W_OK)
    out_of_reach = code is None or code in _OUT_OF_REACH or refused
    return error if out_of_reach else Unreadable(str(error))


def _text(data: bytes) -> str:
    """A text of the file: one that is damaged is not what its row's checksum is of."""
    return data.decode("utf-8", "replace")


def _folded(table: TableName) -> str:
    return folded_name(fold(table.schema), fold(table.table))


def _checksum(row: tuple[Any, ...]) -> int:
    return crc32c(msgspec.msgpack.encode(row))


def _version(row: tuple[Any, ...]) -> Version:
    epoch, owner, name, sequence, file, position, gtid, proof, statement, state = row
    found = _DECODER.decode(state)
    return Version(TableName(owner, name), found, Place(file, position), sequence, Proof(proof), statement, gtid, epoch)


def _answer(row: tuple[Any, ...]) -> Answer:
    owner, name, asked_file, asked_position, until_file, until_position, state = row
    asked, until = Place(asked_file, asked_position), Place(until_file, until_position)
    return Answer(TableName(owner, name), _DECODER.decode(state), asked, until)
