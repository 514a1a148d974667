"""The input of the data source's tasks: groups of files, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from relay.lake import scan
from relay.lake.columns import fields_of_all, generations_of
from relay.lake.documents import DataFile, TableState
from relay.lake.types import generation_schema
from relay.spark.options import Options, storage_of
from relay.spark.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow

PARTITION_BYTES: Final = 32 << 20
"""The bytes of files that one task reads, unless a single file is larger."""


@dataclass
class SeqRange(InputPartition):
    """The input of one task: some files of one generation."""

    files: scan.Files


def ranges(
    options: Options, table: TableState, files: Sequence[DataFile], start: int, end: int | None
) -> list[InputPartition]:
    """Group neighbouring files, for rows with start < `_seq` <= end: one group for each task."""
    lake = storage_of(options).url()
    fields = fields_of_all(table)
    sides = {field.column: field.name for field in fields if field.side == "text"}
    texts = {field.name: sides[field.column] for field in fields if not field.side and field.column in sides}
    types = {
        number: {field.name: field.type for field in generation_schema(versions, table.sides)}
        for number, versions in generations_of(table).items()
    }
    made: list[SeqRange] = []
    size, generation = 0, 0
    for file in files:
        file_generation = table.versions[file.version - 1].generation
        if not made or file_generation != generation or size + file.bytes > PARTITION_BYTES:
            made.append(SeqRange(scan.Files(lake, [], start, end, types[file_generation], texts)))
            size, generation = 0, file_generation
        made[-1].files.paths.append(file.path)
        size += file.bytes
    return list(made)


def read(files: scan.Files, schema: StructType) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of files, with the columns of the schema."""
    types = {field.name: field.dataType.simpleString() for field in schema}
    return scan.read(files, types, arrow_schema(schema))
