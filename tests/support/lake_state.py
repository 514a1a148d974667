"""The current state of a lake's tables by definition, in plain Python: the reference for faster readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from relay.lake import paths
from relay.lake.documents import Field, Table, TableState
from relay.lake.log import LakeLog
from relay.lake.storage import Storage, open_storage
from relay.lake.types import META_FIELDS, arrow_type
from tests.support.lake_rows import Rows, in_lake

RANKS = {"update_preimage": 0, "snapshot": 2}
LIVE = {"insert", "update_postimage", "snapshot"}
COUNTED = ("_change_type", "_seq")
MARKERS = {"create", "truncate", "drop", "reset"}

Change = dict[str, Any]


def current(url: str, table: Table) -> tuple[list[Field], Rows]:
    """The newest fields of a table, including sides with values, and its rows as of the last commit."""
    storage = open_storage(url)
    known = LakeLog(storage).state().tables[paths.table_key(table)]
    assert known.complete_from is not None, f"{table} is not complete"
    fields = [field for field in known.version.fields if not field.side or field.name in known.sides]
    changes = sorted(_counting(storage, known, fields), key=_order)
    rows = _keyed(known, fields, changes) if known.version.key else _unkeyed(known, fields, changes)
    columns = {field.name: [row[field.name] for row in rows] for field in fields}
    return fields, Counter(in_lake(columns, fields, len(rows)))


def _order(row: Change) -> tuple[int, int]:
    return row["_seq"], RANKS.get(row["_change_type"], 1)


def _counting(storage: Storage, known: TableState, fields: list[Field]) -> Iterator[Change]:
    """The rows since the last marker, with the columns of `fields`."""
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in (*fields, *META_FIELDS)])
    for path in known.files:
        with storage.open(path) as file:
            found = pq.read_table(pa.BufferReader(file.read()))
        # Before all else: a column's type before a reset may not convert to its present one.
        found = found.filter(
            [_counts(known, *row) for row in zip(*(found[name].to_pylist() for name in COUNTED), strict=True)]
        )
        columns = [
            found[field.name].cast(field.type)
            if len(found) and field.name in found.schema.names
            else pa.nulls(len(found), field.type)
            for field in schema
        ]
        yield from pa.table(columns, schema=schema).to_pylist()


def _counts(known: TableState, kind: str, seq: int) -> bool:
    return kind not in MARKERS and seq >= known.reset + (kind != "snapshot")


def _keyed(known: TableState, fields: list[Field], changes: list[Change]) -> list[Change]:
    """The last change of each key, if it leaves a row."""
    of_key = {field.column for field in fields if field.name in known.version.key}
    names = [field.name for field in fields if field.column in of_key]
    last = {tuple(row[name] for name in names): row for row in changes}
    return [row for row in last.values() if row["_change_type"] in LIVE]


def _unkeyed(known: TableState, fields: list[Field], changes: list[Change]) -> list[Change]:
    """Adds up the rows of the snapshot and the changes after it.

    A snapshot without rows has a position all the same.
    """
    begin = known.snapshot.lowest if known.snapshot is not None else 0
    left: dict[str, list[Change]] = {}
    for row in changes:
        alike = left.setdefault(repr([row[field.name] for field in fields]), [])
        if row["_change_type"] == "snapshot" or (row["_seq"] > begin and row["_change_type"] in LIVE):
            alike.append(row)
        elif row["_seq"] > begin:
            assert alike, f"{known.table}: gone at {row['_seq']} without having been there: {row}"
            alike.pop()
    return [row for alike in left.values() for row in alike]
