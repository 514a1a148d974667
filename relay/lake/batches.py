"""Changes as Arrow batches in memory, read from the journal of a DataDir, with a running relay or without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from relay._native import ChangeColumns, ChangeReader, JournalReader, Reached
from relay.ddl.dialect import unpacked
from relay.errors import ErrorCode, RelayError, StopCode
from relay.journal.frames import Definition
from relay.lake import paths, statements
from relay.lake.documents import Field, Table, TableState, TableVersion
from relay.lake.types import META_FIELDS, arrow_type, fields_of

if TYPE_CHECKING:
    import pyarrow as pa

OLDEST: Final = "oldest"
MAX_BYTES: Final = 64 << 20
MAX_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.1  # between looks at a journal that is followed; it is flushed once a second


class Batch(NamedTuple):
    """Changes of one table, flat: an update is two rows, its images before and after.

    `rows` has the columns of the lake's files (docs/lake-batches.md) but for `_schema_version`. A statement that took a
    table's rows is a batch of one row with `_change_type` truncate, drop, reset or create, whose columns of the table
    are NULL; they are missing where no row of the table came before.

    `first` and `last` are the lowest and highest `_seq`. Everything of the chosen tables up to `position` of the
    source's binlog `file` has been given, once all batches of the same flush have been; `gtid` is that of the last
    transaction there, "" without GTIDs. `whole` is False while a transaction larger than `max_bytes` is not at its end.

    `resume` is a `start` for another reading after this batch was dealt with: nothing is left out then, and what comes
    again has the same `_seq`. `lost` says why events right before this batch are missing, "" if none are.
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
    """Yield the changes in the journal of a DataDir, up to what is on disk, or with `follow` without an end.

    `tables` are patterns `schema.table`; `start` is "oldest", the first transaction that the journal has whole, or
    `resume` of an earlier batch. JSON comes as text, or as MySQL's own binary form. Rows are gathered until they take
    `max_bytes` or have waited `max_seconds`, then to the end of the transaction: only one that is larger by itself is
    divided. A statement, an accepted gap and a change of the source end a batch too.

    Raises `RelayError`: journal_lost if retention has deleted what comes next, or the journal is another one;
    partial_image and unsupported_column as `relay._native.ChangeReader`; environment without pyarrow.
    """
    import relay.lake.arrow  # noqa: F401  (names the extra where pyarrow is missing)

    reading = _Reading(Path(data_dir) / "journal", tables, start, json, max_bytes)
    return reading.follow(max_seconds) if follow else reading.to_the_end()


class _Reading:
    """One reader, and what waits to be given."""

    def __init__(
        self, journal: Path, tables: Sequence[str], start: str, json: Literal["text", "binary"], max_bytes: int
    ) -> None:
        self._journal = JournalReader(journal)
        wanted = _choice(tables)
        self._reader = ChangeReader(journal, self._position(start), wanted=wanted, json=json)
        self._max_bytes = max_bytes
        self._divided = False  # the transaction at which the reader is
        self._resume = self._token()
        self._lost = ""
        self._tables = _Tables(wanted)

    def to_the_end(self) -> Iterator[Batch]:
        until = self._journal.flushed()
        while self._reader.position < until:
            yield from self._flush_after(self._read(until))

    def follow(self, max_seconds: float) -> Iterator[Batch]:
        gathered = 0.0  # monotonic: since when something may wait to be given
        while True:
            until = self._journal.flushed()
            if self._reader.position < until:
                gathered = gathered or time.monotonic()
                reached = self._read(until)
                if reached.why == "end" and time.monotonic() - gathered < max_seconds:
                    continue
                gathered = 0.0
                yield from self._flush_after(reached)
            elif gathered and time.monotonic() - gathered >= max_seconds:
                gathered = 0.0
                yield from self._flush(self._gathered())
            else:
                time.sleep(_LOOK_SECONDS)

    def _read(self, until: int) -> Reached:
        """Gather to a place where a flush may be: within a transaction only if that alone has too many bytes."""
        reached = self._read_on(until, self._max_bytes)
        if reached.why == "full" and self._reader.in_transaction and not self._divided:
            reached = self._read_on(until, 2 * self._max_bytes)
        self._divided = self._reader.in_transaction
        return reached

    def _read_on(self, until: int, max_bytes: int) -> Reached:
        while (reached := self._reader.read(until, max_bytes)).why == "more":
            pass
        return reached

    def _flush_after(self, reached: Reached) -> Iterator[Batch]:
        parts = self._gathered()
        if reached.why == "ddl":
            parts += self._tables.markers(reached, self._reader)
        yield from self._flush(parts)
        if reached.why == "gap":
            self._lost = reached.text

    def _gathered(self) -> list[_Part]:
        return [self._tables.part(columns) for columns in self._reader.take()]

    def _flush(self, parts: Sequence[_Part]) -> Iterator[Batch]:
        reader, resume = self._reader, self._token()
        for number, (table, first, last, rows) in enumerate(parts, 1):
            # What comes with a flush can be left behind only with its last batch.
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
        generation, _, position = start.partition(":")
        try:
            asked, place = int(generation, 16), int(position)
        except ValueError:
            raise RelayError(
                ErrorCode.USAGE, "read batches", f"{start!r} is no place of the journal",
                hint="start at 'oldest', or at `resume` of an earlier batch",
            ) from None  # fmt: skip
        if asked != self._journal.generation():
            raise RelayError(
                StopCode.JOURNAL_LOST, "read batches", f"{start!r} is a place of another journal",
                hint="start at 'oldest': what stands between is not in this journal",
            )  # fmt: skip
        return place


class _Part(NamedTuple):
    """Rows of one table, and the `_seq` of the first and the last."""

    table: Table
    first: int
    last: int
    rows: pa.RecordBatch


class _Tables:
    """What is known of the tables so far: their columns, as the lake names them."""

    def __init__(self, wanted: Callable[[str, str], bool]) -> None:
        self._wanted = wanted
        self._states: dict[str, TableState] = {}
        self._schemas: dict[bytes, tuple[Table, pa.Schema]] = {}  # by packed definition
        self._newest: dict[Table, pa.Schema] = {}

    def part(self, columns: ChangeColumns) -> _Part:
        """The columns under the names of the lake."""
        import pyarrow as pa

        batch = pa.record_batch(columns)
        if columns.definition not in self._schemas:
            self._schemas[columns.definition] = self._know(columns.definition, batch.schema)
        table, schema = self._schemas[columns.definition]
        self._newest[table] = schema
        return _Part(table, columns.first, columns.last, pa.record_batch(batch.columns, schema=schema))

    def _know(self, packed: bytes, schema: pa.Schema) -> tuple[Table, pa.Schema]:
        definition = msgspec.msgpack.decode(packed, type=Definition)
        table = Table(definition.schema, definition.table)
        fields, key = fields_of(definition)
        state = self._states.setdefault(paths.table_key(table), TableState(table))
        state.versions.append(TableVersion(table, 1, len(state.versions) + 1, fields, key))
        for at, field in enumerate(fields):
            schema = schema.set(at, schema.field(at).with_name(field.name))
        return table, schema

    def markers(self, reached: Reached, reader: ChangeReader) -> list[_Part]:
        """A row for each table whose rows a statement took; `reader` stands behind it."""
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
    """Of a table of which nothing is known yet."""
    import pyarrow as pa

    def column(field: Field) -> tuple[str, pa.DataType]:
        kind = arrow_type(field.type)
        index = pa.int8() if field.name == "_change_type" else pa.int32()
        return field.name, pa.dictionary(index, kind) if field.type == "string" else kind

    return pa.schema([column(field) for field in META_FIELDS[:-1]])


def _choice(patterns: Sequence[str]) -> Callable[[str, str], bool]:
    pairs = [tuple(pattern.split(".", 1)) for pattern in patterns]
    if bad := next((pattern for pattern in patterns if "." not in pattern), None):
        raise RelayError(ErrorCode.USAGE, "read batches", f"{bad!r} is no pattern of tables", hint="say schema.table")
    return lambda schema, table: any(
        fnmatchcase(schema, first) and fnmatchcase(table, second) for first, second in pairs
    )
