"""The Python data source "relay": a table's changes as a DataFrame, and as a stream by `_seq`.

    spark.read.format("relay").option("lake", "/srv/lake").option("table", "shop.orders").load()
    spark.readStream.format("relay").option("lake", "/srv/lake").option("table", "shop.orders").load()

Spark makes these objects anew in each of its processes: planning, offsets and reading share nothing but what is pickled
with the source and its partitions. All of them need this package installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from relay.errors import MEANINGS, ErrorCode, RelayError, StopCode
from relay.lake.documents import DataFile, LakeState, TableState, TableVersion
from relay.lake.log import LakeLog
from relay.lake.storage import Storage, open_storage
from relay.lake.types import META_FIELDS, generation_schema, widens
from relay.spark import offsets, scan
from relay.spark.changes import fields_of_all, generations_of
from relay.spark.reading import find
from relay.spark.schema import struct_type

if TYPE_CHECKING:
    import pyarrow

NAME: Final = "relay"
PARTITION_BYTES: Final = 32 << 20
"""Of the files that one task reads, unless a single one is larger."""

_EXAMPLES: Final = {"lake": "/srv/lake", "table": "shop.orders"}
OPTIONS: Final = ("lake", "table", "since", "until", "start", "max_rows")
"""What `option` takes; Spark tells names apart by their letters, not by case."""


@dataclass
class SeqRange(InputPartition):
    """What one task reads: some files of a generation."""

    files: scan.Files


class RelayDataSource(DataSource):
    """Options: `lake` (path or URL) and `table` ("shop.orders"); `since` and `until` for reading once; `start` and
    `max_rows` for streams.

    Without a schema of the user's, the columns are those of `relay.spark.changes`. With one, those are read that it
    names, and no others are taken out of the files.
    """

    columns_until: int | None = None
    """The newest version when Spark asked for the schema; None when the user gave one. Pickled with the source."""

    @classmethod
    def name(cls) -> str:
        """What `format` calls it."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table's changes as they are now."""
        options = Options(self.options)
        table = _table(_log(options).state(), options)
        self.columns_until = table.version.version
        return struct_type([*fields_of_all(table), *META_FIELDS])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of a DataFrame."""
        return ChangesReader(Options(self.options), schema, self.columns_until)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Of a stream."""
        return ChangesStreamReader(Options(self.options), schema, self.columns_until)


class Options:
    """The options of a source, checked. `since`, `until` and `max_rows` are None where they were not given."""

    def __init__(self, given: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in given.items()}
        if unknown := sorted(given.keys() - {*OPTIONS}):
            raise _refusal(f"there is no option {unknown[0]!r}", f"there are {', '.join(OPTIONS)}")
        for name in ("lake", "table"):
            if not given.get(name):
                raise _refusal(f"the option {name!r} is missing", f'.option("{name}", "{_EXAMPLES[name]}")')
        self.lake = given["lake"]
        self.table = given["table"]
        self.since = _number(given, "since")
        self.until = _number(given, "until")
        self.start = given.get("start", "oldest").lower()
        if self.start not in ("oldest", "newest"):
            _number(given, "start")
        self.max_rows = _number(given, "max_rows")
        if self.max_rows == 0:
            raise _refusal("with max_rows = 0 a stream would never move", "leave it out, or give at least 1")


def _number(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name)
    if value is not None and not (value.isascii() and value.isdigit()):
        raise _refusal(f"{name} = {value!r} is no number", "numbers are those of the column _seq")
    return None if value is None else int(value)


def _refusal(cause: str, hint: str, position: str = "") -> RelayError:
    # Spark shows people the message of an exception, and nothing else of it.
    return RelayError(ErrorCode.USAGE, 'read format("relay")', f"{cause} ({hint})", position=position, hint=hint)


class ChangesReader(DataSourceReader):
    """Reads changes, and rows of snapshots, once.

    It takes no filters: a reader that has `pushFilters` fails every query while
    `spark.sql.python.filterPushdown.enabled` is false, as it is by default. `since` and `until` are its filters.
    """

    def __init__(self, options: Options, schema: StructType, columns_until: int | None) -> None:
        self._options = options
        self._schema = schema
        if columns_until is None:
            _check_asked(schema, _table(_log(options).state(), options))

    def partitions(self) -> Sequence[InputPartition]:
        """Neighbouring files, some for each task."""
        table = _table(_log(self._options).state(), self._options)
        start, end = self._options.since or 0, self._options.until
        return _ranges(self._options, table, offsets.between(table.files.values(), start, end), start, end)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a partition's files."""
        if not isinstance(partition, SeqRange):  # Spark's own for a table without files
            return iter(())
        return scan.read(partition.files, self._schema)


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams changes, in batches that end between transactions. An offset is {"seq": the last `_seq` before it}.

    Nothing is kept for a stream and nothing is deleted after it: Spark calls `commit` for no last batch of an
    AvailableNow run, and `stop` not surely, so neither has anything to do here.
    """

    def __init__(self, options: Options, schema: StructType, columns_until: int | None) -> None:
        self._options = options
        self._schema = schema
        self._asked = columns_until is None
        self._columns_until = columns_until
        self._log: LakeLog | None = None  # none where Spark pickles the reader: a task needs no state
        self._target: int | None = None
        if self._asked:
            _check_asked(schema, _table(_log(options).state(), options))

    def initialOffset(self) -> dict[str, int]:
        """Where `start` says. Spark asks once in the life of a checkpoint."""
        start = self._options.start
        return {"seq": _place(self._state()) if start == "newest" else 0 if start == "oldest" else int(start)}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """How far the next batch goes: the last change there is, or as far as `limit` and the columns let it."""
        state = self._state()
        begin, end = start["seq"], _place(state) if self._target is None else self._target
        files = offsets.between(_table(state, self._options).files.values(), begin, end, kinds=("changes",))
        files = self._fitting(files, state)
        if not files:
            return start
        end = min(end, max(file.last for file in files))
        if isinstance(limit, ReadMaxRows):
            end = offsets.limited(_storage(self._options), files, begin, end, limit.max_rows)
        return {"seq": end}

    def getDefaultReadLimit(self) -> ReadLimit:
        """`max_rows` a batch, or all there is."""
        return ReadMaxRows(self._options.max_rows) if self._options.max_rows else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, int]:
        """How far the export is, for the query's progress."""
        return {"seq": _place(self._state())}

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that this run will read."""
        self._target = _place(self._state())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Neighbouring files of the changes in (start, end], some for each task."""
        table = _table(self._state(), self._options)
        found = offsets.between(table.files.values(), start["seq"], end["seq"], kinds=("changes",))
        return _ranges(self._options, table, found, start["seq"], end["seq"])

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The changes of a partition's files."""
        assert isinstance(partition, SeqRange)
        return scan.read(partition.files, self._schema)

    def _state(self) -> LakeState:
        if self._log is None:
            self._log = _log(self._options)
        state = self._log.state()
        if self._columns_until is None:
            self._columns_until = _table(state, self._options).version.version
        return state

    def _fitting(self, files: list[DataFile], state: LakeState) -> list[DataFile]:
        """The files before the first one that the stream's columns, fixed when it began, cannot hold without loss.

        Raises RelayError when that one is next: everything before it was delivered.
        """
        table = _table(state, self._options)
        for place, file in enumerate(files):
            if why := self._misfit(file, table.versions[file.version - 1]):
                if place == 0:
                    code = StopCode.LAKE_COLUMNS
                    raise RelayError(
                        code,
                        "stream changes",
                        f"{why} at _seq {file.first}; all before was delivered ({MEANINGS[code].hint})",
                        position=str(table.table),
                    )
                return files[:place]
        return files

    def _misfit(self, file: DataFile, version: TableVersion) -> str:
        types = {field.name: field.dataType.simpleString() for field in self._schema}
        if self._columns_until is not None and version.version > self._columns_until:
            for field in version.fields:
                if field.side:
                    continue
                if field.name not in types and not self._asked:
                    return f"the column {field.name} was added"
                if field.name in types and not widens(field.type, types[field.name]):
                    return f"the column {field.name} became {field.type}"
        for side in file.sides if not self._asked else ():
            if side not in types:
                return f"the column {side} got its first value"
        return ""


def _storage(options: Options) -> Storage:
    return open_storage(options.lake)


def _log(options: Options) -> LakeLog:
    return LakeLog(_storage(options))


def _table(state: LakeState, options: Options) -> TableState:
    """The table, whose columns a statement or a row has told."""
    if not state.number:
        raise _refusal("there is no lake", "its log is empty: check the option 'lake'", options.lake)
    table = find(state, options.table)
    if not table.versions:
        raise _refusal("no change of it has come yet", "try again later", str(table.table))
    return table


def _check_asked(schema: StructType, table: TableState) -> None:
    """A schema of the user's names columns that there are, in types that the newest values go into without loss."""
    sides = [field for version in table.versions for field in version.fields if field.side]
    known = {field.name: field.type for field in (*sides, *fields_of_all(table), *META_FIELDS)}
    for field in schema:
        asked = field.dataType.simpleString()
        if field.name not in known:
            raise _refusal(f"there is no column {field.name!r}", f"there are {', '.join(known)}", str(table.table))
        if not widens(known[field.name], asked):
            raise _refusal(
                f"the column {field.name} is {known[field.name]}, which does not fit into {asked}",
                "ask for its type, or for a wider one",
                str(table.table),
            )


def _place(state: LakeState) -> int:
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
        of = table.versions[file.version - 1].generation
        if not ranges or of != generation or size + file.bytes > PARTITION_BYTES:
            ranges.append(SeqRange(scan.Files(lake, [], start, end, types[of], texts)))
            size, generation = 0, of
        ranges[-1].files.paths.append(file.path)
        size += file.bytes
    return list(ranges)
