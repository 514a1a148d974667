"""The input of the data source's tasks: groups of files, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from relay.lake import scan
from relay.lake.columns import fields_of_all, generations_of
from relay.lake.documents import DataFile, LakeState, TableVersion
from relay.lake.tables import find_table
from relay.lake.types import generation_schema
from relay.spark import upserts
from relay.spark.options import Options, storage_of
from relay.spark.schema import arrow_schema
from relay.spark.upserts import added_fields, key_types

if TYPE_CHECKING:
    import pyarrow

PARTITION_BYTES: Final = 32 << 20
"""The bytes of files that one task reads, unless a single file is larger."""


@dataclass
class SeqRange(InputPartition):
    """The input of one task: some files of one generation, or gaps."""

    files: scan.Files
    key: dict[str, str]
    """For upserts: the columns that identify a row, with their types."""
    added: tuple[str, str]
    """For upserts: the names of the added columns."""
    gaps: list[int] = field(default_factory=list)
    """For upserts: the numbers of gaps, which no file has."""


def gaps_between(state: LakeState, options: Options, start: int, end: int | None) -> list[int]:
    """Return the numbers of gaps with start < `_seq` <= end. Only upserts need them: a gap empties the table."""
    every = [gap.seq for gap in state.gaps] if options.upserts else []
    return [seq for seq in every if seq > start and (end is None or seq <= end)]


def ranges(
    options: Options,
    state: LakeState,
    version: TableVersion,
    files: Sequence[DataFile],
    start: int,
    end: int | None,
) -> list[InputPartition]:
    """Group neighbouring files, for rows with start < `_seq` <= end: one group for each task.

    Upserts have the key of `version`.
    """
    table = find_table(state, version.table)
    lake = storage_of(options).url()
    fields = fields_of_all(table)
    sides = {field.column: field.name for field in fields if field.side == "text"}
    texts = {field.name: sides[field.column] for field in fields if not field.side and field.column in sides}
    types = {
        number: {field.name: field.type for field in generation_schema(versions, table.sides)}
        for number, versions in generations_of(table).items()
    }
    key = key_types(table, version) if options.upserts else {}
    operation, sequence = added_fields(table)
    added = operation.name, sequence.name
    made: list[SeqRange] = []
    size, generation = 0, 0
    for file in files:
        file_generation = table.versions[file.version - 1].generation
        if not made or file_generation != generation or size + file.bytes > PARTITION_BYTES:
            group = scan.Files(lake, [], start, end, types[file_generation], texts)
            made.append(SeqRange(group, key, added))
            size, generation = 0, file_generation
        made[-1].files.paths.append(file.path)
        size += file.bytes
    if gaps := gaps_between(state, options, start, end):
        made.append(SeqRange(scan.Files(lake, [], start, end, {}, {}), key, added, gaps))
    return list(made)


def read(partition: SeqRange, schema: StructType) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a task, with the columns of the schema."""
    if partition.gaps:
        return upserts.emptied(partition.gaps, schema, partition.added)
    if partition.key:
        return upserts.read(partition.files, schema, partition.key, partition.added)
    types = {field.name: field.dataType.simpleString() for field in schema}
    return scan.read(partition.files, types, arrow_schema(schema))
