"""The schema history on disk: DataDir/schema.db.

It has facts of two kinds. A version is the definition of a table from a binlog position on: made by a statement,
contained in a table map, or unknown. A reply, in the table "answers", is what the source said of a table at a binlog
position. The outcomes of statements are in the journal too: versions that a kill kept out of this file are read there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from relay._native import crc32c
from relay.binlog.events.position import BinlogPosition
from relay.datadir.sqlite import for_reading, is_out_of_reach, opened
from relay.ddl.statements import fold
from relay.ddl.syntax import TableName
from relay.schema.facts import ANY, Damaged, Fact, Proof, Reply, Unreadable, Version, folded_name
from relay.schema.table import ABSENT, Absent

SCHEMA_FILE: Final = "schema.db"
FORMAT: Final = 1
VERSIONS_KEPT: Final = 100
"""The number of versions kept of each table. Rows before the oldest prepared transaction are never read again."""
DROPPED_KEPT: Final = 10_000
"""The number of dropped tables that are kept for people. Some sources create tables under new names all the time."""
_DROPPED_BETWEEN_CHECKS: Final = 1_000  # dropped tables between two checks of that number
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
_REPLY: Final = "schema_name, table_name, asked_file, asked_position, until_file, until_position, state"
_REMEMBERED: Final = 1_000  # tables whose newest version is kept in memory
_LONGEST_STATEMENT: Final = 4096  # characters that are kept of a statement, for people
_DECODER: Final = msgspec.msgpack.Decoder(Fact)
_GONE: Final = msgspec.msgpack.encode(ABSENT)


class Store:
    """The file. One process writes; it is opened after the fork.

    Additions belong to the open transaction until `commit`. After an error, nothing more is committed: SQLite may have
    rolled back earlier additions. Raises `sqlite3.Error`, `Damaged`, `Unreadable`, and `RelayError` for a file of
    a newer release.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._failure: Exception | None = None
        try:
            self._db = for_reading(path) if read_only else opened(path, FORMAT)
        except sqlite3.DatabaseError as error:
            raise _classified(error, path) from error
        try:
            self._db.text_factory = _text
            for table in () if read_only else _TABLES:
                self._execute(table)
            self.epoch = int(self.fact("epoch") or 0)
        except BaseException:
            self._db.close()
            raise
        self._dropped = 0  # since the last check for dropped tables
        # A statement asks again and again for the newest version of few tables. None if another process writes.
        self._newest: dict[TableName, Version | None] | None = None if read_only else {}

    def verify(self) -> dict[TableName, Damaged]:
        """Read the whole file; return the tables with damaged rows. Raises `Unreadable` for any other damage.

        Without the check, a query could miss a damaged row and take an older version for the newest.
        """
        ((found,),) = self._select("PRAGMA integrity_check(1)")
        if found != "ok":
            raise Unreadable(str(found))
        for (key,) in list(self._select("SELECT key FROM facts")):
            self.fact(key)
        damaged = {}
        for kind, columns in (("versions", _VERSION), ("answers", _REPLY)):
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
        """Close the file; uncommitted additions are lost."""
        self._db.close()

    def fact(self, key: str) -> str:
        """Return a fact about the whole history, empty if it does not exist."""
        row = next(self._select("SELECT key, value, crc FROM facts WHERE key = ?", (key,)), None)
        if row and _checksum(row[:2]) != row[2]:
            raise Unreadable(f"the fact {key!r} is not what was written")
        return str(row[1]) if row else ""

    def put_fact(self, key: str, value: str) -> None:
        """Store a fact about the whole history."""
        self._begin()
        self._execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (key, value, _checksum((key, value))))

    def new_epoch(self) -> None:
        """Begin a new epoch: binlog positions mean something else from now on.

        Versions of earlier epochs are kept only for people.
        """
        self.epoch += 1
        self._changed()
        self.put_fact("epoch", str(self.epoch))
        self._execute("DELETE FROM answers")

    def add(self, versions: Iterable[Version]) -> None:
        """Add versions, each the newest of its table."""
        self._begin()
        for version in versions:
            self._changed(version.table)
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
        if self._dropped >= _DROPPED_BETWEEN_CHECKS:
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

    def put_replies(self, replies: Iterable[Reply]) -> None:
        """Store replies; each replaces the earlier reply about its table."""
        self._begin()
        for reply in replies:
            asked, until, state = reply.asked, reply.until, msgspec.msgpack.encode(reply.state)
            row = (*reply.table, asked.file, asked.position, until.file, until.position, state)
            self._execute(
                f"INSERT OR REPLACE INTO answers ({_REPLY}, folded, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, _folded(reply.table), _checksum(row)),
            )

    @property
    def has_changes(self) -> bool:
        """Whether there are uncommitted additions."""
        return self._db.in_transaction

    def commit(self) -> None:
        """Commit the open transaction: its additions survive any kill."""
        self._check()
        if self._db.in_transaction:
            self._execute("COMMIT")

    def flush(self) -> None:
        """Make committed additions survive a failure of the host too."""
        self._execute("PRAGMA wal_checkpoint(FULL)")

    def forget_from(self, sequence: int) -> None:
        """Forget the versions from that number in the journal on: the journal has lost them, and they come again."""
        self._begin()
        self._changed()
        self._execute("DELETE FROM versions WHERE sequence >= ? AND epoch = ?", (sequence, self.epoch))

    def versions(self, table: TableName, *, all_epochs: bool = False) -> Iterator[Version]:
        """Yield the versions of a table in this epoch, newest first; with `all_epochs`, in all epochs."""
        if all_epochs or self._newest is None:
            yield from self._versions(table, all_epochs)
            return
        if table not in self._newest:
            if len(self._newest) >= _REMEMBERED:
                self._newest.clear()
            self._newest[table] = next(self._versions(table), None)
        newest = self._newest[table]
        if newest is not None:
            yield newest
            yield from islice(self._versions(table), 1, None)

    def _versions(self, table: TableName, all_epochs: bool = False) -> Iterator[Version]:
        rows = self._select(
            f"SELECT {_VERSION}, crc FROM versions WHERE schema_name = ? AND table_name = ?"
            " AND (epoch = ? OR ?) ORDER BY id DESC",
            (*table, self.epoch, all_epochs),
        )
        for *row, crc in rows:
            yield _version(self._verified(tuple(row), crc))

    def reply(self, table: TableName) -> Reply | None:
        """Return the last reply about a table."""
        sql = f"SELECT {_REPLY}, crc FROM answers WHERE schema_name = ? AND table_name = ?"
        row = next(self._select(sql, tuple(table)), None)
        return _reply(self._verified(row[:-1], row[-1])) if row else None

    def tables(self, schema: str | None = None) -> list[TableName]:
        """Return the tables with a version or a reply; all, or those of a schema."""
        one = "" if schema is None else "AND schema_name = ? "
        rows = self._select(
            f"SELECT schema_name, table_name FROM versions WHERE table_name <> '' {one}AND epoch = {self.epoch}"
            f" UNION SELECT schema_name, table_name FROM answers WHERE table_name <> '' {one}",
            () if schema is None else (schema, schema),
        )
        return [TableName(str(owner), str(name)) for owner, name in rows]

    def schemas(self) -> list[str]:
        """Return the schemas with a version or a reply."""
        rows = self._select(
            f"SELECT schema_name FROM versions WHERE table_name = '' AND epoch = {self.epoch}"
            " UNION SELECT schema_name FROM answers WHERE table_name = ''"
        )
        return [str(name) for (name,) in rows if name]

    def by_folded_names(self, folded: Iterable[str]) -> list[TableName]:
        """Return the tables whose folded names (`folded_name`) are among these."""
        wanted = msgspec.json.encode(list(folded)).decode()
        rows = self._select(
            "SELECT schema_name, table_name FROM versions"
            " WHERE folded IN (SELECT value FROM json_each(?)) AND epoch = ?"
            " UNION SELECT schema_name, table_name FROM answers WHERE folded IN (SELECT value FROM json_each(?))",
            (wanted, self.epoch, wanted),
        )
        return [TableName(str(owner), str(name)) for owner, name in rows if name]

    def forget(self, table: TableName) -> None:
        """Forget everything about a table."""
        self._begin()
        self._changed(table)
        for kind in ("versions", "answers"):
            self._execute(f"DELETE FROM {kind} WHERE schema_name = ? AND table_name = ?", tuple(table))

    def _changed(self, table: TableName | None = None) -> None:
        """Forget the newest version of a table, or of all."""
        if self._newest is None:
            return
        if table is None:
            self._newest.clear()
        else:
            self._newest.pop(table, None)

    def _select(self, sql: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._db.execute(sql, values)
        except sqlite3.DatabaseError as error:
            self._failure = _classified(error, self.path)
            raise self._failure from error

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        for _ in self._select(sql, values):
            pass

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _begin(self) -> None:
        self._check()
        if not self._db.in_transaction:
            self._execute("BEGIN IMMEDIATE")

    def _verified(self, row: tuple[Any, ...], crc: int) -> tuple[Any, ...]:
        if _checksum(row) != crc:
            raise Damaged(f"a row of {self.path.name}")
        return row


def rename_damaged(path: Path) -> None:
    """Rename an unusable file, so that people can examine it. It replaces an earlier one."""
    for end in ("", "-wal", "-shm"):
        renamed = path.with_name(f"{path.name}.damaged{end}")
        renamed.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(renamed)


def _classified(error: sqlite3.DatabaseError, path: Path) -> Exception:
    """Return the exception for an error of SQLite: `Unreadable` if the file is damaged, not only unreachable."""
    return error if is_out_of_reach(error, path) else Unreadable(str(error))


def _text(data: bytes) -> str:
    """Decode a text of the file. If it is damaged, the checksum of its row does not match."""
    return data.decode("utf-8", "replace")


def _folded(table: TableName) -> str:
    return folded_name(fold(table.schema), fold(table.table))


def _checksum(row: tuple[Any, ...]) -> int:
    return crc32c(msgspec.msgpack.encode(row))


def _version(row: tuple[Any, ...]) -> Version:
    epoch, owner, name, sequence, file, position, gtid, proof, statement, state = row
    found = _DECODER.decode(state)
    return Version(
        TableName(owner, name), found, BinlogPosition(file, position), sequence, Proof(proof), statement, gtid, epoch
    )


def _reply(row: tuple[Any, ...]) -> Reply:
    owner, name, asked_file, asked_position, until_file, until_position, state = row
    asked, until = BinlogPosition(asked_file, asked_position), BinlogPosition(until_file, until_position)
    return Reply(TableName(owner, name), _DECODER.decode(state), asked, until)
