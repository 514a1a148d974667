"""Reads a Delta table with other engines: deltalake, DuckDB and Polars.

python -m tests.support.engines URL     # the rows of a table in S3, as JSON
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import deltalake
import duckdb
import polars
import pyarrow as pa
from duckdb_extensions import import_extension  # type: ignore[import-untyped]

Columns = dict[str, list[Any]]


def with_deltalake(path: str, **options: str) -> Columns:
    """The rows as deltalake's own engine (DataFusion) reads them."""
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path, storage_options=options))
    columns: Columns = pa.table(engine.execute("select * from t").read_all()).to_pydict()
    return columns


def with_duckdb(path: str) -> Columns:
    """The rows as DuckDB's extension delta reads them."""
    quoted = path.replace("'", "''")
    columns: Columns = _duckdb().execute(f"select * from delta_scan('{quoted}')").to_arrow_table().to_pydict()
    return columns


def with_polars(path: str) -> Columns:
    """The rows as Polars reads them."""
    columns: Columns = polars.scan_delta(path).collect().to_arrow().to_pydict()
    return columns


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    import_extension("delta")
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("load delta; set timezone = 'UTC'")
    return connection


ENGINES: Final[Mapping[str, Callable[[str], Columns]]] = {
    "deltalake": with_deltalake, "duckdb": with_duckdb, "polars": with_polars,
}  # fmt: skip


if __name__ == "__main__":
    columns = with_deltalake(sys.argv[1], allow_http="true", aws_virtual_hosted_style_request="false")
    print(json.dumps([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]))
