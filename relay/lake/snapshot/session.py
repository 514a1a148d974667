"""A connection that rows are read over: in UTC, every value as the bytes that the server prints, none converted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Self

import pyarrow as pa
import pymysql
from pymysql.connections import Connection
from pymysql.cursors import SSCursor

from relay.binlog.connect import Account, connect, failed
from relay.binlog.facts import ServerFacts

_ROWS_AT_A_TIME: Final = 4096
_READ_SECONDS: Final = 30
"""That a statement may take to its first row, less than what a process may be silent for."""
_SETTINGS: Final = (
    "SET time_zone = '+00:00', sql_mode = '', character_set_results = NULL, sql_select_limit = 18446744073709551615,"
    " sql_big_selects = 1, net_write_timeout = 3600, lock_wait_timeout = 2, innodb_lock_wait_timeout = 5"
)
_NO_TIME_LIMIT: Final = {True: "SET max_statement_time = 0", False: "SET max_execution_time = 0"}

Row = Sequence[bytes | None]


class Session:
    """Failures are `SourceLost`, or `RelayError` where another attempt cannot help."""

    def __init__(self, account: Account, server: ServerFacts) -> None:
        self._connection: Connection[Any] = connect(
            account, use_unicode=False, conv={}, cursorclass=SSCursor, read_timeout=_READ_SECONDS
        )
        self.execute(_SETTINGS)
        self.execute(_NO_TIME_LIMIT[server.mariadb])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What is unread is given up."""
        if self._connection.open:
            self._connection.close()

    def execute(self, sql: str) -> list[Row]:
        """All rows of a statement."""
        return [row for rows in self.stream(sql) for row in rows]

    def end(self) -> None:
        """End the transaction that the session is in, if its connection is still there."""
        if self._connection.open:
            self.execute("ROLLBACK")

    def stream(self, sql: str) -> Iterator[list[Row]]:
        """The rows of a statement as they come, some thousands at a time."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                while rows := cursor.fetchmany(_ROWS_AT_A_TIME):
                    yield list(rows)
        except pymysql.MySQLError as error:
            raise failed(error, "read rows") from error


def literal(text: str) -> str:
    """Text as SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def columns(rows: Sequence[Row], count: int) -> list[pa.Array]:
    """Rows of so many values as arrays of binary."""
    if not rows:
        return [pa.array([], pa.binary())] * count
    return [pa.array(column, pa.binary()) for column in zip(*rows, strict=True)]
