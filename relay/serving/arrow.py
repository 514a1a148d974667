"""Columns as Arrow IPC streams, for PollMany in format 2.

pyarrow is large, starts threads and is an extra. A server process imports it when one of its clients first asks for
columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from relay.base.errors import ErrorCode, RelayError

if TYPE_CHECKING:
    import pyarrow

    from relay._native import Columns


def load() -> None:
    """Import pyarrow. Raises `RelayError` (environment), with a text for the client, if it is not installed."""
    try:
        import pyarrow.ipc  # noqa: F401
    except ImportError as error:
        raise RelayError(
            ErrorCode.ENVIRONMENT,
            "PollMany",
            "format 2 (Arrow) needs pyarrow where the relay runs: pip install 'binlog-relay[arrow]'",
        ) from error


def encode(batches: Iterable[Columns]) -> list[pyarrow.Buffer]:
    """Encode each batch as an Arrow IPC stream of one record batch. Consumes the batches; call `load` before.

    Raises `RelayError` (unexpected) if pyarrow cannot encode them.
    """
    import pyarrow

    try:
        return [_stream(pyarrow.record_batch(batch)) for batch in batches]
    except pyarrow.ArrowException as error:
        raise RelayError(ErrorCode.UNEXPECTED, "encode columns", error) from error


def _stream(batch: pyarrow.RecordBatch) -> pyarrow.Buffer:
    from pyarrow import BufferOutputStream, ipc

    sink = BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(use_threads=False)) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
