"""Writes the cases' rows from the journal to Parquet files of the lake, and compares these with a SELECT.

And merges them into open tables, which engines read equal to those files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from relay._native import ChangeReader, JournalReader
from relay.journal.frames import Definition
from relay.lake.delta.table import OpenTable, folder_of
from relay.lake.documents import DataFile, ExportPosition, Field, Marker, Table, TableVersion
from relay.lake.folder import Folder
from relay.lake.log import LakeLog
from relay.lake.paths import table_key
from relay.lake.storage import Storage, open_storage
from relay.lake.tables import fields_in
from relay.lake.types import evolve, fields_of
from relay.lake.writer import seal
from tests.support.engines import ENGINES
from tests.support.lake_rows import difference, has_empty_label, in_lake, maker, number_form
from tests.types.compare import DELETE, INSERT, QUESTION, Change, Row
from tests.types.run import Outcome

_ONCE = 64 << 20


def sealed_differences(outcomes: Iterable[Outcome], folder: Path) -> Iterator[str]:
    """Seal the rows of each case as a file. Yields the differences from what the server prints."""
    for journal, some in groupby(outcomes, key=lambda outcome: outcome.journal):
        cases = {outcome.table.name: outcome for outcome in some}
        for name, (version, file, rows) in _sealed(journal, set(cases), Folder(folder)).items():
            outcome = cases.pop(name)
            told = f"{outcome.table.case.family}, {outcome.table.case.name}"
            yield from (f"{told}: {line}" for line in _differences(outcome, version, file, rows))
        yield from (f"{name} has no rows" for name in cases)


def open_table_differences(outcomes: Iterable[Outcome], folder: Path) -> Iterator[str]:
    """Merge the inserted rows of each case into an open table. Yields the differences between engines and the lake."""
    for journal, some in groupby(outcomes, key=lambda outcome: outcome.journal):
        cases = {outcome.table.name: outcome.table.case for outcome in some}
        storage = open_storage(str(folder / journal.name))
        log = LakeLog(storage)
        for name, (version, file, rows) in _sealed(journal, set(cases), storage, "insert").items():
            seq = max(row["_seq"] for row in rows)
            place = ExportPosition(1, 0, 64 + seq, seq, "binlog.000001", 4, "", "types", 0)
            created = Marker(version.table, "create", 0, 0, "CREATE TABLE")
            log.commit("export", place=place, versions=[version], markers=[created], add=[file])
            state = log.state()
            OpenTable(storage, version.table).update(state, state.tables[table_key(version.table)])
            fields = fields_in(state.tables[table_key(version.table)], version)
            lake = Counter(in_lake({key: [row[key] for row in rows] for key in rows[0]}, fields, len(rows)))
            for engine, read in ENGINES.items():
                columns = read(storage.url(folder_of(version.table)).removeprefix("file://"))
                found = Counter(in_lake(columns, fields, len(next(iter(columns.values())))))
                if line := difference(lake, found, fields):
                    yield f"{cases[name].family}, {cases[name].name}, {engine}: {line}"


def _sealed(
    journal: Path, names: set[str], storage: Storage, kind: str = ""
) -> dict[str, tuple[TableVersion, DataFile, list[dict[str, Any]]]]:
    """By table: its version, its file, and the rows in the file: all, or those of a kind."""
    reader = ChangeReader(journal, wanted=lambda _, table: table in names)
    until = JournalReader(journal).flushed()
    versions: dict[str, TableVersion] = {}
    batches: dict[str, list[pa.RecordBatch]] = {}
    date = ""
    why = ""
    while why != "end":
        why = reader.read(until, _ONCE).why
        for columns in reader.take():
            definition = msgspec.msgpack.decode(columns.definition, type=Definition)
            table = Table(definition.schema, definition.table)
            known = [versions[table.table]] if table.table in versions else []
            versions[table.table] = evolve(known, table, *fields_of(definition))
            rows = pa.record_batch(columns)
            if kind:
                rows = rows.filter(pc.equal(rows["_change_type"].dictionary_decode(), kind))
            batches.setdefault(table.table, []).append(rows)
            date = date or columns.date
    found = {}
    for name, version in versions.items():
        file = seal(storage, version, date, "changes", batches[name])
        with storage.open(file.path) as opened:
            found[name] = version, file, pq.read_table(opened).to_pylist()
    return found


def _differences(
    outcome: Outcome, version: TableVersion, file: DataFile, rows: Sequence[dict[str, Any]]
) -> Iterator[str]:
    expected = [flat for change in outcome.expected for flat in _flat(change)]
    if [row["_change_type"] for row in rows] != [kind for kind, _ in expected]:
        yield f"{len(rows)} rows, not {len(expected)}, or of other kinds"
        return
    if (version.version, [row["_schema_version"] for row in rows]) != (1, [1] * len(rows)):
        yield "its columns changed on the way"
    with_values = {name for row in rows for name, value in row.items() if value is not None}
    sides = {field.name: field for field in version.fields if field.side}
    if set(file.sides) != sides.keys() & with_values:
        yield f"the sides with values are said to be {file.sides}"
    types = {column.name: column.sql for column in outcome.table.columns}
    for field in version.fields:
        if not field.side:
            beside = next((side for side in sides.values() if side.column == field.column), None)
            make = bytes.decode if has_empty_label(types[field.column]) else maker(field, types[field.column])
            for number, (row, (_, texts)) in enumerate(zip(rows, expected, strict=True)):
                value, aside = row[field.name], row[beside.name] if beside else None
                if line := _difference(field, value, beside, aside, texts[field.column], make):
                    yield f"row {number}, {field.name} {field.source_type}: {line}"


def _flat(change: Change) -> Iterator[tuple[str, Row]]:
    """The rows of a file that belong to a change, with their change types."""
    whole = {INSERT: "insert", DELETE: "delete"}.get(change.kind)
    if change.before is not None:
        yield whole or "update_preimage", change.before
    if change.after is not None:
        yield whole or "update_postimage", change.after


def _difference(
    field: Field, value: Any, beside: Field | None, aside: Any, text: bytes | None, make: Callable[[bytes], Any]
) -> str:
    """The difference between a value with its side column and a text; empty if there is none."""
    side = beside.side if beside else ""
    wanted: Any = (None, None)
    if text == b"" and has_empty_label(field.source_type):  # of two numbers; tests/spark/test_enum_keys.py knows which
        return "" if {value, aside} == {"", None} else f"{(value, aside)!r} instead of nothing, or no label"
    if text is not None and side == "raw":
        # A text with a question mark has its bytes in the side column if the server could not convert a character.
        wanted = text.decode(errors=QUESTION), aside if b"?" in text else None
        if wanted[0].encode() != text and aside is None:
            return f"{text!r:.100} has nothing beside it"
        if wanted[0].encode() != text:
            wanted = wanted[0], aside
    elif text is not None and field.type in ("float", "double"):
        form = number_form(field)
        return "" if value is not None and form(value) == form(float(text)) else f"{value!r} instead of {text!r}"
    elif text is not None:
        wanted = make(text), None
        if side == "srid":
            wanted = wanted[0], int.from_bytes(text[:4], "little")
        elif side == "text" and wanted[0] is None:
            wanted = None, text.decode()
    got = value, aside
    if field.type.startswith("array") and value is not None:
        got = tuple(value), aside
    if field.type == "timestamp" and value is not None:
        got = value.replace(tzinfo=None), aside
    return "" if got == wanted else f"{got!r:.200} instead of {wanted!r:.200}"
