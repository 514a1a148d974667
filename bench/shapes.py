"""Three shapes of work, each in a binlog file of its own: narrow and wide rows, many to an event; tiny transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
BATCH = 50_000  # rows of one transaction, where a transaction has many


@dataclass(frozen=True)
class Shape:
    """One kind of work. `rows` stand in the binlog file `file`, in table `bench.<name>`."""

    name: str
    rows: int
    transactions: int
    file: str


def fill(server: DatabaseServer, scale: float) -> Iterator[Shape]:
    """Do the work of each shape, each in a binlog file that begins and ends with it."""
    server.execute("CREATE DATABASE IF NOT EXISTS bench")
    yield _many_to_an_event(server, "narrow", NARROW, NARROW_VALUES, int(1_500_000 * scale))
    yield _many_to_an_event(server, "wide", WIDE, WIDE_VALUES, int(450_000 * scale))
    yield _one_by_one(server, "single", int(120_000 * scale))


def create(server: DatabaseServer, name: str, columns: tuple[str, ...]) -> None:
    """The table of a shape, empty."""
    server.execute(f"DROP TABLE IF EXISTS bench.{name}", f"CREATE TABLE bench.{name} ({', '.join(columns)})")


def insert(server: DatabaseServer, name: str, values: str, first: int, rows: int) -> None:
    """Insert `rows` rows numbered from `first`, in transactions of BATCH rows."""
    for begin in range(first, first + rows, BATCH):
        count = min(BATCH, first + rows - begin)
        server.execute(
            "SET SESSION cte_max_recursion_depth = 1000000",
            f"INSERT INTO bench.{name} WITH RECURSIVE numbers (n) AS"
            f" (SELECT {begin} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {begin + count})"
            f" SELECT {values} FROM numbers",
        )


def _many_to_an_event(server: DatabaseServer, name: str, columns: tuple[str, ...], values: str, rows: int) -> Shape:
    create(server, name, columns)
    file = _next_file(server)
    insert(server, name, values, 1, rows)
    return Shape(name, rows, -(-rows // BATCH), file)


def _one_by_one(server: DatabaseServer, name: str, rows: int) -> Shape:
    create(server, name, NARROW)
    server.execute(
        "DROP PROCEDURE IF EXISTS bench.one_by_one",
        f"""CREATE PROCEDURE bench.one_by_one(IN first INT, IN count INT)
            BEGIN
              DECLARE n INT DEFAULT first;
              WHILE n < first + count DO
                INSERT INTO bench.{name} SELECT {NARROW_VALUES};
                SET n = n + 1;
              END WHILE;
            END""",
    )
    file = _next_file(server)
    server.execute(f"CALL bench.one_by_one(1, {rows})")
    return Shape(name, rows, rows, file)


def _next_file(server: DatabaseServer) -> str:
    status = "SHOW BINARY LOG STATUS" if server.kind.mysql else "SHOW MASTER STATUS"
    return str(server.execute("FLUSH BINARY LOGS", status)[0][0])
