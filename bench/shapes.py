"""Three shapes of work, each at the end of a binlog: narrow and wide rows, many per event; tiny transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from examples.dbserver import DatabaseServer

NARROW = ("id BIGINT PRIMARY KEY", "customer INT", "amount DECIMAL(10,2)", "created DATETIME", "note VARCHAR(32)")
NARROW_VALUES = "n, n % 9973, n % 100000 / 100, '2026-01-01' + INTERVAL n SECOND, CONCAT('note ', n)"
WIDE = (
    *("id BIGINT PRIMARY KEY", "a INT", "b INT UNSIGNED", "c SMALLINT", "d TINYINT", "e BIGINT", "f DOUBLE", "g FLOAT"),
    *("h DECIMAL(10,2)", "i DECIMAL(20,6)", "j DATETIME", "k DATETIME(6)", "l TIMESTAMP", "m DATE", "o TIME", "p YEAR"),
    *("q VARCHAR(32)", "r VARCHAR(64)", "s CHAR(8)", "t TEXT"),
)
WIDE_VALUES = """n, n * 7, n % 4000000000, n % 30000, n % 100, n * 1000003, n / 7, n / 3, n % 100000 / 100, n / 1000,
  '2026-01-01' + INTERVAL n SECOND, '2026-01-01 00:00:00.5' + INTERVAL n SECOND, '2026-01-02' + INTERVAL n SECOND,
  '2026-01-01' + INTERVAL n % 1000 DAY, SEC_TO_TIME(n % 86400), 1970 + n % 100, CONCAT('customer ', n),
  CONCAT('a street with some name, number ', n), n % 10000000, CONCAT('a text of some length, which differs: ', n)"""
FULL = ("--binlog-row-metadata=FULL",)
BATCH = 50_000  # rows per transaction, where a transaction has many


@dataclass(frozen=True)
class Shape:
    """One kind of work. `rows` are in the last binlog file of `server`, `file`, in table `bench.<name>`."""

    name: str
    rows: int
    transactions: int
    file: str
    server: DatabaseServer


class Shapes:
    """All shapes, each on its own server and created on first use; the `with` block ends the servers.

    A dump that does not wait ends with the last binlog file, so nothing may follow what is read.
    """

    def __init__(self, scale: float, step: Callable[[str], None]) -> None:
        self._scale, self._step = scale, step
        self._stack = ExitStack()
        self._done: dict[str, Shape] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[Shape]:
        for name, fill in _SHAPES.items():
            if name not in self._done:
                self._step(f"{name}: writing it to a server of its own")
                server = self._stack.enter_context(DatabaseServer("mysql97", options=FULL))
                server.execute("CREATE DATABASE bench")
                self._done[name] = fill(server, name, self._scale)
            yield self._done[name]


def create(server: DatabaseServer, name: str, columns: tuple[str, ...]) -> None:
    """Creates the empty table of a shape."""
    server.execute(f"DROP TABLE IF EXISTS bench.{name}", f"CREATE TABLE bench.{name} ({', '.join(columns)})")


def insert(server: DatabaseServer, name: str, values: str, first: int, rows: int, each: int = BATCH) -> None:
    """Inserts `rows` rows numbered from `first`, in transactions of `each` rows."""
    for begin in range(first, first + rows, each):
        count = min(each, first + rows - begin)
        server.execute(
            "SET SESSION cte_max_recursion_depth = 1000000",
            f"INSERT INTO bench.{name} WITH RECURSIVE numbers (n) AS"
            f" (SELECT {begin} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {begin + count})"
            f" SELECT {values} FROM numbers",
        )


def _narrow(server: DatabaseServer, name: str, scale: float) -> Shape:
    return bulk_shape(server, name, NARROW, NARROW_VALUES, int(1_500_000 * scale))


def _wide(server: DatabaseServer, name: str, scale: float) -> Shape:
    return bulk_shape(server, name, WIDE, WIDE_VALUES, int(450_000 * scale))


def bulk_shape(server: DatabaseServer, name: str, columns: tuple[str, ...], values: str, rows: int) -> Shape:
    """A shape whose rows have these columns and values, at the end of the server's binlog for now."""
    create(server, name, columns)
    file = next_file(server)
    insert(server, name, values, 1, rows)
    return Shape(name, rows, -(-rows // BATCH), file, server)


def one_by_one(server: DatabaseServer, name: str) -> Callable[[int, int], object]:
    """A function that inserts narrow rows, each in a transaction: its arguments are the first number and how many."""
    server.execute(
        f"DROP PROCEDURE IF EXISTS bench.each_{name}",
        f"""CREATE PROCEDURE bench.each_{name}(IN first INT, IN count INT)
            BEGIN
              DECLARE n INT DEFAULT first;
              WHILE n < first + count DO
                INSERT INTO bench.{name} SELECT {NARROW_VALUES};
                SET n = n + 1;
              END WHILE;
            END""",
    )
    return lambda first, rows: server.execute(f"CALL bench.each_{name}({first}, {rows})")


def _single_shape(server: DatabaseServer, name: str, scale: float) -> Shape:
    rows = max(20_000, int(120_000 * scale))  # fewer would give too few commits per tenth
    create(server, name, NARROW)
    insert_each = one_by_one(server, name)
    file = next_file(server)
    insert_each(1, rows)
    return Shape(name, rows, rows, file, server)


def next_file(server: DatabaseServer) -> str:
    """Starts a new binlog file and returns its name."""
    status = "SHOW BINARY LOG STATUS" if server.kind.mysql else "SHOW MASTER STATUS"
    return str(server.execute("FLUSH BINARY LOGS", status)[0][0])


_SHAPES: dict[str, Callable[[DatabaseServer, str, float], Shape]] = {
    "narrow": _narrow,
    "wide": _wide,
    "single": _single_shape,
}
