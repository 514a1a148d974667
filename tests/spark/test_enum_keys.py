"""Number 0 of an ENUM, which is not a label, and the label '': both print alike but are two keys."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.dbserver import DatabaseServer
from examples.lakeside import wait_caught_up
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from relay.spark import current
from tests.support.relay_process import RelayProcess

COLUMNS = "e ENUM('a', '') CHARACTER SET latin1 PRIMARY KEY, n INT, s SET('', 'b')"
ROWS = "('none', 0, ''), ('a', 1, 'b'), (2, 2, 1)"


@pytest.mark.parametrize("kind", ["mysql97", pytest.param("mariadb1011", marks=pytest.mark.smoke)])
def test_no_label_and_the_empty_one_are_two_keys(
    kind: str,
    own_server: Callable[..., DatabaseServer],
    start_relay: Callable[..., RelayProcess],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    server = own_server(kind, "--binlog-row-metadata=FULL")
    server.execute("CREATE DATABASE shop")
    lake_path = str(tmp_path / "lake")
    with closing(server.connect(database="shop")) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")  # takes what is no label
        for table in ("early", "late"):
            cursor.execute(f"CREATE TABLE {table} ({COLUMNS})")
        cursor.execute(f"INSERT INTO early VALUES {ROWS}")  # which only a snapshot can bring
        start_relay(server, {"Source.Tables": "shop.*", "Lake.Tables": "shop.*", "Lake.Path": lake_path})
        cursor.execute(f"INSERT INTO late VALUES {ROWS}")
        cursor.execute("UPDATE late SET n = 10 WHERE e = 0")
        cursor.execute("UPDATE late SET n = 12 WHERE e = 2")
        cursor.execute("DELETE FROM late WHERE e = 'a'")
    log = LakeLog(open_storage(lake_path))
    tables = [Table("shop", "early"), Table("shop", "late")]
    wait_caught_up(log, server, tables, 60)
    found = {
        table.table: {(row.e, row.e__text, row.n, tuple(row.s)) for row in current(spark, log, table).collect()}
        for table in tables
    }
    assert found["late"] == {(None, "", 10, ()), ("", None, 12, ("",))}
    assert found["early"] == {(None, "", 0, ()), ("a", None, 1, ("b",)), ("", None, 2, ("",))}
