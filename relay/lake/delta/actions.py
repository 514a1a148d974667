"""The actions of Delta's log as structs, one JSON line each. Only those that the relay writes.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md describes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

READER_VERSION: Final = 3
WRITER_VERSION: Final = 7
FEATURES: Final = ("deletionVectors", "timestampNtz")
"""The table features that readers and writers have to know."""


class _Action(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class DeletionVector(_Action, frozen=True, gc=False):
    """Where the positions of a file's deleted rows are: in the log itself ("i"), or in a file ("u")."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None


class Add(_Action, frozen=True, omit_defaults=False, gc=False):
    """A data file that belongs to the table from this commit on."""

    path: str
    size: int
    modification_time: int
    stats: str
    data_change: bool
    partition_values: dict[str, str] = {}
    deletion_vector: DeletionVector | None = None


class Remove(_Action, frozen=True, omit_defaults=False, gc=False):
    """A data file, or one with these deletions, that no longer belongs to the table."""

    path: str
    size: int
    deletion_timestamp: int
    data_change: bool
    extended_file_metadata: bool = True
    partition_values: dict[str, str] = {}
    deletion_vector: DeletionVector | None = None


class Transaction(_Action, frozen=True):
    """The newest number that an application has committed to the table."""

    app_id: str
    version: int
    last_updated: int | None = None


class Format(_Action, frozen=True, omit_defaults=False):
    """The format of data files."""

    provider: str = "parquet"
    options: dict[str, str] = {}


class MetaData(_Action, frozen=True, omit_defaults=False):
    """The table's columns and properties."""

    id: str
    schema_string: str
    created_time: int
    configuration: dict[str, str] = {}
    partition_columns: list[str] = []
    format: Format = Format()


class Protocol(_Action, frozen=True, omit_defaults=False):
    """What a reader or a writer has to know."""

    min_reader_version: int = READER_VERSION
    min_writer_version: int = WRITER_VERSION
    reader_features: tuple[str, ...] = FEATURES
    writer_features: tuple[str, ...] = FEATURES


class CommitInfo(_Action, frozen=True):
    """Who made a commit, and what for."""

    timestamp: int
    operation: str
    engine_info: str
    operation_parameters: dict[str, str] = {}


class Line(_Action, frozen=True):
    """A line of a commit: exactly one of the fields is set."""

    commit_info: CommitInfo | None = None
    protocol: Protocol | None = None
    meta_data: MetaData | None = None
    txn: Transaction | None = None
    add: Add | None = None
    remove: Remove | None = None


_NAMES: Final[dict[type, str]] = {
    CommitInfo: "commit_info", Protocol: "protocol", MetaData: "meta_data", Transaction: "txn", Add: "add",
    Remove: "remove",
}  # fmt: skip

Action = CommitInfo | Protocol | MetaData | Transaction | Add | Remove


def encoded(actions: Iterable[Action]) -> bytes:
    """Return the document of a commit."""
    return b"\n".join(msgspec.json.encode(Line(**{_NAMES[type(each)]: each})) for each in actions) + b"\n"  # type: ignore[arg-type]


def decoded(data: bytes) -> list[Action]:
    """Return the actions of a commit, without those that this module does not know.

    Raises msgspec.DecodeError, UnicodeDecodeError.
    """
    found: list[Action] = []
    for text in data.splitlines():
        line = msgspec.json.decode(text, type=Line)
        values: list[Any] = [getattr(line, name) for name in _NAMES.values()]
        found += [value for value in values if value is not None]
    return found
