"""Merging into a table of a catalog, such as one of Iceberg or Delta, with MERGE.

A property of that table says which state it has. If changes alone lead from there to the current state, they are
merged; otherwise all rows are compared.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession

from relay.base.errors import ErrorCode, RelayError
from relay.lake.columns import key_columns
from relay.lake.documents import Field, Table
from relay.lake.log import LakeLog
from relay.lake.tables import PRESENT, bounds_of, find_table
from relay.lake.types import widens
from relay.spark.current import KIND, Basis, skip_reason
from relay.spark.pointer import Pointer
from relay.spark.progress import Progress
from relay.spark.schema import col, identifier

PROPERTY: Final = "relay.merged"
"""The property of the target: a document like those of merged versions, without files."""

_NOT_PLANNED: Final = "Error occurred during query planning:"


def merge_into(spark: SparkSession, lake: LakeLog, table: Table, target: str, progress: Progress) -> str:
    """Bring the table `target`, "catalog.schema.table", to the end of the export; return a summary of the work.

    It is created if it does not exist, in the catalog's own format. New columns are added, and types widened. Let one
    job at a time merge into a table.

    Raises `RelayError` (usage) if the rows of the lake's table are not known, if it has no key, or if the target has no
    MERGE or other types.
    """
    last = _merged_before(spark, table, target)  # before the log, so that the log has everything that it has merged
    state = lake.state()
    found = find_table(state, table)
    if reason := skip_reason(found):
        raise RelayError(ErrorCode.USAGE, f"merge {table} into {target}", reason)
    basis = Basis(lake.storage, found, bounds_of(state, found), last)
    note = msgspec.json.encode(basis.pointer(buckets=0, folder="", files=[])).decode()
    if not spark.catalog.tableExists(target):
        with progress.reading(f"{table}", sum(file.rows for file in basis.changes)):
            rows = basis.state(spark).select(*(col(field.name) for field in basis.fields))
            rows.writeTo(target).tableProperty(PROPERTY, note).create()
        return f"created {target}"
    _check_merge(spark, target)
    _adapt(spark, target, basis.fields)
    changes = sum(file.rows for file in basis.changes)
    if changes or basis.merged is None:
        with progress.reading(f"{table}", changes):
            _merge(spark, target, basis)
    spark.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ({_string(PROPERTY)} = {_string(note)})")
    what = "of changes" if basis.merged is not None else "from the beginning, compared with all rows"
    return f"{changes:,} rows {what} merged into {target}"


def _merged_before(spark: SparkSession, table: Table, target: str) -> Pointer | None:
    if not spark.catalog.tableExists(target):
        return None
    found = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {target}").collect()}
    last = msgspec.json.decode(found[PROPERTY], type=Pointer) if PROPERTY in found else None
    return last if last is not None and last.table == table else None


def _check_merge(spark: SparkSession, target: str) -> None:
    """Plan a MERGE that does nothing, before anything is changed."""
    rows = spark.sql(f"EXPLAIN MERGE INTO {target} t USING {target} s ON false WHEN MATCHED THEN DELETE").collect()
    head, _, cause = "".join(row[0] for row in rows).partition(_NOT_PLANNED)
    if cause or not head:
        raise RelayError(
            ErrorCode.USAGE, f"merge into {target}", cause.strip().partition("\n")[0] or "it has no MERGE",
            hint="give a table whose format has MERGE, such as Iceberg or Delta",
        )  # fmt: skip


def _adapt(spark: SparkSession, target: str, fields: Sequence[Field]) -> None:
    """Add the columns that the target lacks, and widen types."""
    known = {field.name: field.dataType.simpleString() for field in spark.table(target).schema}
    for field in fields:
        column = identifier(field.name)
        if field.name not in known:
            spark.sql(f"ALTER TABLE {target} ADD COLUMN {column} {field.type}")
        elif known[field.name] != field.type and widens(known[field.name], field.type):
            spark.sql(f"ALTER TABLE {target} ALTER COLUMN {column} TYPE {field.type}")
        elif not widens(field.type, known[field.name]):
            raise RelayError(
                ErrorCode.USAGE, f"merge into {target}",
                f"the column {field.name} is {known[field.name]}, which does not hold {field.type}",
                hint="change its type, or give another table",
            )  # fmt: skip


def _merge(spark: SparkSession, target: str, basis: Basis) -> None:
    view = f"_relay_{uuid.uuid4().hex}"
    whole = basis.merged is None
    rows: DataFrame = basis.state(spark) if whole else basis.newest(spark)
    rows.createOrReplaceTempView(view)
    spark.sql(statement(target, view, basis.fields, key_columns(basis.fields, basis.version.key), whole=whole))
    spark.catalog.dropTempView(view)


def statement(target: str, source: str, fields: Sequence[Field], key: Sequence[str], *, whole: bool) -> str:
    """Return the MERGE of the last change of each key; with `whole`, of all rows that there are."""
    names = [identifier(field.name) for field in fields]
    deleted = "" if whole else f"AND s.{identifier(KIND.name)} NOT IN ({', '.join(map(_string, PRESENT))}) "
    parts = [
        f"MERGE INTO {target} t USING {source} s ON "
        + " AND ".join(f"t.{name} <=> s.{name}" for name in map(identifier, key))
    ]
    if not whole:
        parts.append(f"WHEN MATCHED {deleted}THEN DELETE")
    parts.append(f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)}")
    parts.append(
        f"WHEN NOT MATCHED {deleted.replace('NOT IN', 'IN')}THEN INSERT ({', '.join(names)})"
        f" VALUES ({', '.join(f's.{name}' for name in names)})"
    )
    if whole:
        parts.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
    return "\n".join(parts)


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
