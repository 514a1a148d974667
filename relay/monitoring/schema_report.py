"""Reports of the schema history of tables, for `relay schema` and for the page.

They read DataDir/schema.db and never write it, whether the relay runs or not. The history of a table is its versions
and the last definition from the source, newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from relay._native import GtidSet, JournalReader
from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.binlog.events.position import BinlogPosition
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import TableName
from relay.ingest.resume import parse_start
from relay.journal.frames import Commit, File, Source, decode
from relay.schema.columntype import column_type
from relay.schema.facts import ANY, Damaged, Proof, Reply, Unreadable, Version
from relay.schema.store import SCHEMA_FILE, Store
from relay.schema.table import Absent, Column, Schema, Table, Unknown

_OPERATION: Final = "read the schema history"
_POSITION_FRAMES: Final = (3, 4, 5)  # kinds: COMMIT, FILE, SOURCE
_DIALECT: Final = Dialect(mariadb=False, version=90_000)  # a current server writes types without widths


class SchemaColumn(msgspec.Struct):
    """A column.

    `type` is SQL text. `nullable` is None if unknown. `key`: the column is part of the key that identifies rows.
    `charset` is empty for types without text, "?" if unknown. `generated` and `invisible` are the server's.
    """

    name: str
    type: str
    nullable: bool | None
    key: bool
    charset: str
    generated: str
    invisible: bool


class SchemaVersion(msgspec.Struct):
    """What a table is from a binlog position on. `state` is "table", "absent" or "unknown"; `cause`: why it is unknown.

    `file` and `position` are the position, empty and 0 for the beginning. `proof` is "statement", "event", "rows",
    "source" or "earlier release". `current`: the position is one of the present binlog. It is not after another server
    took the source's place, or after a gap.
    """

    state: str
    cause: str
    file: str
    position: int
    gtid: str
    proof: str
    statement: str
    current: bool
    columns: list[SchemaColumn]


class TableHistory(msgspec.Struct):
    """A table's history, the newest version first. `damaged`: what of it cannot be read, "" for nothing."""

    schema: str
    table: str
    damaged: str
    versions: list[SchemaVersion]


def histories(data_dir: Path, patterns: Sequence[str] = (), *, newest: bool = False) -> list[TableHistory]:
    """Return the tables whose `schema.table` matches one of the patterns (shell file syntax); all without a pattern.

    `newest`: only their newest version. Raises `RelayError` if there is no history or it cannot be read.
    """
    with _opened(data_dir) as store:
        return [_history(store, table, newest) for table in _matching(store, patterns)]


def history(data_dir: Path, schema: str, table: str) -> TableHistory | None:
    """Return the history of one table; None if there is none or it cannot be read."""
    try:
        with _opened(data_dir) as store:
            found = _history(store, TableName(schema, table), newest=False)
    except RelayError:
        return None
    return found if found.versions or found.damaged else None


def as_of(data_dir: Path, patterns: Sequence[str], where: str) -> list[TableHistory]:
    """As `histories`, with only the version of each table that is in force at `where`.

    `where` is FILE:POS, or a GTID set, which means the end of its last transaction. Raises `RelayError`.
    """
    with _opened(data_dir) as store:
        position = _position(data_dir, store, where)
        found = [_history(store, table, newest=False, position=position) for table in _matching(store, patterns)]
    return [each for each in found if each.versions or each.damaged]


@contextmanager
def _opened(data_dir: Path) -> Iterator[Store]:
    """Yield the store, for the block. Raises `RelayError` if there is none, or if the block cannot read it."""
    path = data_dir / SCHEMA_FILE
    if not path.exists():
        hint = "the relay creates it at the start; name its configuration with -c"
        raise RelayError(ErrorCode.USAGE, _OPERATION, "there is none", position=str(path), hint=hint)
    try:
        with closing(Store(path, read_only=True)) as store:
            yield store
    except Unreadable as error:
        hint = "restart the relay: it moves the file away and creates a new one"
        raise RelayError(StopCode.JOURNAL_CORRUPT, _OPERATION, error, position=str(path), hint=hint) from error


def _matching(store: Store, patterns: Sequence[str]) -> list[TableName]:
    return [
        table
        for table in sorted(store.tables())
        if not patterns or any(fnmatchcase(str(table), pattern) for pattern in patterns)
    ]


def _history(store: Store, table: TableName, newest: bool, position: BinlogPosition | None = None) -> TableHistory:
    """Return a table's whole history, its newest version, or the version in force at a binlog position."""
    found = TableHistory(table.schema, table.table, "", [])
    try:
        for each in _versions(store, table):
            if position is not None and (each.epoch != store.epoch or not each.since <= position):
                continue
            found.versions.append(_version(each, table, store.epoch))
            if newest or position is not None:
                break
    except Damaged as error:
        found.damaged = str(error)
    return found


def _versions(store: Store, table: TableName) -> list[Version]:
    """Versions of the table, versions for all tables, and the source's definition if it is in force, newest first."""
    own, common = (list(store.versions(name, all_epochs=True)) for name in (table, ANY))
    oldest = min((each.sequence for each in own), default=0)
    # A version for all tables is part of the table's history only if the table already had one.
    known = [*own, *(each for each in common if not own or each.sequence >= oldest)]
    reply = store.reply(table)
    if reply is not None and _is_valid(reply, (each for each in known if each.epoch == store.epoch)):
        known.append(Version(table, reply.state, reply.until, 0, Proof.SOURCE, epoch=store.epoch))
    return sorted(known, key=lambda each: (each.epoch, each.since.order), reverse=True)


def _is_valid(reply: Reply, versions: Iterable[Version]) -> bool:
    """Whether the source's definition is valid: a statement during the query invalidates it."""
    return not any(reply.asked < each.since <= reply.until for each in versions)


def _version(version: Version, table: TableName, epoch: int) -> SchemaVersion:
    state, cause = "table", ""
    columns: list[SchemaColumn] = []
    match version.state:
        case Table() as known:
            columns = [_column(column, known) for column in known.columns]
        case Absent():
            state = "absent"
        case Unknown(cause=why):
            state, cause = "unknown", why
        case Schema():
            raise AssertionError(f"{table} is a schema")
    since = version.since
    return SchemaVersion(
        state, cause, since.file, since.position, version.gtid, str(version.proof), version.statement,
        version.epoch == epoch, columns,
    )  # fmt: skip


def _column(column: Column, table: Table) -> SchemaColumn:
    kind = column.type
    return SchemaColumn(
        column.name, column_type(kind, _DIALECT), column.nullable, column.name in table.key, kind.charset,
        str(column.generated), column.invisible,
    )  # fmt: skip


def _position(data_dir: Path, store: Store, where: str) -> BinlogPosition:
    spelled = parse_start(where)
    if spelled.file:
        return BinlogPosition(spelled.file, spelled.position)
    try:
        wanted = GtidSet(spelled.gtid_set)
    except ValueError as error:
        raise RelayError(ErrorCode.USAGE, _OPERATION, f"{where!r} is neither FILE:POS nor a GTID: {error}") from None
    found = _in_journal(data_dir / "journal", wanted) or _in_history(store, wanted)
    if found is None:
        cause = "neither the journal nor the schema history has a transaction of this set"
        raise RelayError(ErrorCode.USAGE, _OPERATION, cause, position=where, hint="give the position as FILE:POS")
    return found


def _in_journal(directory: Path, wanted: GtidSet) -> BinlogPosition | None:
    """Return the end of the last of these transactions that is in the journal."""
    if not directory.is_dir():
        return None
    journal = JournalReader(directory)
    file, found = "", None
    for _, payload in journal.frames(journal.first(), journal.flushed(), _POSITION_FRAMES):
        match decode(payload):
            case File(file=name) | Source(file=name):
                file = name
            case Commit(position=position, gtid=gtid) if gtid and gtid in wanted:
                found = BinlogPosition(file, position)
    return found


def _in_history(store: Store, wanted: GtidSet) -> BinlogPosition | None:
    """Return the end of the last of these transactions that made a version in the schema history."""
    ends = [
        version.since
        for table in store.tables()
        for version in store.versions(table)
        if version.gtid and version.gtid in wanted
    ]
    return max(ends, key=lambda end: end.order, default=None)
