"""The stream of the data source: changes in batches. It needs pyspark 4.2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from relay.base.errors import MEANINGS, RelayError, StopCode
from relay.lake.documents import DataFile, LakeState, TableState, TableVersion
from relay.lake.log import LakeLog
from relay.lake.tables import bounds_of
from relay.lake.types import widens
from relay.spark import offsets
from relay.spark.options import Options, check_user_schema, log_of, storage_of, table_of
from relay.spark.ranges import SeqRange, gaps_between, ranges, read

if TYPE_CHECKING:
    import pyarrow


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
        self._kinds = ("changes", "snapshot") if options.upserts else ("changes",)
        if self._user_schema:
            check_user_schema(schema, table_of(log_of(options).state(), options), options)

    def initialOffset(self) -> dict[str, int]:
        """Return the offset of the option `start`. Spark calls this once for each checkpoint."""
        start = self._options.start
        if start == "newest":
            return {"seq": self._end(self._state())}
        return {"seq": self._oldest(self._state()) if start == "oldest" else int(start)}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the end of the next batch: the last change, or as far as `limit` and the stream's columns allow."""
        state = self._state()
        begin, end = start["seq"], self._end(state) if self._target is None else self._target
        found = offsets.files_between(table_of(state, self._options).files.values(), begin, end, self._kinds)
        files = self._fitting(found, state)
        ends = [file.last for file in files]
        if len(files) == len(found):
            ends += gaps_between(state, self._options, begin, end)
        if not ends:
            return start
        end = min(end, max(ends))
        if isinstance(limit, ReadMaxRows):
            end = offsets.limited_end(storage_of(self._options), files, begin, end, limit.max_rows)
        return {"seq": end}

    def getDefaultReadLimit(self) -> ReadLimit:
        """`max_rows` for each batch, or everything available."""
        return ReadMaxRows(self._options.max_rows) if self._options.max_rows else ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, int]:
        """Return the position of the export, for the query's progress."""
        return {"seq": _last_seq(self._state())}

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of this run at the current position of the export."""
        self._target = self._end(self._state())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Group neighbouring files of the changes in (start, end], one group for each task."""
        state = self._state()
        table = table_of(state, self._options)
        found = offsets.files_between(table.files.values(), start["seq"], end["seq"], self._kinds)
        return ranges(self._options, state, self._version(table), found, start["seq"], end["seq"])

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yield the changes of a partition's files."""
        assert isinstance(partition, SeqRange)
        return read(partition, self._schema)

    def _state(self) -> LakeState:
        if self._log is None:
            self._log = log_of(self._options)
        state = self._log.state()
        if self._columns_until is None:
            self._columns_until = table_of(state, self._options).version.version
        return state

    def _version(self, table: TableState) -> TableVersion:
        """Return the version with the stream's columns and key."""
        return table.versions[(self._columns_until or table.version.version) - 1]

    def _end(self, state: LakeState) -> int:
        """Return the last number to deliver: upserts wait until the rows of a snapshot are in their place."""
        return bounds_of(state, table_of(state, self._options)).until if self._options.upserts else _last_seq(state)

    def _oldest(self, state: LakeState) -> int:
        """Return where a whole table begins; changes before the table was last emptied are of no use to upserts."""
        return bounds_of(state, table_of(state, self._options)).reset - 1 if self._options.upserts else 0

    def _fitting(self, files: list[DataFile], state: LakeState) -> list[DataFile]:
        """Return the files before the first one that does not fit the stream's columns.

        The columns are fixed at the stream's start.

        Raises RelayError if that file is next: everything before it was delivered.
        """
        table = table_of(state, self._options)
        for index, file in enumerate(files):
            if why := self._mismatch(file, table):
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

    def _mismatch(self, file: DataFile, table: TableState) -> str:
        version = table.versions[file.version - 1]
        types = {field.name: field.dataType.simpleString() for field in self._schema}
        if self._columns_until is not None and version.version > self._columns_until:
            if self._options.upserts and version.key != self._version(table).key:
                return f"the primary key became ({', '.join(version.key)})"
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


def _last_seq(state: LakeState) -> int:
    return state.place.seq if state.place else 0
