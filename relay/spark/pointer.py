"""The pointer to the merged state of a table: numbered documents that name its files. The highest number counts.

    current/cdc_schema=shop/cdc_table=orders/_pointer/00000000000000000007.json
    current/cdc_schema=shop/cdc_table=orders/ver-7-<id>/bucket=3/part-....parquet

A document is created exclusively and never changed. It names every file of its version; files of buckets that a merge
did not change are in the folders of earlier versions.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Final

import msgspec

from relay.lake import paths
from relay.lake.document_files import decode_document
from relay.lake.documents import Field, Table, TableVersion
from relay.lake.storage import Storage

FORMAT: Final = 2
"""The format of the documents. A reader refuses documents of a higher format."""
_DIGITS: Final = 20
_HINT: Final = "delete the table's folder under current/: the next merge recreates it from the changes"


class BucketFile(msgspec.Struct, frozen=True):
    """A Parquet file with rows of one bucket; `path` is relative to the lake."""

    bucket: int
    path: str
    rows: int
    bytes: int


class Pointer(msgspec.Struct, frozen=True):
    """A merged version of a table: its state after all changes up to `applied`.

    `version` is the table's version at that time; the files hold `fields` and `_seq`. All rows of a key are in the
    bucket of its hash, one of `buckets`. The files written for this version are in `folder`. `reset` and
    `snapshot_rows` (the number of snapshot rows) identify its sources: if they differ from the table's now, changes
    alone do not lead to the current state. `at` is in Unix seconds.
    """

    number: int
    table: Table
    version: TableVersion
    fields: list[Field]
    applied: int
    reset: int
    snapshot_rows: int
    buckets: int
    folder: str
    files: list[BucketFile]
    recent: list[BucketFile] = []
    at: float = msgspec.field(default_factory=time.time)
    id: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex)
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """Rows in the table."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Size of all files in bytes."""
        return sum(file.bytes for file in self.files)


def folder(table: Table) -> str:
    """Return the folder of a table's documents."""
    return f"{paths.table_folder(table, paths.CURRENT)}/_pointer"


def numbers(storage: Storage, table: Table) -> list[int]:
    """Return the numbers of the existing documents, in order."""
    found = (re.fullmatch(rf"(\d{{{_DIGITS}}})\.json", name.rpartition("/")[2]) for name in storage.list(folder(table)))
    return sorted(int(each[1]) for each in found if each)


def newest(storage: Storage, table: Table) -> Pointer | None:
    """Return the document that counts, None if the table was never merged."""
    known = numbers(storage, table)
    return load(storage, table, known[-1]) if known else None


def load(storage: Storage, table: Table, number: int) -> Pointer:
    """Load the document with this number. Raises `RelayError` if it cannot be read."""
    name = path(table, number)
    return decode_document(storage.read(name), Pointer, FORMAT, storage.url(name), "read the merged state", _HINT)


def publish(storage: Storage, pointer: Pointer) -> bool:
    """Publish a version as the one that counts. False if another process has taken its number."""
    return storage.create(path(pointer.table, pointer.number), msgspec.json.encode(pointer))


def path(table: Table, number: int) -> str:
    """Return the name of a document."""
    return f"{folder(table)}/{number:0{_DIGITS}}.json"
