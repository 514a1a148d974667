"""Two tables whose definitions change between their rows; each column of a row contains its own name."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pymysql

from examples.dbserver import DatabaseServer
from relay.binlog.events.position import BinlogPosition
from relay.ddl.syntax import TableName
from relay.schema.store import SCHEMA_FILE, Store
from tests.support.lagging_reader import write

TABLES: Final = ("t", "u")


def _changes(db: str) -> list[list[str]]:
    spare, other = f"{db}.spare", f"{db}.u"
    return [
        [f"ALTER TABLE {db}.t RENAME COLUMN a TO b, RENAME COLUMN b TO a"],
        [f"ALTER TABLE {db}.t ADD c INT FIRST", f"ALTER TABLE {db}.t DROP c"],
        [f"ALTER TABLE {db}.t MODIFY a INT AFTER b", f"ALTER TABLE {db}.t MODIFY a INT FIRST"],
        [f"RENAME TABLE {db}.t TO {spare}, {other} TO {db}.t, {spare} TO {other}"],
        [f"DROP TABLE {other}", f"CREATE TABLE {other} LIKE {db}.t"],
        [f"CREATE INDEX i ON {db}.t (a)", f"DROP INDEX i ON {db}.t"],
    ]


@contextmanager
def changing_tables(server: DatabaseServer, db: str) -> Iterator[None]:
    """Makes the tables, and changes and fills them until the end of the block."""
    ended, order = threading.Event(), random.Random(7)

    def work() -> None:
        with server.connect(database=db) as connection, connection.cursor() as cursor:
            while True:
                for change in order.sample(_changes(db), k=len(_changes(db))):
                    for statement in change:
                        if ended.is_set():
                            return
                        cursor.execute(statement)
                        for table in TABLES:
                            with suppress(pymysql.err.ProgrammingError):  # it is dropped, for the moment
                                write(cursor, db, table)
                        connection.commit()

    server.execute(*(f"CREATE TABLE {db}.{table} (a INT, b INT)" for table in TABLES))
    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        ended.set()
        worker.join()


def history_in(folder: Path) -> dict[TableName, list[tuple[BinlogPosition, object]]]:
    """The schema history of a DataDir: the versions of each table."""
    store = Store(folder / SCHEMA_FILE, read_only=True)
    try:
        return {table: [(each.since, each.state) for each in store.versions(table)] for table in store.tables()}
    finally:
        store.close()
