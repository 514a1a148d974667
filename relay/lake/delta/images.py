"""Images of rows: one value for the columns that identify a row, equal exactly if all of them are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relay.lake.arrow import pyarrow

_LENGTH_OF_NULL: Final = b"-"


def images(rows: pyarrow.RecordBatch | pyarrow.Table, names: Sequence[str]) -> pyarrow.ChunkedArray:
    """Return the images of rows by these columns. NULL equals NULL, and 0.0 differs from -0.0.

    Images can be compared if they are of the same columns.
    """
    columns = [rows[name] for name in names]
    types = pyarrow.types
    if len(columns) == 1 and not types.is_list(columns[0].type) and not types.is_floating(columns[0].type):
        return columns[0]
    parts = []
    for column in columns:
        data = _bytes(column)
        length = pyarrow.compute.binary_length(data).cast(pyarrow.string()).cast(pyarrow.binary())
        parts += [pyarrow.compute.fill_null(length, _LENGTH_OF_NULL), pyarrow.compute.fill_null(data, b"")]
    return pyarrow.compute.binary_join_element_wise(*parts, b":")


def _bytes(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Return values as bytes, different ones for different values."""
    types = pyarrow.types
    if types.is_binary(column.type):
        return column
    if types.is_list(column.type):
        item = column.type.value_type  # a label of a SET has no comma
        return pyarrow.compute.binary_join(column, pyarrow.scalar("," if types.is_string(item) else b",", item)).cast(
            pyarrow.binary()
        )
    if types.is_timestamp(column.type):
        column = column.cast(pyarrow.int64())
    return column.cast(pyarrow.string()).cast(pyarrow.binary())
