"""The jobs of `relay spark`: runs one over tables of a lake and yields a line for each step."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relay.base.errors import ErrorCode, RelayError
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.tables import no_tables, open_log
from relay.spark.progress import Progress, Show

Job = Callable[[SparkSession, str, Sequence[Table], Mapping[str, str], Progress], Iterator[str]]
"""The function `run` of relay.spark.<job>: it works on tables of the lake at a path or URL and yields lines to show."""


def run(
    job: str, lake: str, patterns: Sequence[str], options: Mapping[str, str], show: Show | None = None
) -> Iterator[str]:
    """Start Spark as the environment configures it, and run a job: merge, usage or compact.

    It runs for the tables that match the patterns. `options` are the job's own; `show` gets its progress, in another
    thread. Yields the lines of the job. Raises `RelayError`: those of `selected_tables`, of the lake and of the job;
    spark for failures in Spark.
    """
    tables = selected_tables(open_log(lake), patterns)
    run_job: Job = importlib.import_module(f"relay.spark.{job}").run
    try:
        spark = SparkSession.builder.getOrCreate()
        try:
            yield from run_job(spark, lake, tables, options, Progress(spark, show))
        finally:
            spark.stop()
    except (PySparkException, Py4JError) as error:
        raise RelayError(ErrorCode.SPARK, f"{job} on Spark", _cause(error)) from error


def selected_tables(lake: LakeLog, patterns: Sequence[str]) -> list[Table]:
    """Return the tables that match the patterns `schema.table`; all without patterns.

    Raises `RelayError` (usage) for a pattern that matches none, and for a lake without tables.
    """
    tables = sorted(table.table for table in lake.state().tables.values())
    if not tables:
        raise no_tables("read the lake", lake.storage.url())
    found = {pattern: [table for table in tables if _matches(table, pattern)] for pattern in patterns}
    if unmatched := [pattern for pattern, matching in found.items() if not matching]:
        raise RelayError(
            ErrorCode.USAGE,
            "read the lake",
            f"it has no table {unmatched[0]}",
            hint=f"it has {', '.join(map(str, tables[:10]))}{' ...' if len(tables) > 10 else ''}",
        )
    wanted = {table for matching in found.values() for table in matching}
    return [table for table in tables if not patterns or table in wanted]


def _matches(table: Table, pattern: str) -> bool:
    schema, _, name = pattern.partition(".")
    return fnmatchcase(table.schema, schema) and fnmatchcase(table.table, name)


def _cause(error: Exception) -> str:
    """Return the first line of the innermost cause: Spark wraps it and appends a stack trace."""
    if isinstance(error, Py4JJavaError):
        cause: Any = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).strip().partition("\n")[0]
    return str(error).strip().partition("\n")[0]
