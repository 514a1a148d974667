"""Merges the random life of a table into a table of an Iceberg catalog, and compares the two after each merge.

    python -m tests.spark.catalog_life FOLDER JAR SEED

It runs with the newest pyspark for which there is an Iceberg in the package registry: 3.5. That has no data source of
the relay, reads no wider types than a file has, and makes no DataFrame of Arrow's rows: so Spark reads all files.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import relay.lake
from relay.base.errors import RelayError
from relay.lake.tables import open_log
from relay.spark import reading
from relay.spark.into import merge_into
from relay.spark.progress import Progress
from tests.spark.lakes import MadeLake

ORDERS, ITEMS, TARGET = "shop.Order lines", "item`s", "local.shop.order_lines"
ROUNDS, STEPS = 8, 20


class Life:
    """A table with a key of two columns, and what it must hold."""

    def __init__(self, lake: MadeLake, seed: int) -> None:
        self.lake = lake
        self.chance = random.Random(seed)
        self.columns = {"a": "int", "b": "string", ITEMS: "bigint"}
        self.rows: dict[tuple[int, str], dict[str, Any]] = {}
        self.define()
        lake.mark(ORDERS, "create")

    def define(self) -> None:
        self.lake.define(ORDERS, self.columns, key=["a", "b"])

    def fresh(self) -> dict[str, Any]:
        return {
            name: {"a": self.chance.randrange(6), "b": self.chance.choice("xyz'")}.get(name, self.chance.randrange(99))
            for name in self.columns
        }

    def step(self) -> None:
        """A statement on a row."""
        row = self.fresh()
        key = row["a"], row["b"]
        if key not in self.rows:
            self.lake.insert(ORDERS, row)
            self.rows[key] = row
        elif self.chance.random() < 0.3:
            self.lake.delete(ORDERS, self.rows.pop(key))
        else:
            other = self.chance.choice(sorted(self.rows))
            before = self.rows.pop(other)
            after = row if other == key else row | {"a": 100 + len(self.rows), "b": "moved"}
            self.lake.update(ORDERS, before, after)
            self.rows[after["a"], after["b"]] = after

    def turn(self, number: int) -> None:
        """Something for the whole table, by turns."""
        self.lake.commit()
        match number % 4:
            case 1:
                self.lake.mark(ORDERS, "truncate")
                self.rows.clear()
            case 2:
                self.lake.mark(ORDERS, "reset")
                self.lake.commit()
                for row in self.rows.values():
                    row[ITEMS] += 1
                self.lake.snapshot(ORDERS, *self.rows.values())
                self.lake.commit()
            case 3:
                self.columns |= {f"more {number}": "int"}
                self.define()
                for row in self.rows.values():
                    row[f"more {number}"] = None
        self.lake.commit()


def main() -> None:
    """Live for some rounds; ends with an error at the first difference."""
    folder, jar, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.local", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.local.type", "hadoop")
        .config("spark.sql.catalog.local.warehouse", str(folder / "warehouse"))
        .config("spark.sql.warehouse.dir", str(folder / "plain"))
        .getOrCreate()
    )
    reading.MOST_BYTES = 0  # type: ignore[misc]
    lake = MadeLake(folder / "lake")
    life = Life(lake, seed)
    log = open_log(lake.url)
    for number in range(ROUNDS):
        for _ in range(STEPS):
            life.step()
        lake.commit()
        if number >= ROUNDS // 2:
            life.turn(number)
        table = next(iter(log.state().tables.values())).table
        print(merge_into(spark, log, table, TARGET, Progress(spark)))
        found = sorted(map(repr, (row.asDict() for row in spark.table(TARGET).collect())))
        expected = relay.lake.current(lake.url, ORDERS).read_all().to_pylist()
        assert len(expected) == len(life.rows)
        assert found == sorted(map(repr, expected)), f"round {number}: {found} {expected}"
        print(f"equal: {len(found)} rows")
    spark.sql("CREATE TABLE local.shop.narrow (a INT, mine STRING, `item``s` INT) USING iceberg")
    spark.sql("INSERT INTO local.shop.narrow VALUES (-1, 'stays', 1)")
    print(merge_into(spark, log, table, "local.shop.narrow", Progress(spark)))
    narrow = spark.table("local.shop.narrow").drop("mine").select(*(f"`{n.replace('`', '``')}`" for n in life.columns))
    assert sorted(map(repr, (row.asDict() for row in narrow.collect()))) == found
    spark.sql("CREATE TABLE plain (a INT, b STRING) USING parquet")
    try:
        merge_into(spark, log, table, "spark_catalog.default.plain", Progress(spark))
    except RelayError as error:
        print(error)


if __name__ == "__main__":
    main()
