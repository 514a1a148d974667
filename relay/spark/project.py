"""A project for `spark-pipelines run`: tables of a lake as tables of Spark. It needs pyspark 4.1, the stream 4.2."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from relay.base.errors import ErrorCode, RelayError
from relay.lake.columns import fields_of_all, key_columns, unused_name
from relay.lake.documents import TableState
from relay.lake.types import META_FIELDS
from relay.spark.schema import identifier
from relay.spark.upserts import added_fields

SPECIFICATION: Final = "spark-pipeline.yml"
_FOLDER: Final = "transformations"

_SPECIFICATION: Final = """\
# Tables of the lake {lake}, written by `relay spark init`. Run it with: spark-pipelines run
name: {name}
storage: {storage}
configuration:
  # The streams of a session share a map in Spark. It may break if two of them start at the same time.
  spark.sql.pipelines.execution.maxConcurrentFlows: "1"
libraries:
  - glob:
      include: {folder}/**
"""

_STREAM: Final = '''\
"""{table}: its {rows}, as the lake has them. Each run appends what is new."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession


@dp.table(name={name})
def rows() -> DataFrame:
    reader = SparkSession.active().readStream.format("relay")
    return reader.options(lake={lake}, table={quoted}, rows={rows_option}).load()
'''

_STATE: Final = """\
-- {table}: its rows as of the last run.
CREATE MATERIALIZED VIEW {name} AS
WITH emptied AS (
  SELECT coalesce(max({sequence}), -1) AS `at` FROM {source} WHERE {operation} = 'truncate'
),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY {sequence} DESC) AS {rank}
  FROM {source}
  WHERE {sequence} > (SELECT `at` FROM emptied)
)
SELECT * EXCEPT (
  {left_out}
)
FROM ranked
WHERE {rank} = 1 AND {operation} = 'upsert'
"""


def write_project(folder: Path, lake: str, tables: Sequence[TableState]) -> list[Path]:
    """Write a project for tables into a new folder; return its files.

    A table becomes a streaming table, SCHEMA_TABLE_upserts, and a materialized view of its rows, SCHEMA_TABLE. A table
    without a primary key becomes the streaming table SCHEMA_TABLE_changes.

    Raises `RelayError` (usage) if the folder has files, or if names of tables are one in Spark.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        hint = "give a new folder"
        raise RelayError(ErrorCode.USAGE, "write a project", "the folder has files", position=str(folder), hint=hint)
    storage = (folder / "storage").absolute()
    specification = _SPECIFICATION.format(
        lake=json.dumps(lake), name=json.dumps(folder.absolute().name), storage=json.dumps(storage.as_uri()),
        folder=_FOLDER,
    )  # fmt: skip
    written = {Path(SPECIFICATION): specification}
    for table in tables:
        for name, text in _transformations(lake, table).items():
            path = Path(_FOLDER) / name
            if path in written:
                raise RelayError(
                    ErrorCode.USAGE, "write a project", f"two tables would be {path.stem} in Spark",
                    position=str(table.table), hint="give one of them with --table",
                )  # fmt: skip
            written[path] = text
    storage.mkdir(parents=True)
    (folder / _FOLDER).mkdir()
    for path, text in written.items():
        (folder / path).write_text(text)
    return [folder / path for path in written]


def _transformations(lake: str, table: TableState) -> dict[str, str]:
    name = re.sub(r"\W", "_", f"{table.table.schema}_{table.table.table}", flags=re.ASCII).lower()
    rows = "upserts" if table.version.key else "changes"
    source = f"{name}_{rows}"
    strings = {"name": source, "lake": lake, "quoted": str(table.table), "rows_option": rows}
    quoted = {key: json.dumps(value, ensure_ascii=False) for key, value in strings.items()}
    found = {f"{source}.py": _STREAM.format(table=table.table, rows=rows, **quoted)}
    if table.version.key:
        found[f"{name}.sql"] = _state(table, name, source)
    return found


def _state(table: TableState, name: str, source: str) -> str:
    fields = fields_of_all(table)
    operation, sequence = (field.name for field in added_fields(table))
    meta = [field.name for field in META_FIELDS]
    rank = unused_name("_rank", [*(field.name for field in fields), *meta, operation, sequence])
    return _STATE.format(
        table=table.table,
        name=name,
        source=source,
        key=", ".join(map(identifier, key_columns(fields, table.version.key))),
        operation=identifier(operation),
        sequence=identifier(sequence),
        rank=identifier(rank),
        left_out=",\n  ".join(", ".join(map(identifier, names)) for names in (meta, (operation, sequence, rank))),
    )
