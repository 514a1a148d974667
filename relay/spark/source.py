"""The Python data source "relay": a table's changes as a DataFrame, and as a stream by `_seq`.

    spark.read.format("relay").option("lake", "/srv/lake").option("table", "shop.orders").load()
    spark.readStream.format("relay").option("lake", "/srv/lake").option("table", "shop.orders").load()

Spark creates these objects anew in each of its processes: planning, offsets and reading share only what is pickled with
the source and its partitions. All of them need this package installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from relay.base.errors import MEANINGS, ErrorCode, RelayError, StopCode
from relay.lake import scan
from relay.lake.columns import fields_of_all, generations_of
from relay.lake.documents import DataFile, LakeState, TableState, TableVersion
from relay.lake.log import LakeLog
from relay.lake.storage import Storage, open_storage
from relay.lake.tables import find_table
from relay.lake.types import META_FIELDS, generation_schema, widens
from relay.spark import offsets
from relay.spark.schema import struct_type

if TYPE_CHECKING:
    import pyarrow

NAME: Final = "relay"
PARTITION_BYTES: Final = 32 << 20
"""The bytes of files that one task reads, unless a single file is larger."""

_EXAMPLES: Final = {"lake": "/srv/lake", "table": "shop.orders"}
OPTIONS: Final = ("lake", "table", "since", "until", "start", "max_rows")
"""The names that `option` takes, without regard to case."""


@dataclass
class SeqRange(InputPartition):
    """The input of one task: some files of one generation."""

    files: scan.Files


class RelayDataSource(DataSource):
    """The data source.

    Options: `lake` (path or URL) and `table` ("shop.orders"); `since` and `until` for batch reads; `start` and
    `max_rows` for streams. Without a user's schema, the columns are those of `relay.spark.changes`. With one, only its
    columns are read.
    """

    columns_until: int | None = None
    """The newest version when Spark asked for the schema; None if the user gave one. Pickled with the source."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """Return the current columns of the table's changes."""
        options = Options(self.options)
        table = _table(_log(options).state(), options)
        self.columns_until = table.version.version
        return struct_type([*fields_of_all(table), *META_FIELDS])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a DataFrame."""
        return ChangesReader(Options(self.options), schema, self.columns_until)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        return ChangesStreamReader(Options(self.options), schema, self.columns_until)


class Options:
    """The checked options of a source. `since`, `until` and `max_rows` are None if not given."""

    def __init__(self, given: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in given.items()}
        if unknown := sorted(given.keys() - {*OPTIONS}):
            raise _usage_error(f"there is no option {unknown[0]!r}", f"options: {', '.join(OPTIONS)}")
        for name in ("lake", "table"):
            if not given.get(name):
                raise _usage_error(f"the option {name!r} is missing", f'.option("{name}", "{_EXAMPLES[name]}")')
        self.lake = given["lake"]
        self.table = given["table"]
        self.since = _number(given, "since")
        self.until = _number(given, "until")
        self.start = given.get("start", "oldest").lower()
        if self.start not in ("oldest", "newest"):
            _number(given, "start")
        self.max_rows = _number(given, "max_rows")
        if self.max_rows == 0:
            raise _usage_error("a stream with max_rows = 0 never progresses", "omit it, or give at least 1")


def _number(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name)
    if value is not None and not (value.isascii() and value.isdigit()):
        raise _usage_error(f"{name} = {value!r} is not a number", "use numbers of the column _seq")
    return None if value is None else int(value)


def _usage_error(cause: str, hint: str, position: str = "") -> RelayError:
    # Spark shows only the message of an exception.
    return RelayError(ErrorCode.USAGE, 'read format("relay")', f"{cause} ({hint})", position=position, hint=hint)


class ChangesReader(DataSourceReader):
    """Read changes, and rows of snapshots, once.

    It supports no filters: a reader with `pushFilters` fails every query while
    `spark.sql.python.filterPushdown.enabled` is false, which is the default. `since` and `until` are its filters.
    """

    def __init__(self, options: Options, schema: StructType, columns_until: int | None) -> None:
        self._options = options
        self._schema = schema
        if columns_until is None:
            _check_user_schema(schema, _table(_log(options).state(), options))

    def partitions(self) -> Sequence[InputPartition]:
        """Group neighbouring files, one group for each task."""
        table = _table(_log(self._options).state(), self._options)
        start, end = self._options.since or 0, self._options.until
        return _ranges(self._options, table, offsets.files_between(table.files.values(), start, end), start, end)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a partition's files."""
        if not isinstance(partition, SeqRange):  # Spark's own partition of a table without files
            return iter(())
        return _read(partition.files, self._schema)


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream changes in batches that end between transactions. An offset is {"seq": the last `_seq` before it}.

    It stores nothing for a stream and deletes nothing after it. `commit` and `stop` do nothing, since Spark does not
    call `commit` for the last batch of an AvailableNow run, and does not reliably call `stop`.
    """

    def __init__(self, options: Options, schema: StructType, columns_until: int | None) -> None:
        self._options = options
        self._schema = schema
        self._user_schema = columns_until is None
        self._columns_until = columns_until
        self._log: LakeLog | None = None  # not created while Spark pickles the reader: a task needs no state
        self._target: int | None = None
        if self._user_schema:
            _check_user_schema(schema, _table(_log(options).state(), options))

    def initialOffset(self) -> dict[str, int]:
        """Return the offset of the option `start`. Spark calls this once for each checkpoint."""
        start = self._options.start
        return {"seq": _last_seq(self._state()) if start == "newest" else 0 if start == "oldest" else int(start)}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the end of the next batch: the last change, or as far as `limit` and the stream's columns allow."""
        state = self._state()
        begin, end = start["seq"], _last_seq(state) if self._target is None else self._target
        files = offsets.files_between(_table(state, self._options).files.values(), begin, end, kinds=("changes",))
        files = self._fitting(files, state)
        if not files:
            return start
        end = min(end, max(file.last for file in files))
        if isinstance(limit, ReadMaxRows):
            end = offsets.limited_end(_storage(self._options), files, begin, end, limit.max_rows)
        return {"seq": end}

    def getDefaultReadLimit(self) -> ReadLimit:
        """`max_rows` for each batch, or everything available."""
        return ReadMaxRows(self._options.max_rows) if self._options.max_rows else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, int]:
        """Return the position of the export, for the query's progress."""
        return {"seq": _last_seq(self._state())}

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of this run at the current position of the export."""
        self._target = _last_seq(self._state())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Group neighbouring files of the changes in (start, end], one group for each task."""
        table = _table(self._state(), self._options)
        found = offsets.files_between(table.files.values(), start["seq"], end["seq"], kinds=("changes",))
        return _ranges(self._options, table, found, start["seq"], end["seq"])

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the changes of a partition's files."""
        assert isinstance(partition, SeqRange)
        return _read(partition.files, self._schema)

    def _state(self) -> LakeState:
        if self._log is None:
            self._log = _log(self._options)
        state = self._log.state()
        if self._columns_until is None:
            self._columns_until = _table(state, self._options).version.version
        return state

    def _fitting(self, files: list[DataFile], state: LakeState) -> list[DataFile]:
        """Return the files before the first one that does not fit the stream's columns.

        The columns are fixed at the stream's start.

        Raises RelayError if that file is next: everything before it was delivered.
        """
        table = _table(state, self._options)
        for index, file in enumerate(files):
            if why := self._mismatch(file, table.versions[file.version - 1]):
                if index == 0:
                    code = StopCode.LAKE_COLUMNS
                    raise RelayError(
                        code,
                        "stream changes",
                        f"{why} at _seq {file.first}; all rows before were delivered ({MEANINGS[code].hint})",
                        position=str(table.table),
                    )
                return files[:index]
        return files

    def _mismatch(self, file: DataFile, version: TableVersion) -> str:
        types = {field.name: field.dataType.simpleString() for field in self._schema}
        if self._columns_until is not None and version.version > self._columns_until:
            for field in version.fields:
                if field.side:
                    continue
                if field.name not in types and not self._user_schema:
                    return f"the column {field.name} was added"
                if field.name in types and not widens(field.type, types[field.name]):
                    return f"the column {field.name} became {field.type}"
        for side in file.sides if not self._user_schema else ():
            if side not in types:
                return f"the column {side} got its first value"
        return ""


def _read(files: scan.Files, schema: StructType) -> Iterator[pyarrow.RecordBatch]:
    from pyspark.sql.pandas.types import to_arrow_schema

    types = {field.name: field.dataType.simpleString() for field in schema}
    return scan.read(files, types, to_arrow_schema(schema, timezone="UTC"))


def _storage(options: Options) -> Storage:
    return open_storage(options.lake)


def _log(options: Options) -> LakeLog:
    return LakeLog(_storage(options))


def _table(state: LakeState, options: Options) -> TableState:
    """Return the table. Raises RelayError (usage) if its columns are not yet known."""
    if not state.number:
        raise _usage_error("there is no lake", "its log is empty: check the option 'lake'", options.lake)
    table = find_table(state, options.table)
    if not table.versions:
        raise _usage_error("no change of it has arrived yet", "try again later", str(table.table))
    return table


def _check_user_schema(schema: StructType, table: TableState) -> None:
    """Check that a user's schema names existing columns, with types that hold the newest values without loss."""
    sides = [field for version in table.versions for field in version.fields if field.side]
    known = {field.name: field.type for field in (*sides, *fields_of_all(table), *META_FIELDS)}
    for field in schema:
        requested = field.dataType.simpleString()
        if field.name not in known:
            raise _usage_error(f"there is no column {field.name!r}", f"columns: {', '.join(known)}", str(table.table))
        if not widens(known[field.name], requested):
            raise _usage_error(
                f"the column {field.name} is {known[field.name]}, which does not fit into {requested}",
                "request its type, or a wider one",
                str(table.table),
            )


def _last_seq(state: LakeState) -> int:
    return state.place.seq if state.place else 0


def _ranges(
    options: Options, table: TableState, files: Sequence[DataFile], start: int, end: int | None
) -> list[InputPartition]:
    lake = _storage(options).url()
    fields = fields_of_all(table)
    sides = {field.column: field.name for field in fields if field.side == "text"}
    texts = {field.name: sides[field.column] for field in fields if not field.side and field.column in sides}
    types = {
        number: {field.name: field.type for field in generation_schema(versions, table.sides)}
        for number, versions in generations_of(table).items()
    }
    ranges: list[SeqRange] = []
    size, generation = 0, 0
    for file in files:
        file_generation = table.versions[file.version - 1].generation
        if not ranges or file_generation != generation or size + file.bytes > PARTITION_BYTES:
            ranges.append(SeqRange(scan.Files(lake, [], start, end, types[file_generation], texts)))
            size, generation = 0, file_generation
        ranges[-1].files.paths.append(file.path)
        size += file.bytes
    return list(ranges)
