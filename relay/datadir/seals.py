"""Seals of the rows of an SQLite file: the CRC-32C of each row, kept by triggers in a separate table.

SQLite trusts its pages: a flipped bit changes a row, loses rows, or brings back deleted ones. A row and its seal are in
different pages, so each can reveal damage of the other. The schema has seals too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from relay._native import crc32c

_TABLES: Final = (
    "CREATE TABLE seals (owner TEXT NOT NULL, key NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (owner, key))"
    " WITHOUT ROWID",
    "CREATE TABLE changes (number INTEGER NOT NULL)",
    "INSERT INTO changes VALUES (0)",
)
_COUNT: Final = "UPDATE changes SET number = number + 1;"
_TRIGGERS: Final = (
    "CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN"
    " INSERT OR REPLACE INTO seals VALUES ('{table}', NEW.{key}, row_crc({new})); " + _COUNT + " END",
    "CREATE TRIGGER {table}_changed AFTER UPDATE ON {table} BEGIN"
    " UPDATE seals SET crc = row_crc({new}) WHERE owner = '{table}' AND key = +NEW.{key}; " + _COUNT + " END",
    "CREATE TRIGGER {table}_removed AFTER DELETE ON {table} BEGIN"
    " DELETE FROM seals WHERE owner = '{table}' AND key = +OLD.{key}; " + _COUNT + " END",
)
_NUMBERED: Final = (  # for the last number used, which SQLite keeps in a table that cannot have triggers
    "CREATE TRIGGER {table}_numbered AFTER INSERT ON {table} BEGIN"
    " INSERT OR REPLACE INTO seals VALUES ('sqlite_sequence', '{table}', row_crc('{table}', NEW.{key})); END"
)
_OWN: Final = {
    "sqlite_master": "SELECT name, type, tbl_name, sql FROM sqlite_master WHERE tbl_name <> '{unsealed}'",
    "sqlite_sequence": "SELECT name, seq FROM sqlite_sequence",
}


class Flaw(NamedTuple):
    """A row that does not match its seal: its table and key, and its values, or None if there is no such row."""

    table: str
    key: object
    row: tuple[Any, ...] | None


def prepare(database: sqlite3.Connection) -> None:
    """Prepare the connection for writing to a sealed file."""
    database.create_function("row_crc", -1, _checksum, deterministic=True)


def add(database: sqlite3.Connection, unsealed: str = "") -> None:
    """Seal everything in the file except the table `unsealed`, within the open transaction.

    A table's first column is the key of its rows. Raises `sqlite3.Error`.
    """
    tables = [table for table in _tables(database) if table != unsealed]
    for statement in _TABLES:
        database.execute(statement)
    for table in tables:
        columns = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
        [(sql,)] = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,))
        triggers = (*_TRIGGERS, _NUMBERED) if "AUTOINCREMENT" in sql else _TRIGGERS
        for trigger in triggers:
            new = ", ".join(f"NEW.{name}" for name in columns)
            database.execute(trigger.format(table=table, key=columns[0], new=new))
    for table, query in _queries(tables, unsealed):
        rows = [(table, row[0], _checksum(*row)) for row in database.execute(query)]
        database.executemany("INSERT INTO seals VALUES (?, ?, ?)", rows)


def is_sealed(database: sqlite3.Connection) -> bool:
    """Whether the file has seals."""
    return "seals" in _tables(database)


def changes(database: sqlite3.Connection) -> int:
    """Return the number of rows added, changed or removed since the file was sealed."""
    [(number,)] = database.execute("SELECT number FROM changes")
    return int(number)


def flaws(database: sqlite3.Connection, unsealed: str = "") -> list[Flaw]:
    """Return the rows that were changed, are missing, or were never written. Read the whole file.

    Raises `sqlite3.Error`.
    """
    tables = [table for table in _tables(database) if table not in ("seals", "changes", unsealed)]
    seals = {(owner, key): crc for owner, key, crc in _rows(database, "SELECT owner, key, crc FROM seals")}
    found = [
        Flaw(table, row[0], row)
        for table, query in _queries(tables, unsealed)
        for row in _rows(database, query)
        if seals.pop((table, row[0]), None) != _checksum(*row)
    ]
    counted = list(_rows(database, "SELECT number FROM changes"))
    if [type(number) for (number,) in counted] != [int]:
        found.append(Flaw("changes", 1, None))
    return found + [Flaw(str(owner), key, None) for owner, key in seals]


def _queries(tables: list[str], unsealed: str) -> Iterator[tuple[str, str]]:
    for table, query in _OWN.items():
        yield table, query.format(unsealed=unsealed)
    for table in tables:
        yield table, f"SELECT * FROM {table}"


def _tables(database: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    return [str(name) for (name,) in database.execute(query)]


def _rows(database: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """Read rows of a file that may be damaged. Invalid text stays different from all valid text."""
    database.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    try:
        yield from database.execute(query)
    finally:
        database.text_factory = str


def _checksum(*values: object) -> int:
    texts = [(each.encode(errors="surrogateescape"),) if isinstance(each, str) else each for each in values]
    return crc32c(msgspec.msgpack.encode(texts))
