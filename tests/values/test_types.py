"""Every type on every server, with and without metadata: the relay's output equals a SELECT.

The cases are in tests/support/value_cases.py and tests/types; `make test-types` prints them as a matrix.
"""

from __future__ import annotations

import itertools
import json
import secrets
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow
import pytest

from examples.dbserver import DatabaseServer
from relay._native import ChangeReader, Columns, JournalWriter, RowImages
from relay.journal.frames import Definition
from relay.lake.types import META_FIELDS, arrow_type, fields_of
from relay.protocol.extensions import value_of
from tests.support.arrow_values import as_column
from tests.types.case import METADATA
from tests.types.cases import cases
from tests.types.cdc import cdc_differences
from tests.types.compare import INSERT, QUESTION, Change, Frame
from tests.types.lake import open_table_differences, sealed_differences
from tests.types.lines import log_differences
from tests.types.listed import RIGHT, SPARE, WRONG, verdict
from tests.types.payloads import Cell, cells
from tests.types.run import Outcome, Tables


class Worked(NamedTuple):
    """What became of all cases on a server, in one metadata mode."""

    server: str
    metadata: str
    outcomes: list[Outcome]

    def judged(self, word: str) -> list[Outcome]:
        """Those with this verdict."""
        return [outcome for outcome in self.outcomes if verdict(outcome, self.server, self.metadata) == word]


@pytest.fixture(scope="module")
def tables(server: DatabaseServer) -> Iterator[Tables]:
    made = Tables(server, cases(server))
    yield made
    made.close()


@pytest.fixture(scope="module", params=METADATA)
def worked(tables: Tables, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Worked:
    folder = tmp_path_factory.mktemp("types") / secrets.token_hex(4)
    return Worked(tables.server.name, request.param, tables.run(request.param, folder))


# The forms in which rows leave the relay are made of the same images: `make check` tests them for all servers, and
# `make kill` in the other mode.
in_one_mode = pytest.mark.parametrize(
    "worked", [METADATA[0], pytest.param(METADATA[1], marks=pytest.mark.slow)], indirect=True
)


@pytest.mark.every_server
def test_every_case_is_what_the_server_prints(worked: Worked) -> None:
    wrong = [
        f"{outcome.table.case.family}, {outcome.table.case.name}: {line}"
        for outcome in worked.judged(WRONG)
        for line in outcome.wrong[:5]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.every_server
def test_what_is_listed_is_not_what_the_server_prints(worked: Worked) -> None:
    listed = [f"{outcome.table.case.family}, {outcome.table.case.name}" for outcome in worked.judged(SPARE)]
    assert not listed, f"listed, and right: {listed}"


@pytest.mark.brands
def test_every_format_says_the_same(worked: Worked) -> None:
    for outcome in worked.judged(RIGHT):
        for _, some in itertools.groupby(outcome.frames, key=lambda frame: frame.rows.kind):
            check_formats(next(some))


def check_formats(frame: Frame) -> None:
    definition = msgspec.msgpack.decode(frame.definition, type=Definition)
    kind = frame.rows.kind
    images = RowImages(frame.definition, kind, frame.rows.body)
    forms = [
        images.render(form, position=99, queue_size=3, sequence=12, null_text=b"")
        for form in ("poll", "poll2", "text", "msgpack")
    ]
    for number, ((change, _, _), poll, poll2, text, typed) in enumerate(zip(frame.changes, *forms, strict=True)):
        named, rest = cells(poll)
        assert struct.unpack_from("<BQI", poll) == (kind, 99, 3)
        assert struct.unpack_from("<BQIII", poll2) == (kind, 99, 3, definition.version, definition.schema_id)
        assert cells(poll2, 2) == (named, rest)
        assert text == struct.pack("<Q", 12 + number) + poll2 + nulls(change, named)
        head = msgspec.msgpack.decode(typed)[:-2]
        assert head == [12 + number, kind, 99, definition.schema, definition.table, definition.version]


def nulls(change: Change, named: list[Cell]) -> bytes:
    """A bit for each column that is NULL, or not there, for each side of the change."""
    sides = [side for side in (change.before, change.after) if side is not None]
    bits = [sum((side.get(cell.name) is None) << at for at, cell in enumerate(named)) for side in sides]
    return b"".join(side.to_bytes((len(named) + 7) // 8, "little") for side in bits)


@pytest.mark.brands
def test_values_of_python_are_those_of_pymysql(worked: Worked) -> None:
    """But for TIMESTAMP, SET and MySQL's JSON, which say more than PyMySQL does, and binary labels that are text."""
    wrong, unread = [], set()
    for outcome in worked.judged(RIGHT):
        inserts = [frame for frame in outcome.frames if frame.rows.kind == INSERT]
        if not inserts or outcome.table.case.partial:
            continue
        if not outcome.selected:
            unread.add(outcome.table.case.name.split(": ")[-1].split("(")[0])
        rows = [row for frame in inserts for row in python_rows(frame)]
        name = f"{outcome.table.case.family}, {outcome.table.case.name}"
        types = {column.name: column.sql for column in outcome.table.columns}
        for right, ours in zip(outcome.selected, rows, strict=False):  # a versioned table has more
            wrong += [
                f"{name}: {column} is {ours[column]!r:.200}, of PyMySQL {value!r:.200}"
                for column, value in right.items()
                if repr(ours[column]) not in map(repr, alike(types[column], value, worked.server.startswith("mysql")))
            ]
    assert not wrong, "\n".join(wrong)
    assert unread <= {"surrogates that are no pair", "VECTOR"}, "what PyMySQL cannot read"


def python_rows(frame: Frame) -> list[dict[str, Any]]:
    images = RowImages(frame.definition, frame.rows.kind, frame.rows.body)
    decoder = msgspec.msgpack.Decoder(ext_hook=value_of)
    return [decoder.decode(row)[7] for row in images.render("extended", utc=False)]


def alike(sql: str, value: Any, mysql: bool) -> list[Any]:
    """What a column may be in `values="python"` for PyMySQL's value."""
    if sql.startswith("timestamp") and isinstance(value, datetime):
        return [value.replace(tzinfo=UTC)]
    if sql.startswith("set(") and isinstance(value, str):
        return [frozenset(value.split(",")) if value else frozenset()]
    if sql == "json" and mysql and value is not None:
        return [json.loads(value)]
    if sql.startswith("enum(") and isinstance(value, bytes):
        return [value, value.decode(errors="replace")]
    return [value]


@pytest.mark.brands
@in_one_mode
def test_columns_hold_what_the_server_prints(worked: Worked) -> None:
    wrong = []
    for outcome in worked.judged(RIGHT):
        inserts = [frame for frame in outcome.frames if frame.rows.kind == INSERT]
        if not inserts or outcome.table.case.partial:
            continue
        columns = Columns(inserts[0].definition)
        for frame in inserts:
            columns.add(frame.rows.kind, frame.rows.body)
        batch = pyarrow.record_batch(columns)
        batch.validate(full=True)
        rows = [change.after or {} for change in outcome.expected if change.kind == INSERT]
        assert batch.num_rows == len(rows)
        name = f"{outcome.table.case.family}, {outcome.table.case.name}"
        wrong += [f"{name}: {line}" for column in rows[0] for line in column_differences(batch, column, outcome, rows)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.brands
def test_the_lakes_columns_have_its_fields_and_the_same_values(worked: Worked, tmp_path: Path) -> None:
    writer, wire = JournalWriter(tmp_path, 1 << 24), dict[bytes, Columns]()
    for outcome in worked.judged(RIGHT):
        for frame in () if outcome.table.case.partial else outcome.frames:
            rows = frame.rows
            writer.rows(writer.define(frame.definition), rows.kind, 100, 0, rows.rows, rows.body)
            writer.commit(100, 0)
            wire.setdefault(frame.definition, Columns(frame.definition)).add(rows.kind, rows.body)
    reader = ChangeReader(tmp_path)
    assert reader.read(writer.flush(), 1 << 40).why == "end"
    found = reader.take()
    assert {columns.definition for columns in found} == set(wire)
    for columns in found:
        lake, other = pyarrow.record_batch(columns), pyarrow.record_batch(wire[columns.definition])
        lake.validate(full=True)
        definition = msgspec.msgpack.decode(columns.definition, type=Definition)
        fields, _ = fields_of(definition)
        listed = [field.type for field in lake.schema]
        kinds = [kind.value_type if pyarrow.types.is_dictionary(kind) else kind for kind in listed]
        assert kinds == [arrow_type(field.type) for field in [*fields, *META_FIELDS[:-1]]]
        for at, column in enumerate(definition.columns):
            values = other.column(column.name).to_pylist()
            if fields[at].type == "boolean":
                values = [None if value is None else value == b"\1" for value in values]
            elif f"{column.name}__srid" in lake.schema.names:
                values = [None if value is None else value[4:] for value in values]
            got = lake.column(at).to_pylist()
            if fields[at].type == "string" and f"{column.name}__text" in lake.schema.names:
                aside = lake.column(f"{column.name}__text").to_pylist()  # "": no label, which the wire gives as text
                got = [text if value is None else value for value, text in zip(got, aside, strict=True)]
            assert got == values, f"{definition.table}.{column.name}"


@pytest.mark.brands
@in_one_mode
def test_files_of_the_lake_hold_what_the_server_prints(worked: Worked, tmp_path: Path) -> None:
    whole = [outcome for outcome in worked.judged(RIGHT) if not outcome.table.case.partial]
    wrong = list(sealed_differences(whole, tmp_path))
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.every_server
@pytest.mark.parametrize("worked", [METADATA[-1]], indirect=True)
def test_engines_read_in_open_tables_what_the_lake_has(worked: Worked, tmp_path: Path) -> None:
    whole = [outcome for outcome in worked.judged(RIGHT) if not outcome.table.case.partial]
    wrong = list(open_table_differences(whole, tmp_path))
    assert not wrong, "\n".join(wrong[:50])


@pytest.mark.brands
@in_one_mode
@pytest.mark.parametrize("form", ["csv", pytest.param("json", marks=pytest.mark.slow)])
def test_lines_of_the_log_hold_what_the_server_prints(worked: Worked, tmp_path: Path, form: str) -> None:
    wrong = list(log_differences(worked.judged(RIGHT), tmp_path, form))
    assert not wrong, "\n".join(wrong[:50])


@pytest.mark.brands
@in_one_mode
@pytest.mark.parametrize(
    ("form", "values"),
    [
        ("json", "exact"),
        ("avro", "maxscale"),
        pytest.param("json", "maxscale", marks=pytest.mark.slow),
        pytest.param("avro", "exact", marks=pytest.mark.slow),
    ],
)
def test_cdc_clients_get_what_the_server_prints(worked: Worked, tmp_path: Path, form: str, values: str) -> None:
    whole = [outcome for outcome in worked.judged(RIGHT) if not outcome.table.case.partial]
    wrong = list(cdc_differences(whole, tmp_path, form, values))
    assert not wrong, "\n".join(wrong[:50])


def column_differences(
    batch: pyarrow.RecordBatch, name: str, outcome: Outcome, rows: list[dict[str, bytes | None]]
) -> Iterator[str]:
    sql = {column.name: column.sql_type for column in definition_of(outcome).columns}[name]
    kind = batch.schema.field(name).type
    aside = f"{name}__text"
    asides = batch.column(aside).to_pylist() if aside in batch.schema.names else itertools.repeat(None)
    for row, *got in zip(rows, batch.column(name).to_pylist(), asides, strict=False):
        text = row[name]
        try:
            told = text.decode(errors=QUESTION).encode() if text and pyarrow.types.is_string(kind) else text
            expected = [as_column(kind, told), None]
        except ValueError:
            expected = [None, text.decode() if text else None]
        if got != expected and not (isinstance(got[0], float) and rounded(sql, got[0]) == expected[0]):
            yield f"{name} {sql} {text!r:.80}: {got!r:.200} instead of {expected!r:.200}"


def definition_of(outcome: Outcome) -> Definition:
    return msgspec.msgpack.decode(outcome.frames[0].definition, type=Definition)


def rounded(sql: str, value: float) -> float:
    """A number as the server prints it: six digits of a FLOAT; as many decimals as FLOAT(M,D) and DOUBLE(M,D) have."""
    if "," in sql:
        return round(value, int(sql.split(",")[1].split(")")[0]))
    return float(f"{value:.6g}") if sql.startswith("float") else value
