"""Reads transactions of a constructed journal as columns."""

from __future__ import annotations

import pyarrow as pa

from relay._native import ChangeReader, Reached
from tests.support.journal_builder import Made

ALL = 1 << 40
"""More bytes than any journal of a test has."""


def taken(reader: ChangeReader) -> list[pa.RecordBatch]:
    """The columns that are ready, as validated batches."""
    batches = [pa.record_batch(columns) for columns in reader.take()]
    for batch in batches:
        batch.validate(full=True)
    return batches


def ids(reader: ChangeReader) -> list[int]:
    """The values of `id` in the columns that are ready."""
    return [number for batch in taken(reader) for number in batch.column("id").to_pylist()]


def read_all(reader: ChangeReader, made: Made, max_bytes: int = ALL) -> Reached:
    """Read all that is written, up to `max_bytes`."""
    return reader.read(made.flush(), max_bytes)


def drain(reader: ChangeReader, until: int) -> None:
    """Read up to a position, and throw the columns away."""
    while reader.read(until, ALL).why != "end":
        reader.take()
