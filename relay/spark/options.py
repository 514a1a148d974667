"""The options of the data source, checked, and the table that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructType

from relay.base.errors import ErrorCode, RelayError
from relay.lake.columns import fields_of_all
from relay.lake.documents import Field, LakeState, TableState
from relay.lake.log import LakeLog
from relay.lake.storage import Storage, open_storage
from relay.lake.tables import find_table
from relay.lake.types import META_FIELDS, widens
from relay.spark.upserts import added_fields

_EXAMPLES: Final = {"lake": "/srv/lake", "table": "shop.orders"}
OPTIONS: Final = ("lake", "table", "rows", "since", "until", "start", "max_rows")
ROWS: Final = ("changes", "upserts")
"""The names that `option` takes, without regard to case."""


class Options:
    """The checked options of a source. `since`, `until` and `max_rows` are None if not given."""

    def __init__(self, given: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in given.items()}
        if unknown := sorted(given.keys() - {*OPTIONS}):
            raise usage_error(f"there is no option {unknown[0]!r}", f"options: {', '.join(OPTIONS)}")
        for name in ("lake", "table"):
            if not given.get(name):
                raise usage_error(f"the option {name!r} is missing", f'.option("{name}", "{_EXAMPLES[name]}")')
        self.lake = given["lake"]
        self.table = given["table"]
        rows = given.get("rows", "changes").lower()
        if rows not in ROWS:
            raise usage_error(f"rows = {rows!r} is unknown", f"use {' or '.join(ROWS)}")
        self.upserts = rows == "upserts"
        self.since = _number(given, "since")
        self.until = _number(given, "until")
        self.start = given.get("start", "oldest").lower()
        if self.start not in ("oldest", "newest"):
            _number(given, "start")
        self.max_rows = _number(given, "max_rows")
        if self.max_rows == 0:
            raise usage_error("a stream with max_rows = 0 never progresses", "omit it, or give at least 1")


def _number(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name)
    if value is not None and not (value.isascii() and value.isdigit()):
        raise usage_error(f"{name} = {value!r} is not a number", "use numbers of the column _seq")
    return None if value is None else int(value)


def usage_error(cause: str, hint: str, position: str = "") -> RelayError:
    """Return an error of the options."""
    # Spark shows only the message of an exception.
    return RelayError(ErrorCode.USAGE, 'read format("relay")', f"{cause} ({hint})", position=position, hint=hint)


def storage_of(options: Options) -> Storage:
    """Open the lake's files."""
    return open_storage(options.lake)


def log_of(options: Options) -> LakeLog:
    """Open the lake's log."""
    return LakeLog(storage_of(options))


def table_of(state: LakeState, options: Options) -> TableState:
    """Return the table. Raises RelayError (usage) if its columns are not yet known."""
    if not state.number:
        raise usage_error("there is no lake", "its log is empty: check the option 'lake'", options.lake)
    table = find_table(state, options.table)
    if not table.versions:
        raise usage_error("no change of it has arrived yet", "try again later", str(table.table))
    return table


def columns_of(table: TableState, options: Options) -> list[Field]:
    """Return the columns of the rows that the options ask for."""
    return [*fields_of_all(table), *META_FIELDS, *(added_fields(table) if options.upserts else ())]


def check_user_schema(schema: StructType, table: TableState, options: Options) -> None:
    """Check that a user's schema names existing columns, with types that hold the newest values without loss."""
    sides = [field for version in table.versions for field in version.fields if field.side]
    known = {field.name: field.type for field in (*sides, *columns_of(table, options))}
    for field in schema:
        requested = field.dataType.simpleString()
        if field.name not in known:
            raise usage_error(f"there is no column {field.name!r}", f"columns: {', '.join(known)}", str(table.table))
        if not widens(known[field.name], requested):
            raise usage_error(
                f"the column {field.name} is {known[field.name]}, which does not fit into {requested}",
                "request its type, or a wider one",
                str(table.table),
            )
