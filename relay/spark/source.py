"""The Python data source "relay": a table's changes as a DataFrame, and as a stream by `_seq`.

    spark.read.format("relay").option("lake", "/srv/lake").option("table", "shop.orders").load()
    spark.readStream.format("relay").option("lake", "/srv/lake").option("table", "shop.orders").load()

Spark creates these objects anew in each of its processes: planning, offsets and reading share only what is pickled with
the source and its partitions. All of them need this package installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from relay.base.errors import ErrorCode, RelayError
from relay.lake.tables import bounds_of
from relay.spark import offsets
from relay.spark.options import Options, check_user_schema, columns_of, log_of, table_of
from relay.spark.ranges import SeqRange, ranges, read
from relay.spark.schema import struct_type

if TYPE_CHECKING:
    import pyarrow

NAME: Final = "relay"


class RelayDataSource(DataSource):
    """The data source.

    Options: `lake` (path or URL) and `table` ("shop.orders"); `rows` ("changes" or "upserts"); `since` and `until` for
    batch reads; `start` and `max_rows` for streams. Without a user's schema, the columns are those of
    `relay.spark.changes`, and for upserts those of `added_fields`. With one, only its columns are read.
    """

    columns_until: int | None = None
    """The newest version when Spark asked for the schema; None if the user gave one. Pickled with the source."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """Return the current columns of the table's changes."""
        options = Options(self.options)
        table = table_of(log_of(options).state(), options)
        self.columns_until = table.version.version
        return struct_type(columns_of(table, options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a DataFrame."""
        return ChangesReader(Options(self.options), schema, self.columns_until)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream. Raises `RelayError` (environment) if this pyspark has no such streams."""
        if find_spec("pyspark.sql.streaming.datasource") is None:
            cause, hint = f"pyspark {pyspark.__version__} has no limits of batches", "use pyspark 4.2 or newer"
            raise RelayError(ErrorCode.ENVIRONMENT, 'stream format("relay")', f"{cause} ({hint})", hint=hint)
        from relay.spark.stream import ChangesStreamReader

        return ChangesStreamReader(Options(self.options), schema, self.columns_until)


class ChangesReader(DataSourceReader):
    """Read changes, and rows of snapshots, once.

    It supports no filters: a reader with `pushFilters` fails every query while
    `spark.sql.python.filterPushdown.enabled` is false, which is the default. `since` and `until` are its filters.
    """

    def __init__(self, options: Options, schema: StructType, columns_until: int | None) -> None:
        self._options = options
        self._schema = schema
        if columns_until is None:
            check_user_schema(schema, table_of(log_of(options).state(), options), options)

    def partitions(self) -> Sequence[InputPartition]:
        """Group neighbouring files, one group for each task."""
        state = log_of(self._options).state()
        table = table_of(state, self._options)
        start, end = -1 if self._options.since is None else self._options.since, self._options.until
        if self._options.upserts:
            known = bounds_of(state, table).until
            end = known if end is None else min(end, known)
        files = offsets.files_between(table.files.values(), start, end)
        return ranges(self._options, state, table.version, files, start, end)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a partition's files."""
        if not isinstance(partition, SeqRange):  # Spark's own partition of a table without files
            return iter(())
        return read(partition, self._schema)
