"""What the schema history says of tables, as documents: for `relay schema`, and for the page.

DataDir/schema.db is read and never written, whether the relay runs or not. The history of a table is its versions and
the last answer of the source, the newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from relay._native import GtidSet, JournalReader
from relay.binlog.place import Place
from relay.binlog.resume import spelled_out
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import TableName
from relay.errors import ErrorCode, RelayError, StopCode
from relay.journal.frames import Commit, File, Source, decode
from relay.schema.columntype import column_type
from relay.schema.facts import ANY, Answer, Damaged, Proof, Unreadable, Version
from relay.schema.store import SCHEMA_FILE, Store
from relay.schema.table import Absent, Column, Schema, Table, Unknown

_OPERATION: Final = "read the schema history"
_PLACES: Final = (3, 4, 5)  # kinds of frames: COMMIT, FILE, SOURCE
_DIALECT: Final = Dialect(mariadb=False, version=90_000)  # types as a server of today writes them, without widths


class SchemaColumn(msgspec.Struct):
    """A column: `type` is SQL text; `nullable` is null where nothing tells it; `key`: it is one of those that tell rows
    apart; `charset` is empty for what is no text; `generated` and `invisible` as the server has them."""

    name: str
    type: str
    nullable: bool | None
    key: bool
    charset: str
    generated: str
    invisible: bool


class SchemaVersion(msgspec.Struct):
    """What a table is from a place on: `state` is "table", "absent" or "unknown", `cause` why it is unknown.

    `file` and `position` are the place, empty and 0 if it holds from the beginning. `proof` is "statement", "event",
    "rows", "source" or "earlier release". `current`: places mean the same today; they do not after another server took
    the source's place, or after a gap.
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
    """A table's history, the newest version first; `damaged` says what of it cannot be read, "" for nothing."""

    schema: str
    table: str
    damaged: str
    versions: list[SchemaVersion]


def histories(data_dir: Path, patterns: Sequence[str] = (), *, newest: bool = False) -> list[TableHistory]:
    """The tables whose `schema.table` one of the patterns names, as shells have them for files; all without a pattern.

    `newest`: only their newest version. Raises `RelayError` if there is no history, or none that can be read.
    """
    with closing(_opened(data_dir)) as store:
        try:
            return [_history(store, table, newest) for table in _named(store, patterns)]
        except Unreadable as error:
            raise _unreadable(data_dir, error) from error


def history(data_dir: Path, schema: str, table: str) -> TableHistory | None:
    """The history of one table, None if there is none or it cannot be read."""
    try:
        with closing(_opened(data_dir)) as store:
            found = _history(store, TableName(schema, table), newest=False)
    except (RelayError, Unreadable):
        return None
    return found if found.versions or found.damaged else None


def as_of(data_dir: Path, patterns: Sequence[str], where: str) -> list[TableHistory]:
    """As `histories`, with the one version of each table that its rows at `where` have: FILE:POS, or a GTID set, which
    means the end of its last transaction. Raises `RelayError`."""
    with closing(_opened(data_dir)) as store:
        try:
            place = _place(data_dir, store, where)
            found = [_history(store, table, newest=False, place=place) for table in _named(store, patterns)]
        except Unreadable as error:
            raise _unreadable(data_dir, error) from error
    return [each for each in found if each.versions or each.damaged]


def _opened(data_dir: Path) -> Store:
    path = data_dir / SCHEMA_FILE
    if not path.exists():
        hint = "the relay makes it when it starts; -c names its configuration"
        raise RelayError(ErrorCode.USAGE, _OPERATION, "there is none", position=str(path), hint=hint)
    try:
        return Store(path, read_only=True)
    except Unreadable as error:
        raise _unreadable(data_dir, error) from error


def _unreadable(data_dir: Path, error: Unreadable) -> RelayError:
    hint = "start the relay anew: it puts the file aside and makes another"
    return RelayError(StopCode.JOURNAL_CORRUPT, _OPERATION, error, position=str(data_dir / SCHEMA_FILE), hint=hint)


def _named(store: Store, patterns: Sequence[str]) -> list[TableName]:
    return [
        table
        for table in sorted(store.tables())
        if not patterns or any(fnmatchcase(str(table), pattern) for pattern in patterns)
    ]


def _history(store: Store, table: TableName, newest: bool, place: Place | None = None) -> TableHistory:
    """All of a table's history, or its newest version, or the one that holds at a place."""
    found = TableHistory(table.schema, table.table, "", [])
    try:
        for each in _facts(store, table):
            if place is not None and (each.epoch != store.epoch or not each.since <= place):
                continue
            found.versions.append(_version(each, table, store.epoch))
            if newest or place is not None:
                break
    except Damaged as error:
        found.damaged = str(error)
    return found


def _facts(store: Store, table: TableName) -> Iterator[Version]:
    """Versions of the table, of all tables, and the answer if it tells more, the newest first."""
    own, common = (list(store.versions(name, everything=True)) for name in (table, ANY))
    oldest = min((each.sequence for each in own), default=0)
    # What holds for all tables is a part of its history where it has one by then.
    known = [*own, *(each for each in common if not own or each.sequence >= oldest)]
    answer = store.answer(table)
    if answer is not None and _tells(answer, [each for each in known if each.epoch == store.epoch]):
        known.append(Version(table, answer.state, answer.until, 0, Proof.SOURCE, epoch=store.epoch))
    return iter(sorted(known, key=lambda each: (each.epoch, each.since.order), reverse=True))


def _tells(answer: Answer, versions: Iterable[Version]) -> bool:
    """Whether the answer holds anywhere: a statement while it was asked for takes that away."""
    return not any(answer.asked < each.since <= answer.until for each in versions)


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


def _place(data_dir: Path, store: Store, where: str) -> Place:
    spelled = spelled_out(where)
    if spelled.file:
        return Place(spelled.file, spelled.position)
    try:
        wanted = GtidSet(spelled.gtid_set)
    except ValueError as error:
        raise RelayError(ErrorCode.USAGE, _OPERATION, f"{where!r} is neither FILE:POS nor a GTID: {error}") from None
    found = _in_journal(data_dir / "journal", wanted) or _in_history(store, wanted)
    if found is None:
        cause = "neither the journal nor the history has a transaction of it"
        raise RelayError(ErrorCode.USAGE, _OPERATION, cause, position=where, hint="name the place as FILE:POS")
    return found


def _in_journal(directory: Path, wanted: GtidSet) -> Place | None:
    """The end of the last of these transactions that the journal has."""
    if not directory.is_dir():
        return None
    journal = JournalReader(directory)
    file, found = "", None
    for _, payload in journal.frames(journal.first(), journal.flushed(), _PLACES):
        match decode(payload):
            case File(file=name) | Source(file=name):
                file = name
            case Commit(position=position, gtid=gtid) if gtid and gtid in wanted:
                found = Place(file, position)
    return found


def _in_history(store: Store, wanted: GtidSet) -> Place | None:
    places = [
        version.since
        for table in store.tables()
        for version in store.versions(table)
        if version.gtid and version.gtid in wanted
    ]
    return max(places, key=lambda place: place.order, default=None)
