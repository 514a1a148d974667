"""Read changes as Arrow batches from the journal of a DataDir. A running relay is not needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from relay._native import ChangeColumns, ChangeReader, JournalReader, Reached
from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.ddl.dialect import unpacked
from relay.ingest.rules import Rules
from relay.journal.frames import Definition
from relay.lake import paths, statements
from relay.lake.documents import Field, Table, TableState, TableVersion
from relay.lake.types import META_FIELDS, arrow_type, fields_of

if TYPE_CHECKING:
    import pyarrow as pa

OLDEST: Final = "oldest"
MAX_BYTES: Final = 64 << 20
MAX_SECONDS: Final = 10.0
_BUFFERED_BYTES: Final = 8 << 20
"""Of columns. More would not be faster: the operating system maps and clears their memory for each batch."""
_POLL_SECONDS: Final = 0.1  # between polls of a followed journal, which is flushed once a second


class Batch(NamedTuple):
    """Changes of one table as flat rows: an update is two rows, the images before and after.

    `rows` has the columns of the lake's files (docs/lake-batches.md) except `_schema_version`. A statement that deletes
    a table's rows is a batch of one row with `_change_type` truncate, drop, reset or create. The table's own columns
    are NULL in it, and missing if no row of the table came before.

    `first` and `last` are the lowest and highest `_seq`. Once all batches of a flush are yielded, everything of the
    chosen tables up to `position` of the source's binlog `file` has been yielded. `gtid` is that of the last
    transaction there, "" without GTIDs. `whole` is False until the end of a transaction that is larger than
    `max_bytes`.

    `resume` is the `start` for a later call, once this batch is processed: nothing is skipped, and rows that are read
    again have the same `_seq`. `lost` is the reason why events right before this batch are missing, "" if none
    are.
    """

    schema: str
    table: str
    rows: pa.RecordBatch
    first: int
    last: int
    file: str
    position: int
    gtid: str
    whole: bool
    resume: str
    lost: str


def read_batches(
    data_dir: str | PathLike[str],
    tables: Sequence[str] = ("*.*",),
    *,
    start: str = OLDEST,
    follow: bool = False,
    json: Literal["text", "binary"] = "text",
    max_bytes: int = MAX_BYTES,
    max_seconds: float = MAX_SECONDS,
) -> Iterator[Batch]:
    """Yield the changes in the journal of a DataDir up to what is on disk; with `follow`, without an end.

    `tables` are patterns `schema.table`. `start` is "oldest", the first transaction that the journal has whole, or
    `resume` of an earlier batch. `json` is the form of JSON values: text, or MySQL's binary form. Rows are buffered
    until they take 8 MiB, or `max_bytes` if that is less, or have waited `max_seconds`, and then up to the end of the
    transaction. Only a transaction that alone is larger than `max_bytes` is divided. A statement, an accepted gap and a
    change of the source end a batch too.

    Raises `RelayError`: journal_lost if retention has deleted what comes next or the journal is another one;
    partial_image and unsupported_column as `relay._native.ChangeReader` does; environment without pyarrow.
    """
    import relay.lake.arrow  # noqa: F401  (names the extra if pyarrow is missing)

    reading = _Reading(Path(data_dir) / "journal", tables, start, json, max_bytes)
    return reading.follow(max_seconds) if follow else reading.until_end()


class _Reading:
    """A journal reader and the rows that are not yet yielded."""

    def __init__(
        self, journal: Path, tables: Sequence[str], start: str, json: Literal["text", "binary"], max_bytes: int
    ) -> None:
        self._journal = JournalReader(journal)
        wanted = _matcher(tables)
        self._reader = ChangeReader(journal, self._position(start), wanted=wanted, json=json)
        self._max_bytes = max_bytes
        self._divided = False  # the reader is inside a divided transaction
        self._resume = self._token()
        self._lost = ""
        self._tables = _Tables(wanted)

    def until_end(self) -> Iterator[Batch]:
        until = self._journal.flushed()
        while self._reader.position < until:
            yield from self._flush_after(self._read(until))

    def follow(self, max_seconds: float) -> Iterator[Batch]:
        waiting_since = 0.0  # monotonic: since when rows may be waiting
        while True:
            until = self._journal.flushed()
            if self._reader.position < until:
                waiting_since = waiting_since or time.monotonic()
                reached = self._read(until)
                if reached.why == "end" and time.monotonic() - waiting_since < max_seconds:
                    continue
                waiting_since = 0.0
                yield from self._flush_after(reached)
            elif waiting_since and time.monotonic() - waiting_since >= max_seconds:
                waiting_since = 0.0
                yield from self._flush(self._take_parts())
            else:
                time.sleep(_POLL_SECONDS)

    def _read(self, until: int) -> Reached:
        """Read until a flush is possible: within a transaction only if that transaction alone has too many bytes."""
        buffered = min(_BUFFERED_BYTES, self._max_bytes)
        within = buffered if self._divided else buffered + self._max_bytes
        while (reached := self._reader.read(until, buffered, within)).why == "more":
            pass
        self._divided = self._reader.in_transaction
        return reached

    def _flush_after(self, reached: Reached) -> Iterator[Batch]:
        parts = self._take_parts()
        if reached.why == "ddl":
            parts += self._tables.markers(reached, self._reader)
        yield from self._flush(parts)
        if reached.why == "gap":
            self._lost = reached.text

    def _take_parts(self) -> list[_Part]:
        return [self._tables.part(columns) for columns in self._reader.take()]

    def _flush(self, parts: Sequence[_Part]) -> Iterator[Batch]:
        reader, resume = self._reader, self._token()
        for number, (table, first, last, rows) in enumerate(parts, 1):
            # Only the last batch of a flush may advance the resume position.
            after = resume if number == len(parts) else self._resume
            yield Batch(
                table.schema, table.table, rows, first, last, reader.file, reader.offset, reader.gtid,
                not reader.in_transaction, after, self._lost,
            )  # fmt: skip
            self._lost = ""
        self._resume = resume

    def _token(self) -> str:
        return f"{self._reader.generation:x}:{self._reader.position}"

    def _position(self, start: str) -> int:
        if start == OLDEST:
            return 0
        first, _, second = start.partition(":")
        try:
            generation, position = int(first, 16), int(second)
        except ValueError:
            raise RelayError(
                ErrorCode.USAGE, "read batches", f"{start!r} is not a position of the journal",
                hint="start at 'oldest', or at `resume` of an earlier batch",
            ) from None  # fmt: skip
        if generation != self._journal.generation():
            raise RelayError(
                StopCode.JOURNAL_LOST, "read batches", f"{start!r} is a position of another journal",
                hint="start at 'oldest': this journal lacks the changes in between",
            )  # fmt: skip
        return position


class _Part(NamedTuple):
    """Rows of one table, with the first and the last `_seq`."""

    table: Table
    first: int
    last: int
    rows: pa.RecordBatch


class _Tables:
    """The tables seen so far, with their columns named as in the lake."""

    def __init__(self, wanted: Callable[[str, str], bool]) -> None:
        self._wanted = wanted
        self._states: dict[str, TableState] = {}
        self._schemas: dict[bytes, tuple[Table, pa.Schema]] = {}  # by packed definition
        self._newest: dict[Table, pa.Schema] = {}

    def part(self, columns: ChangeColumns) -> _Part:
        """Return the rows under the lake's column names."""
        import pyarrow as pa

        batch = pa.record_batch(columns)
        if columns.definition not in self._schemas:
            self._schemas[columns.definition] = self._register(columns.definition, batch.schema)
        table, schema = self._schemas[columns.definition]
        self._newest[table] = schema
        return _Part(table, columns.first, columns.last, pa.record_batch(batch.columns, schema=schema))

    def _register(self, packed: bytes, schema: pa.Schema) -> tuple[Table, pa.Schema]:
        definition = msgspec.msgpack.decode(packed, type=Definition)
        table = Table(definition.schema, definition.table)
        fields, key = fields_of(definition)
        state = self._states.setdefault(paths.table_key(table), TableState(table))
        state.versions.append(TableVersion(table, 1, len(state.versions) + 1, fields, key))
        for at, field in enumerate(fields):
            schema = schema.set(at, schema.field(at).with_name(field.name))
        return table, schema

    def markers(self, reached: Reached, reader: ChangeReader) -> list[_Part]:
        """Return one row for each table whose rows a statement deletes; `reader` is positioned after the statement."""
        from relay.lake.markers import Where, marker_row

        where = Where(reached.seq, reached.timestamp, reader.file, reader.offset, reader.gtid)
        found = []
        dialect = unpacked(reached.dialect)
        for table, kind in statements.effects(reached.text, reached.schema, self._states, dialect):
            if not self._wanted(table.schema, table.table):
                continue
            state = self._states.setdefault(paths.table_key(table), TableState(table))
            state.reset, state.last_marker = reached.seq, kind
            row = marker_row(self._newest.get(table) or _meta_schema(), kind, where)
            found.append(_Part(table, reached.seq, reached.seq, row))
        return found


def _meta_schema() -> pa.Schema:
    """Return the schema of a marker row of a table whose columns are not yet known."""
    import pyarrow as pa

    def column(field: Field) -> tuple[str, pa.DataType]:
        kind = arrow_type(field.type)
        index = pa.int8() if field.name == "_change_type" else pa.int32()
        return field.name, pa.dictionary(index, kind) if field.type == "string" else kind

    return pa.schema([column(field) for field in META_FIELDS[:-1]])


def _matcher(patterns: Sequence[str]) -> Callable[[str, str], bool]:
    if bad := next((pattern for pattern in patterns if "." not in pattern), None):
        raise RelayError(ErrorCode.USAGE, "read batches", f"{bad!r} is not a table pattern", hint="say schema.table")
    return Rules(list(patterns)).wants
