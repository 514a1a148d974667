"""The codec of the checkpoints of Delta's log: all actions that count, as rows of Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from relay.lake.arrow import pyarrow
from relay.lake.delta.actions import Add, MetaData, Protocol, Remove, Transaction

Lasting = Protocol | MetaData | Transaction | Add | Remove
"""The actions that a checkpoint has."""

_COLUMNS: Final[dict[str, type[Lasting]]] = {
    "txn": Transaction, "add": Add, "remove": Remove, "metaData": MetaData, "protocol": Protocol,
}  # fmt: skip


def encoded(actions: Sequence[Lasting]) -> bytes:
    """Return the Parquet file of a checkpoint, with one action in each row."""
    names = {kind: name for name, kind in _COLUMNS.items()}
    rows = [{names[type(each)]: msgspec.to_builtins(each)} for each in actions]
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.Table.from_pylist(rows, schema=_schema())
    pyarrow.parquet.write_table(table, sink, compression="zstd", store_schema=False)
    return bytes(sink.getvalue())


def decoded(data: bytes) -> list[Lasting]:
    """Reverse `encoded`."""
    # Without threads: see relay.lake.parts.
    table = pyarrow.parquet.read_table(
        pyarrow.BufferReader(data), schema=_schema(), use_threads=False, pre_buffer=False
    )
    found: list[Lasting] = []
    for name, kind in _COLUMNS.items():
        values = table[name].drop_null().to_pylist(maps_as_pydicts="strict")
        found += [msgspec.convert(_without_nulls(value), kind) for value in values]
    return found


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if each is not None}


def _struct(fields: Iterable[tuple[str, pyarrow.DataType]]) -> pyarrow.DataType:
    return pyarrow.struct(list(fields))


def _schema() -> pyarrow.Schema:
    text, number, flag = pyarrow.string(), pyarrow.int64(), pyarrow.bool_()
    texts, options = pyarrow.list_(text), pyarrow.map_(text, text)
    vector = _struct({
        "storageType": text, "pathOrInlineDv": text, "offset": pyarrow.int32(), "sizeInBytes": pyarrow.int32(),
        "cardinality": number,
    }.items())  # fmt: skip
    return pyarrow.schema({
        "txn": _struct({"appId": text, "version": number, "lastUpdated": number}.items()),
        "add": _struct({
            "path": text, "partitionValues": options, "size": number, "modificationTime": number, "dataChange": flag,
            "stats": text, "deletionVector": vector,
        }.items()),
        "remove": _struct({
            "path": text, "deletionTimestamp": number, "dataChange": flag, "extendedFileMetadata": flag,
            "partitionValues": options, "size": number, "deletionVector": vector,
        }.items()),
        "metaData": _struct({
            "id": text, "name": text, "description": text,
            "format": _struct({"provider": text, "options": options}.items()),
            "schemaString": text, "partitionColumns": texts, "configuration": options, "createdTime": number,
        }.items()),
        "protocol": _struct({
            "minReaderVersion": pyarrow.int32(), "minWriterVersion": pyarrow.int32(), "readerFeatures": texts,
            "writerFeatures": texts,
        }.items()),
    })  # fmt: skip
