"""The documents of the lake's log as msgspec structs: one JSON document for each commit. docs/lake.md has the format.

A lake is a folder or a prefix of a bucket:

    _log/00000000000000000001.json        commits, numbered from 1 without a gap; never changed once created
    _log/checkpoint-<number>.json         the state after a commit, so that readers need not begin at 1
    _log/files-<number>-<id>.parquet      the files of checkpoints
    _log/checkpoint.json                  the numbers of the two newest checkpoints
    changes/cdc_schema=shop/cdc_table=orders/cdc_date=2026-11-20/part-<first>-<last>.parquet
    current/cdc_schema=shop/cdc_table=orders/...                     the output of `relay spark merge`

A file counts if a commit added it and none removed it; anything else in the folders is a leftover. All `_seq` numbers
are the lake's: `base` of the journal's generation plus the number in the journal. They never restart.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FORMAT: Final = 2
"""The format of the documents. A reader refuses documents of a higher format.

1: checkpoints contain the files, and no commit is deleted. 2: checkpoints have parts, and old commits are deleted.
"""

ChangeKind = Literal["changes", "snapshot"]
Writer = Literal["export", "snapshot", "compact"]
MarkerKind = Literal["create", "truncate", "drop", "reset"]


class Table(msgspec.Struct, frozen=True, order=True):
    """The name of a table."""

    schema: str
    table: str

    def __str__(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.table}"


class Field(msgspec.Struct, frozen=True):
    """A column of the lake's files.

    `type` is Spark's name of the type ("int", "decimal(20,0)", "timestamp_ntz", "array<string>"). `column` is the
    table's column that it comes from; `name` differs from it only to avoid a collision. `source_type` is the type in
    the table's definition. `side` is "" for the value itself, else the kind of side column of `column`: "text" (the
    text of a date that no calendar has), "raw" (the bytes of a text that is invalid in its character set), "srid" (of a
    geometry).
    """

    name: str
    type: str
    column: str
    source_type: str = ""
    side: Literal["", "text", "raw", "srid"] = ""


class TableVersion(msgspec.Struct, frozen=True):
    """A table's columns after a statement, or a row, changed them: the columns of the files with this `version`.

    Versions of one `generation` can be read with one schema, since types only widen; if that is impossible, a new
    generation begins. `version` counts from 1 across all generations. `key` has the names of the key's fields; it is
    empty for a table without a primary key.
    """

    table: Table
    generation: int
    version: int
    fields: list[Field]
    key: list[str]


class DataFile(msgspec.Struct, frozen=True, gc=False):
    """A sealed Parquet file of one table, version and date.

    `path` is relative to the lake; `first` and `last` are the lowest and highest `_seq` in it; `rows` counts flat rows
    (an update is two); `sides` names the side columns that have at least one value that is not NULL.
    """

    path: str
    table: Table
    version: int
    date: str  # of its commits, UTC, YYYY-MM-DD
    kind: ChangeKind
    first: int
    last: int
    rows: int
    bytes: int
    sha256: str
    sides: list[str] = []


class Marker(msgspec.Struct, frozen=True):
    """A statement that deletes all rows of a table at `seq`. A row with this `_change_type` is in the files too.

    create: the table is new and empty; truncate: it was emptied; drop: it is gone; reset: its rows changed in a way
    that no row event shows (an ALTER that rewrites values), and are unknown until a snapshot reads them.
    """

    table: Table
    kind: MarkerKind
    seq: int
    timestamp: int  # of the statement, Unix seconds
    statement: str


class ExportPosition(msgspec.Struct, frozen=True):
    """The position of the export: everything up to `seq` is in the lake.

    `position` and `generation` belong to the journal. `file`, `offset`, `gtid` (of the last transaction, "" without
    GTIDs) and `identity` belong to the source. `timestamp` is that of the last transaction, in Unix seconds. The lake's
    `_seq` is `base` plus the journal's number.
    """

    generation: int
    base: int
    position: int
    seq: int
    file: str
    offset: int
    gtid: str
    identity: str
    timestamp: int


class Snapshot(msgspec.Struct, frozen=True):
    """The progress of the snapshot of one table.

    `after` is the key of the last row read, as texts from the server, None before the first row; `key` names its
    columns, with ` DESC` after descending ones. `lowest` is the lowest `_seq` of the snapshot's rows, `total` an
    estimate of the rows in the table. `done` is set once the last row is read, at `end_file` and `end_offset` of the
    source's binlog: the table is complete as soon as the export has passed that position. `identity` is that of the
    source that was read, as in ExportPosition: positions of different sources cannot be compared.
    """

    table: Table
    id: str
    version: int
    lowest: int
    after: list[str] | None
    rows: int
    total: int
    done: bool = False
    end_file: str = ""
    end_offset: int = 0
    identity: str = ""
    key: list[str] = []


class Gap(msgspec.Struct, frozen=True):
    """An accepted loss of events before `seq`: the contents of tables are unknown until a snapshot.

    `seq` is a number of the gap's own, above everything before it and below everything after it.
    """

    seq: int
    reason: str


class Commit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One document of the log. It counts as a whole, once its file appears.

    Only commits of the exporter have a `place`. `remove` lists paths that files in `add` replace. `id` distinguishes
    commits of one number, of which only one ever counts: a writer recognizes its own commit by it.
    """

    number: int
    writer: Writer
    at: float  # Unix seconds
    id: str = ""
    format: int = 1
    place: ExportPosition | None = None
    add: list[DataFile] = []
    remove: list[str] = []
    versions: list[TableVersion] = []
    markers: list[Marker] = []
    snapshots: list[Snapshot] = []
    gap: Gap | None = None


class Known(msgspec.Struct, frozen=True):
    """What the lake knew of a table before a reset or a gap: every row from `complete_from` up to `until`.

    The table's state there consists of changes above `reset` and of snapshot rows at or above it.
    """

    reset: int
    complete_from: int
    until: int


class TableState(msgspec.Struct):
    """The state of one table after the commits so far.

    `versions` is empty until a statement or a row defines the columns; `files` are by path; `sides` are all side
    columns with values in any of them. `reset` is the `_seq` of the last marker or gap: changes at or below it, and
    snapshot rows below it, no longer count. From `complete_from` on, the lake has every row of the table. It is None
    if rows are missing (no snapshot yet, or one that is running or required); then `before` is what the lake had last.
    `snapshot_number` is the last commit in which a snapshot added rows.
    """

    table: Table
    versions: list[TableVersion] = []
    files: dict[str, DataFile] = {}
    sides: list[str] = []
    reset: int = 0
    last_marker: MarkerKind | None = None
    complete_from: int | None = None
    before: Known | None = None
    snapshot: Snapshot | None = None
    snapshot_number: int = 0

    @property
    def version(self) -> TableVersion:
        """The newest version."""
        return self.versions[-1]


class LakeState(msgspec.Struct):
    """The result of all commits up to `number`. `tables` is by `paths.table_key`: "schema.table" with encoded names.

    `files` counts the files of all tables; `checkpoint` is the last number after which a checkpoint was due.
    """

    number: int = 0
    place: ExportPosition | None = None
    tables: dict[str, TableState] = {}
    gaps: list[Gap] = []
    files: int = 0
    checkpoint: int = 0


class Part(msgspec.Struct, frozen=True):
    """A Parquet file with some of the data files that count after a commit; `files` is the number of its rows."""

    path: str
    files: int
    bytes: int
    sha256: str


class Checkpoint(msgspec.Struct, frozen=True):
    """The state after a commit. The files of its tables are in `parts`; in format 1 they are in `state`."""

    state: LakeState
    parts: list[Part] = []
    format: int = 1


class LatestCheckpoints(msgspec.Struct, frozen=True):
    """The numbers of the two newest checkpoints, 0 if there is none: readers begin there without a listing.

    All commits below `first` were deleted. A commit above `previous` is never deleted.
    """

    number: int = 0
    previous: int = 0
    first: int = 1
    format: int = 1
