"""A connection that reads rows in UTC: each value as the bytes that the server prints, without conversion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Self

import pyarrow as pa
import pymysql
from pymysql.connections import Connection
from pymysql.cursors import SSCursor

from relay.source.connect import Account, classify_driver_error, connect
from relay.source.facts import ServerFacts

_ROWS_AT_A_TIME: Final = 4096
_READ_SECONDS: Final = 30
"""The time for the first row of a statement: less than a process may be silent."""
_SETTINGS: Final = (
    "SET time_zone = '+00:00', sql_mode = '', character_set_results = NULL, sql_select_limit = 18446744073709551615,"
    " sql_big_selects = 1, net_write_timeout = 3600, lock_wait_timeout = 2, innodb_lock_wait_timeout = 5"
)
_NO_TIME_LIMIT: Final = {True: "SET max_statement_time = 0", False: "SET max_execution_time = 0"}

Row = Sequence[bytes | None]


class Session:
    """A connection for reading rows. Raises `SourceLost`, or `RelayError` if another attempt cannot help."""

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
        """Close the connection; unread rows are discarded."""
        if self._connection.open:
            self._connection.close()

    def execute(self, sql: str) -> list[Row]:
        """Return all rows of a statement."""
        return [row for rows in self.stream(sql) for row in rows]

    def end(self) -> None:
        """Roll back the session's transaction, if the connection is still open."""
        if self._connection.open:
            self.execute("ROLLBACK")

    def stream(self, sql: str) -> Iterator[list[Row]]:
        """Yield the rows of a statement as they arrive, up to 4096 at a time."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                while rows := cursor.fetchmany(_ROWS_AT_A_TIME):
                    yield list(rows)
        except pymysql.MySQLError as error:
            raise classify_driver_error(error, "read rows") from error


def literal(text: str) -> str:
    """Quote text for SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def columns(rows: Sequence[Row], count: int) -> list[pa.Array]:
    """Transpose rows of `count` values to arrays of binary."""
    if not rows:
        return [pa.array([], pa.binary())] * count
    return [pa.array(column, pa.binary()) for column in zip(*rows, strict=True)]
