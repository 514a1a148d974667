"""The connections that define tables and fill them, each in its own process."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.sharedctypes import Synchronized
from typing import Any, Final, NamedTuple

import pymysql

from examples.dbserver import PASSWORD, USER
from tests.names.workload import SCHEMAS, TABLES, Workload, insert

DEFINERS, FILLERS = 10, 4
_WAIT_SECONDS: Final = 5
_LOST: Final = (2006, 2013)
_SESSIONS: Final = (
    ("", "`"), ("", "`"), ("", ""), ("ANSI_QUOTES", '"'), ("NO_BACKSLASH_ESCAPES", "`"), ("REAL_AS_FLOAT", "`"),
)  # fmt: skip
"""The sql_mode of each definer in turn, and its quotation mark for names."""


class Counts(NamedTuple):
    """The writers' counters, and what the run tells them to do."""

    statements: Synchronized[int]
    failed: Synchronized[int]
    held: Synchronized[int]  # 1 while the writers wait for the readers
    until: Synchronized[float]  # time.time()


def define(port: int, number: int, seed: int, mysql: bool, counts: Counts) -> None:
    """Run a connection that defines tables and writes rows after each statement."""
    mode, quote = _SESSIONS[number % len(_SESSIONS)]
    with _connect(port, mode) as cursor:
        schema = SCHEMAS[number % 2]
        cursor.execute(f"USE {schema}")
        workload = Workload(random.Random(seed), mysql, lambda table: _columns(cursor, table), schema, quote)
        while _goes_on(counts):
            for statement in workload.statements():
                done = _do(cursor, statement)
                with counts.statements, counts.failed:
                    counts.statements.value += done
                    counts.failed.value += not done
                for each in workload.rows() if "TEMPORARY" not in statement else ():
                    _do(cursor, each)


def fill(port: int, number: int, seed: int, mysql: bool, counts: Counts) -> None:
    """Run a connection that writes rows to any table while others change it."""
    dice = random.Random(seed)
    columns: dict[str, list[str]] = {}
    with _connect(port, "") as cursor:
        while _goes_on(counts):
            _do(cursor, "BEGIN")
            for _ in range(dice.choice((1, 1, 2))):
                table = f"{dice.choice(SCHEMAS[:2])}.t{dice.randrange(TABLES)}"
                if dice.random() < 0.5:
                    _do(cursor, f"INSERT INTO {table} () VALUES {','.join(['()'] * dice.choice((1, 5, 30, 80)))}")
                elif not (columns.get(table) and _do(cursor, insert(dice, table, columns[table]))):
                    columns[table] = _columns(cursor, table)
            _do(cursor, "COMMIT")


@contextmanager
def _connect(port: int, mode: str) -> Iterator[Any]:
    with (
        closing(
            pymysql.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD, autocommit=True)
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"SET SESSION lock_wait_timeout = {_WAIT_SECONDS}, innodb_lock_wait_timeout = {_WAIT_SECONDS}")
        cursor.execute(f"SET SESSION sql_mode = '{mode}'")
        yield cursor


def _goes_on(counts: Counts) -> bool:
    while counts.held.value and time.time() < counts.until.value:
        time.sleep(0.05)
    return time.time() < counts.until.value


def _columns(cursor: Any, table: str) -> list[str]:
    """The columns that an INSERT may name."""
    if not _do(cursor, f"SHOW COLUMNS FROM {table}"):
        return []
    return [str(row[0]) for row in cursor.fetchall() if row[0] != "id" and "GENERATED" not in str(row[5])]


def _do(cursor: Any, statement: str) -> bool:
    """Run the statement. False if the server refused it."""
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        if error.args[0] in _LOST:
            raise
        return False
    return True
