"""All changes of a table as a DataFrame, across all versions of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.lake.columns import fields_of_all, generations_of
from relay.lake.documents import DataFile, Field, Table, TableState
from relay.lake.moments import Moment, seq_at
from relay.lake.storage import Storage
from relay.lake.tables import Lake, find_table, open_lake
from relay.lake.types import META_FIELDS, generation_schema
from relay.spark.reading import read_files
from relay.spark.schema import col, convert, spark_type


def changes(
    spark: SparkSession, lake: Lake, table: str | Table, since: Moment | None = None, until: Moment | None = None
) -> DataFrame:
    """Return the changes of a table after `since` and up to `until`.

    Both are moments as in docs/lake-python.md. A change is one row, an update two. The columns are those of the table's
    newest version, then those that only older ones had, the side columns that have values (`NAME__text`, `NAME__raw`,
    `NAME__srid`), and last META_FIELDS. `_change_type` is insert, update_preimage, update_postimage or delete; snapshot
    for rows from before the export; create, truncate, drop or reset for a statement that deletes all rows. Order by
    `_seq`. A value of an older type that the column's type cannot hold is NULL, with its text in `NAME__text`.

    Raises `RelayError` (usage) if the lake has no such table, or for a moment that the lake does not have.
    """
    log = open_lake(lake)
    state = log.state()
    found = find_table(state, table)
    start, end = (seq_at(log.storage, state, [found], each) for each in (since, until))
    files = [
        file
        for file in found.files.values()
        if (start is None or file.last > start) and (end is None or file.first <= end)
    ]
    fields = fields_of_all(found)
    return in_range(rows_of(spark, log.storage, found, files, [*fields, *META_FIELDS]), start, end)


def in_range(rows: DataFrame, since: int | None, until: int | None) -> DataFrame:
    """Return the rows with `_seq` above `since` and up to `until`."""
    if since is not None:
        rows = rows.where(col("_seq") > since)
    return rows if until is None else rows.where(col("_seq") <= until)


def rows_of(
    spark: SparkSession, storage: Storage, table: TableState, files: Iterable[DataFile], fields: Sequence[Field]
) -> DataFrame:
    """Return the rows of a table's files with these fields.

    Values of older generations are converted to their types.
    """
    generations = generations_of(table)
    generation_of = {version.version: version.generation for version in table.versions}
    found: dict[int, list[DataFile]] = {}
    for file in files:
        found.setdefault(generation_of[file.version], []).append(file)
    parts = [
        _generation(spark, storage, found[each], generation_schema(generations[each], table.sides), fields)
        for each in sorted(found)
    ]
    if not parts:
        return read_files(spark, storage, [], fields)
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    return rows


def _generation(
    spark: SparkSession, storage: Storage, files: Sequence[DataFile], stored: Sequence[Field], fields: Sequence[Field]
) -> DataFrame:
    wanted = {field.name for field in fields}
    known = {field.name: field for field in [*stored, *META_FIELDS] if field.name in wanted}
    rows = read_files(spark, storage, files, list(known.values()))
    columns: dict[str, Column] = {}
    lost: dict[str, Column] = {}
    for field in fields:
        if field.name not in known:
            columns[field.name] = f.lit(None).cast(spark_type(field.type))
            continue
        columns[field.name], texts = convert(col(field.name), known[field.name].type, field.type)
        if texts is not None and not field.side:
            lost[field.column] = texts
    for field in fields:
        if field.side == "text" and field.column in lost:
            columns[field.name] = f.coalesce(columns[field.name], lost[field.column])
    return rows.select(*(column.alias(name) for name, column in columns.items()))
