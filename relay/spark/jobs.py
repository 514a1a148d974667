"""What spark-submit runs: one job over tables of a lake, a line on standard output for each that is done.

Its one argument is a Request. Errors are a line on standard error and an exit code, as with every verb of `relay`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol, cast

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relay.errors import ErrorCode, ExitCode, RelayError
from relay.lake.documents import LakeState, Table
from relay.spark.reading import opened

JOBS: Final = ("merge", "usage", "compact")


class Job(Protocol):
    """The function `run` of a job's module, relay.spark.<job>."""

    def __call__(
        self, spark: SparkSession, lake: str, tables: Sequence[Table], options: Mapping[str, str]
    ) -> Iterator[str]:
        """Do the job for tables of the lake at a path or URL; give a line, to be shown at once, for each thing done."""


class Request(msgspec.Struct, frozen=True):
    """A job, the lake's path or URL, patterns `schema.table` (none: all tables), and the job's own options."""

    job: str
    lake: str
    tables: list[str] = []
    options: dict[str, str] = {}


def main(argument: str) -> int:
    """Run the job that a Request asks for, and return the exit code."""
    try:
        _run(msgspec.json.decode(argument, type=Request))
    except RelayError as error:
        return _tell(error)
    except (PySparkException, Py4JError) as error:
        return _tell(RelayError(ErrorCode.SPARK, "run on Spark", _cause(error)))
    except KeyboardInterrupt:
        return 130
    return ExitCode.OK


def _run(request: Request) -> None:
    log = opened(request.lake)
    tables = chosen(log.state(), request.tables)
    job = cast(Job, importlib.import_module(f"relay.spark.{request.job}").run)
    spark = SparkSession.builder.appName(f"relay {request.job}").getOrCreate()
    try:
        for line in job(spark, request.lake, tables, request.options):
            print(line, flush=True)
    finally:
        spark.stop()


def chosen(state: LakeState, patterns: Sequence[str]) -> list[Table]:
    """The tables that `schema.table` patterns name, all without any. Raises `RelayError` (usage) for one in vain."""
    tables = sorted(table.table for table in state.tables.values())
    found = {pattern: [table for table in tables if _matches(table, pattern)] for pattern in patterns}
    if vain := [pattern for pattern, those in found.items() if not those]:
        raise RelayError(
            ErrorCode.USAGE,
            "read the lake",
            f"it has no table {vain[0]}",
            hint=f"it has {', '.join(map(str, tables[:10]))}" if tables else "nothing was exported to it yet",
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


def _tell(error: RelayError) -> int:
    print(error.line(), file=sys.stderr, flush=True)
    return error.exit_code


if __name__ == "__main__":
    # The folder of this file: its modules are relay.spark's, and none may stand for one of another name.
    sys.path.pop(0)
    sys.exit(main(sys.argv[1]))
