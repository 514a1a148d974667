"""What the lake's log holds: one JSON document a commit, as msgspec structs. docs/lake.md describes the format.

A lake is a folder or a bucket's prefix:

    _log/00000000000000000001.json        commits, numbered from 1 without a hole; each is made once and never changed
    _log/checkpoint-<number>.json         the state after a commit, so that readers need not begin at 1
    _log/checkpoint.json                  the number of the newest of those
    changes/cdc_schema=shop/cdc_table=orders/cdc_date=2026-11-20/part-<first>-<last>.parquet
    current/cdc_schema=shop/cdc_table=orders/...                     what `relay spark merge` makes of it

A file counts if a commit added it and none removed it; anything else in the folders is a leftover. All `_seq` numbers
are those of the lake: `base` of the journal's generation plus the number in the journal, so they never start again.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FORMAT: Final = 1
"""Of the documents. A reader refuses those of a higher number."""

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

    `type` is Spark's name of its type ("int", "decimal(20,0)", "timestamp_ntz", "array<string>"); `column` the table's
    column it comes from, which `name` differs from only where that would collide; `source_type` the type as the
    definition has it. `side` is "" for the value itself, else which side column of `column` it is: "text" (the text of
    a date that no calendar has), "raw" (the bytes of a text that is none in its character set), "srid" (of a geometry).
    """

    name: str
    type: str
    column: str
    source_type: str = ""
    side: Literal["", "text", "raw", "srid"] = ""


class TableVersion(msgspec.Struct, frozen=True):
    """A table's columns from a statement on that changed them, or from a row: those of the files with this `version`.

    Versions of one `generation` can be read with one schema, since each type only widens; where that cannot be, a new
    generation begins. `version` counts from 1 through all generations. `key` are the names of the key's fields, none
    for a table without a primary key.
    """

    table: Table
    generation: int
    version: int
    fields: list[Field]
    key: list[str]


class DataFile(msgspec.Struct, frozen=True):
    """A sealed Parquet file of one table, version and date.

    `path` is relative to the lake; `first` and `last` the lowest and highest `_seq` in it; `rows` counts flat rows (an
    update is two); `sides` names the side columns of which at least one value is not NULL.
    """

    path: str
    table: Table
    version: int
    date: str  # of the commits in it, UTC, YYYY-MM-DD
    kind: ChangeKind
    first: int
    last: int
    rows: int
    bytes: int
    sha256: str
    sides: list[str] = []


class Marker(msgspec.Struct, frozen=True):
    """A statement that took all rows of a table at `seq`; a row with this `_change_type` stands in the files too.

    create: the table is new and empty; truncate: it was emptied; drop: it is gone; reset: its rows changed in ways that
    no row event shows (an ALTER that rewrites values), and are not known until a snapshot brings them.
    """

    table: Table
    kind: MarkerKind
    seq: int
    timestamp: int  # of the statement, Unix seconds
    statement: str


class Place(msgspec.Struct, frozen=True):
    """Where the export stands: everything up to `seq` is in the lake.

    `position` and `generation` are of the journal; `file`, `offset`, `gtid` (of the last transaction, "" without GTIDs)
    and `identity` of the source; `timestamp` of the last transaction, Unix seconds. `base`: the lake's `_seq` is this
    plus the journal's number.
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
    """How far the snapshot of a table has come.

    `after` is the key of the last row that was read, as texts of the server, None before the first; `key` names the
    columns that it is of, with ` DESC` behind those that fall; `lowest` is the least `_seq` of its rows, `total`
    an estimate. `done` once the last row was read, at `end_file` and `end_offset` of the source: the table is complete
    as soon as the export has passed that place. `identity` is the source's that was read, as in Place: places of
    different sources cannot be compared.
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
    """Events before `seq` were lost, and that was accepted; what tables hold is unknown until a snapshot.

    `seq` is a number of the gap's own, above all that came before it and below all that comes after.
    """

    seq: int
    reason: str


class Commit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One document of the log. All of it counts from the moment its file appears, or nothing.

    `place` is there in commits of the exporter only. `remove` are paths that others in `add` replace. `id` tells
    commits of one number apart, of which only one ever counts: a writer knows its own by it.
    """

    number: int
    writer: Writer
    at: float  # Unix seconds
    id: str = ""
    format: int = FORMAT
    place: Place | None = None
    add: list[DataFile] = []
    remove: list[str] = []
    versions: list[TableVersion] = []
    markers: list[Marker] = []
    snapshots: list[Snapshot] = []
    gap: Gap | None = None


class Known(msgspec.Struct, frozen=True):
    """What the lake knew of a table before a reset or a gap: every row from `complete_from` up to `until`.

    The state at those is made of changes above `reset` and of snapshot rows at or above it.
    """

    reset: int
    complete_from: int
    until: int


class TableState(msgspec.Struct):
    """What the commits so far say of one table.

    `versions` is empty while neither a statement nor a row has told its columns; `files` by path; `sides` all side
    columns with values in any of them. `reset` is the `_seq` of the last marker or gap: changes at or below it, and
    snapshot rows below it, count no more. `complete_from`: from this `_seq` on the lake knows every row of the table;
    None if it does not (no snapshot yet, or one that is under way or wanted), and then `before` is what it knew last.
    `snapshot_number` is that of the last commit in which a snapshot added rows.
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
        """The newest."""
        return self.versions[-1]


class LakeState(msgspec.Struct):
    """All commits up to `number`, folded. `tables` by `paths.table_key`: "schema.table" with encoded names.

    `files` counts those of all tables; `checkpoint` is the last number after which a checkpoint was due.
    """

    number: int = 0
    place: Place | None = None
    tables: dict[str, TableState] = {}
    gaps: list[Gap] = []
    files: int = 0
    checkpoint: int = 0
