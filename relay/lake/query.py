"""Queries of a lake in SQL, with DuckDB: `relay query`.

In SQL a table of the lake has its name, `shop.orders`, and the rows of its current state; its changes are in the
catalog `changes`: `changes.shop.orders`. DuckDB gets the tables that a statement names, with the columns that it may
read, before it runs the statement: so rows that are not needed, as with LIMIT, are read too, and none is read twice.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from relay.base.errors import ErrorCode, RelayError
from relay.lake.arrow import pyarrow
from relay.lake.columns import fields_of_all
from relay.lake.documents import LakeState, TableState
from relay.lake.moments import Moment, seq_at
from relay.lake.reading import Watch, changes, current
from relay.lake.tables import FixedLake, Lake, check_end, no_tables, open_lake
from relay.lake.types import META_FIELDS
from relay.runtime.signals import handled

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

CHANGES: Final = "changes"
_WHOLE_ROWS: Final = ("STAR", "POSITIONAL_REFERENCE", "PIVOT")
_SHOWN: Final = 10
_CONFIG: Final[dict[str, Any]] = {"python_enable_replacements": "false"}  # a name is no variable of this module


class Name(NamedTuple):
    """A table as a statement names it: "" for what is left out."""

    catalog: str
    schema: str
    table: str


@contextmanager
def query(
    lake: Lake, statement: str, as_of: Moment | None = None, watch: Watch | None = None
) -> Iterator[DuckDBPyRelation]:
    """Give the result of one SELECT in this block; it is computed when it is read.

    `as_of` is a moment for all tables, and `watch` is told of the rows that are read, as by `relay.lake.current`. What
    does not fit into memory is in a temporary folder. Raises `RelayError`: usage for the statement and its tables,
    environment without duckdb.
    """
    duckdb = _duckdb()
    opened = open_lake(lake)
    fixed = FixedLake(opened.storage, opened.state())
    if not fixed.known.tables:
        raise no_tables("query the lake", fixed.storage.url())
    try:
        with tempfile.TemporaryDirectory(prefix="relay-query-") as folder, duckdb.connect(config=_CONFIG) as connection:
            connection.execute("SET temp_directory = $folder", {"folder": folder})
            connection.execute(f"ATTACH ':memory:' AS {CHANGES}")
            tree = _parsed(connection, statement)
            tables = {name: table for name in _tables(tree) if (table := _known(fixed.known, name)) is not None}
            seq = seq_at(fixed.storage, fixed.known, list(tables.values()), as_of)
            for name, table in tables.items():
                check_end(fixed.known, table, seq)
                _load(connection, name, _rows(fixed, table, name, seq, _columns(tree), watch))
            with _ended_by_ctrl_c(connection):
                yield connection.sql(statement)
    except duckdb.Error as error:
        raise _failure(error, fixed.known) from error
    except RuntimeError as error:
        if "interrupted" not in str(error):
            raise
        raise KeyboardInterrupt from error  # DuckDB's word for Ctrl-C


def write(result: DuckDBPyRelation, form: str) -> None:
    """Print all rows of a result as "csv" or as lines of "json", or a "table" that fits the terminal.

    Raises BrokenPipeError if the reader of the output has closed it.
    """
    if form == "table":
        result.show(max_width=shutil.get_terminal_size().columns)
        return
    options = "CSV, HEADER" if form == "csv" else "JSON"
    # DuckDB would open /dev/stdout anew: that empties a file that the shell has opened to append to.
    source, target = os.pipe()

    def copy() -> None:
        try:
            path = f"/dev/fd/{target}"
            result.query("result", f"COPY (FROM result) TO '{path}' (FORMAT {options}, USE_TMP_FILE false)")
        finally:
            os.close(target)

    # While DuckDB copies, it looks for no signal: so the main thread prints.
    with ThreadPoolExecutor(1) as pool:
        copied = pool.submit(copy)
        with open(source, "rb") as rows:
            shutil.copyfileobj(rows, sys.stdout.buffer)
        sys.stdout.flush()
        copied.result()


@contextmanager
def _ended_by_ctrl_c(connection: DuckDBPyConnection) -> Iterator[None]:
    """End what DuckDB runs in any thread at a SIGINT that raises KeyboardInterrupt."""

    def end(_number: int, _frame: object) -> None:
        connection.interrupt()
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # the program's own handler decides
        return
    with handled((signal.SIGINT,), end):
        yield


def _failure(error: Exception, state: LakeState) -> RelayError:
    names = sorted(str(each.table) for each in state.tables.values())
    hint = f"the lake has {', '.join(names[:_SHOWN])}{' ...' if len(names) > _SHOWN else ''}"
    if "does not exist" not in str(error):
        hint = "DuckDB's documentation describes its SQL: duckdb.org/docs"
    return RelayError(ErrorCode.USAGE, "query the lake", str(error).strip(), hint=hint)


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        hint = "pip install 'binlog-relay[query]'"
        raise RelayError(ErrorCode.ENVIRONMENT, "query the lake", "duckdb is not installed", hint=hint) from error
    return duckdb


def _rows(
    lake: FixedLake,
    table: TableState,
    name: Name,
    as_of: int | None,
    columns: frozenset[str] | None,
    watch: Watch | None,
) -> pyarrow.RecordBatchReader:
    """Return the rows of a table with those of the columns that it has."""
    if name.catalog:
        names = [field.name for field in (*fields_of_all(table), *META_FIELDS)]
        return changes(lake, table.table, until=as_of, columns=_chosen(names, columns), watch=watch)
    if table.versions and not table.version.key:
        hint = f"read its changes: {CHANGES}.{table.table}"
        raise RelayError(ErrorCode.USAGE, f"query {table.table}", "it has no primary key", hint=hint)
    names = current(lake, table.table, as_of=as_of).schema.names
    return current(lake, table.table, as_of=as_of, columns=_chosen(names, columns), watch=watch)


def _chosen(names: list[str], columns: frozenset[str] | None) -> list[str]:
    """Return the names that are among the columns; one if there is none, so that rows can be counted."""
    return names if columns is None else [name for name in names if name.casefold() in columns] or names[:1]


def _load(connection: DuckDBPyConnection, name: Name, rows: pyarrow.RecordBatchReader) -> None:
    catalog = CHANGES if name.catalog else "memory"
    schema, table = (f'"{each.replace(chr(34), chr(34) * 2)}"' for each in (name.schema, name.table))
    connection.register("_rows", rows)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {catalog}.{schema}")
    connection.execute(f"CREATE TABLE {catalog}.{schema}.{table} AS FROM _rows")
    connection.unregister("_rows")


def _known(state: LakeState, name: Name) -> TableState | None:
    """Return the table that a statement names; None if it may be another thing, such as a file or a WITH."""
    if not name.schema or name.catalog.lower() not in ("", CHANGES):
        return None
    tables = list(state.tables.values())
    exact = [each for each in tables if (each.table.schema, each.table.table) == (name.schema, name.table)]
    wanted = f"{name.schema}.{name.table}".casefold()
    alike = exact or [each for each in tables if str(each.table).casefold() == wanted]
    return alike[0] if len(alike) == 1 else None


# The statement, as DuckDB parses it


def _parsed(connection: DuckDBPyConnection, statement: str) -> dict[str, Any]:
    """Return the tree of one SELECT. Raises `RelayError` (usage)."""
    (text,) = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchone() or ("",)
    tree: dict[str, Any] = msgspec.json.decode(text)
    if tree["error"]:
        cause = "it is no SELECT" if tree["error_type"] == "not implemented" else tree["error_message"]
        raise RelayError(ErrorCode.USAGE, "query the lake", cause, hint="give one SELECT in DuckDB's SQL")
    if len(tree["statements"]) != 1:
        cause = f"there are {len(tree['statements'])} statements"
        raise RelayError(ErrorCode.USAGE, "query the lake", cause, hint="give one")
    return tree


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for each in tree.values():
            yield from _nodes(each)
    elif isinstance(tree, list):
        for each in tree:
            yield from _nodes(each)


def _tables(tree: dict[str, Any]) -> Iterable[Name]:
    """Return the tables of a statement, each once: DuckDB compares names without case."""
    nodes = (node for node in _nodes(tree) if node.get("type") == "BASE_TABLE")
    names = (Name(node["catalog_name"], node["schema_name"], node["table_name"]) for node in nodes)
    return {tuple(map(str.casefold, name)): name for name in names}.values()


def _columns(tree: dict[str, Any]) -> frozenset[str] | None:
    """Return the names of all columns that a statement may read, in one case; None for all columns.

    A name that stands for a whole row, such as `*` or the alias of a table, makes it all.
    """
    names: set[str] = set()
    tables: set[str] = set()
    for node in _nodes(tree):
        kind = node.get("type")
        if kind in _WHOLE_ROWS or node.get("ref_type") == "NATURAL":
            return None
        if kind == "COLUMN_REF":
            names |= {each.casefold() for each in node["column_names"]}
        names |= {each.casefold() for each in node.get("using_columns", ())}
        if "from_table" not in node and "table_name" in node:
            tables |= {node["table_name"].casefold()}
        if kind in ("BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION") and isinstance(node.get("alias"), str):
            tables |= {node["alias"].casefold()}
    references = [node["column_names"] for node in _nodes(tree) if node.get("type") == "COLUMN_REF"]
    alone = {each[0].casefold() for each in references if len(each) == 1}
    return None if alone & tables else frozenset(names)
