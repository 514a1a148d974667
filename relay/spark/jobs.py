"""The jobs of `relay spark`: one of them over tables of a lake, a line for each thing that is done."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol, cast

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relay.errors import ErrorCode, RelayError
from relay.lake.documents import LakeState, Table
from relay.spark.reading import opened


class Job(Protocol):
    """The function `run` of a job's module, relay.spark.<job>."""

    def __call__(
        self, spark: SparkSession, lake: str, tables: Sequence[Table], options: Mapping[str, str]
    ) -> Iterator[str]:
        """Do the job for tables of the lake at a path or URL; give a line, to be shown at once, for each thing done."""


def run(job: str, lake: str, patterns: Sequence[str], options: Mapping[str, str]) -> Iterator[str]:
    """Start Spark as the environment says and do a job (merge, usage, compact) for the tables that patterns name.

    `options` are the job's own. Gives the lines of the job. Raises `RelayError`: those of `chosen`, of the lake and of
    the job; spark for what fails in Spark.
    """
    tables = chosen(opened(lake).state(), patterns)
    do = cast(Job, importlib.import_module(f"relay.spark.{job}").run)
    try:
        spark = SparkSession.builder.getOrCreate()
        try:
            yield from do(spark, lake, tables, options)
        finally:
            spark.stop()
    except (PySparkException, Py4JError) as error:
        raise RelayError(ErrorCode.SPARK, f"{job} on Spark", _cause(error)) from error


def chosen(state: LakeState, patterns: Sequence[str]) -> list[Table]:
    """The tables that `schema.table` patterns name, all without any.

    Raises `RelayError` (usage) for a pattern that names none, and for a lake without tables.
    """
    tables = sorted(table.table for table in state.tables.values())
    if not tables:
        hint = "is it the right path? `relay export` and `[Lake] Path` say which one is written"
        raise RelayError(ErrorCode.USAGE, "read the lake", "it has no tables", hint=hint)
    found = {pattern: [table for table in tables if _matches(table, pattern)] for pattern in patterns}
    if vain := [pattern for pattern, those in found.items() if not those]:
        raise RelayError(
            ErrorCode.USAGE,
            "read the lake",
            f"it has no table {vain[0]}",
            hint=f"it has {', '.join(map(str, tables[:10]))}{' ...' if len(tables) > 10 else ''}",
        )
    wanted = {table for those in found.values() for table in those}
    return [table for table in tables if not patterns or table in wanted]


def _matches(table: Table, pattern: str) -> bool:
    schema, _, name = pattern.partition(".")
    return fnmatchcase(table.schema, schema) and fnmatchcase(table.table, name)


def _cause(error: Exception) -> str:
    """The first line of the innermost cause: Spark wraps it, and adds where in its code it was."""
    if isinstance(error, Py4JJavaError):
        cause: Any = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).strip().partition("\n")[0]
    return str(error).strip().partition("\n")[0]
