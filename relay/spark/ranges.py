"""The input of the data source's tasks: groups of files, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from relay.lake import scan
from relay.lake.columns import fields_of_all, generations_of
from relay.lake.documents import DataFile, TableState, TableVersion
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
    """The input of one task: some files of one generation."""

    files: scan.Files
    key: dict[str, str]
    """For upserts: the columns that identify a row, with their types."""
    added: tuple[str, str]
    """For upserts: the names of the added columns."""


def ranges(
    options: Options, table: TableState, version: TableVersion, files: Sequence[DataFile], start: int, end: int | None
) -> list[InputPartition]:
    """Group neighbouring files, for rows with start < `_seq` <= end: one group for each task.

    Upserts have the key of `version`.
    """
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
    made: list[SeqRange] = []
    size, generation = 0, 0
    for file in files:
        file_generation = table.versions[file.version - 1].generation
        if not made or file_generation != generation or size + file.bytes > PARTITION_BYTES:
            group = scan.Files(lake, [], start, end, types[file_generation], texts)
            made.append(SeqRange(group, key, (operation.name, sequence.name)))
            size, generation = 0, file_generation
        made[-1].files.paths.append(file.path)
        size += file.bytes
    return list(made)


def read(partition: SeqRange, schema: StructType) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a task, with the columns of the schema."""
    if partition.key:
        return upserts.read(partition.files, schema, partition.key, partition.added)
    types = {field.name: field.dataType.simpleString() for field in schema}
    return scan.read(partition.files, types, arrow_schema(schema))
