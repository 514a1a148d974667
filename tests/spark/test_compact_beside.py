"""Compaction and merges over and over, beside a real export and a real snapshot of a busy server."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from examples.dbserver import DatabaseServer
from relay.lake.documents import Table
from relay.lake.log import LakeLog, verify
from relay.lake.storage import open_storage
from relay.spark import compact, current, merge
from tests.support.snapshot_lake import Lake, MakeReader, running, writer


def busy(chance: random.Random) -> list[str]:
    """A transaction of inserts, updates, key changes and deletes."""
    one, other = chance.randrange(400), chance.randrange(400)
    statements = [
        f"REPLACE INTO t VALUES ({one}, {chance.random()})",
        f"UPDATE t SET v = {chance.random()} WHERE id BETWEEN {one} AND {one + 3}",
        f"UPDATE IGNORE t SET id = {one} WHERE id = {other}",
        f"DELETE FROM t WHERE id = {one}",
    ]
    return chance.sample(statements, chance.randint(1, 3))


def test_neither_export_nor_snapshot_nor_merge_is_disturbed(
    mariadb118: DatabaseServer,
    make_db: Callable[[DatabaseServer], str],
    make_reader: MakeReader,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    db = make_db(mariadb118)
    mariadb118.execute(
        f"USE {db}",
        "CREATE TABLE t (id INT PRIMARY KEY, v DOUBLE)",
        f"INSERT INTO t VALUES {', '.join(f'({number}, 0)' for number in range(0, 400, 2))}",
    )
    lake = Lake(mariadb118, db, tmp_path, make_reader)
    url, table = lake.storage.url(), Table(db, "t")
    replaced: list[int] = []

    def tidy() -> None:
        log = LakeLog(open_storage(url))
        if f"{db}.t" in log.state().tables:
            replaced.append(compact.compact(spark, log, table).files)
            merge.merge(spark, log, table)

    with running(*(writer(mariadb118, db, seed, busy) for seed in range(2)), tidy), lake.exporting():
        lake.fetch(most_rows=5)
        while sum(replaced) < 50:
            time.sleep(0.05)
    lake.export()
    lake.check("t")
    merge.merge(spark, LakeLog(open_storage(url)), table)
    (rows,) = mariadb118.execute(f"SELECT COUNT(*), SUM(id) FROM {db}.t")
    state = current(spark, url, table)
    assert state.selectExpr("count(*)", "sum(id)").first() == tuple(rows)
    log = LakeLog(open_storage(url))
    assert verify(log.storage, log.state()) == []
