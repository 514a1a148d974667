"""A column that a statement adds or drops appears or disappears before a row comes: in states, streams and history."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relay.ddl import Dialect
from relay.ddl.dialect import packed
from relay.ddl.syntax import DataType
from relay.lake.exporter import Exporter, Settings
from relay.lake.storage import open_storage
from relay.schema import history
from relay.schema.matching import definition
from relay.schema.table import Column, Table
from relay.spark import changes, current
from tests.spark.lakes import MadeLake
from tests.spark.states import ORDERS, merged, state
from tests.spark.test_source import Streams, message
from tests.support.exported_lake import export
from tests.support.journal_builder import INSERT, NOON, Made, row

DIALECT = Dialect(False, 90704)
ID = Column("id", DataType("int", 11), nullable=False)
NAME = Column("name", DataType("varchar", 20, charset="utf8mb4"))
MORE = Column("more", DataType("int", 11))


class Source(MadeLake):
    """A journal with statements and rows of the table ORDERS, and the lake that it is exported to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "lake")
        self.made = Made(folder / "journal")

    def execute(self, text: str, *columns: Column) -> None:
        """A statement that leaves the table with these columns."""
        table = Table("shop", "orders", columns, (), "utf8mb4", frozenset({"id"}))
        outcomes = history.packed([("shop", "orders", table)])
        self.made.writer.ddl(self.made.place, NOON, "shop", text, packed(DIALECT), outcomes)
        self.made.commit()
        self._export()

    def rows(self, *ids: int) -> None:
        """Rows of an id and a name."""
        table = Table("shop", "orders", (ID, NAME), (), "utf8mb4", frozenset({"id"}))
        handle = self.made.define(*definition(table, DIALECT).columns, table="orders")
        self.made.rows(INSERT, *map(row, ids), table=handle)
        self.made.commit()
        self._export()

    def _export(self) -> None:
        self.made.flush()
        export(Exporter(open_storage(self.url), self.made.folder, Settings()))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    source = Source(tmp_path)
    source.execute("CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))", ID, NAME)
    return source


def test_a_table_has_its_columns_from_its_creation_on(spark: SparkSession, source: Source) -> None:
    assert current(spark, source.url, ORDERS).columns == ["id", "name"]
    merged(spark, source)
    assert state(spark, source) == []
    source.rows(1)
    assert state(spark, source) == [{"id": 1, "name": "x"}]


def test_the_state_has_a_column_or_lacks_it_from_the_statement_on(spark: SparkSession, source: Source) -> None:
    source.rows(1, 2)
    merged(spark, source)
    source.execute("ALTER TABLE orders ADD more INT", ID, NAME, MORE)
    assert state(spark, source) == [{"id": 1, "name": "x", "more": None}, {"id": 2, "name": "x", "more": None}]
    source.execute("ALTER TABLE orders DROP name", ID, MORE)
    assert state(spark, source) == [{"id": 1, "more": None}, {"id": 2, "more": None}]
    merged(spark, source)
    assert state(spark, source) == [{"id": 1, "more": None}, {"id": 2, "more": None}]
    past = changes(spark, source.url, ORDERS, until=3).where("_change_type = 'insert'")
    assert [each.name for each in past.collect()] == ["x", "x"], "what was is still to be read"


def test_the_state_before_a_reset_keeps_its_columns(spark: SparkSession, source: Source) -> None:
    source.rows(1)
    wide = Column("id", NAME.type, nullable=False)
    source.execute("ALTER TABLE orders MODIFY id VARCHAR(20), DROP name", wide)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert state(spark, source) == [{"id": 1, "name": "x"}]
    assert "not known yet" in str(told[0].message)


@pytest.mark.streams
def test_a_stream_ends_at_a_row_with_a_new_column_and_not_at_the_statement(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    source.rows(1)
    streams = Streams(spark, source, tmp_path)
    old = streams.frame()
    source.execute("ALTER TABLE orders ADD more INT", ID, NAME, MORE)
    streams.run(old)
    assert streams.ids() == [1]
    assert "more" in streams.frame().columns
    source.execute("TRUNCATE TABLE orders", ID, NAME, MORE)
    assert "the column more was added" in message(lambda: streams.run(old))
    streams.run(streams.frame())
    source.execute("ALTER TABLE orders DROP more", ID, NAME)
    source.rows(2)
    streams.run(streams.frame())
    assert streams.ids() == [1, 2]
