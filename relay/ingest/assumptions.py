"""Follow the character sets that the reader assumes for schemas, and count the rows that it read with wrong ones.

An assumption begins with a statement that depends on it. It ends when the stream reaches the position up to which the
source was asked about all tables, and is proven then. A statement about the schema's character set before that
contradicts it, and so does a row of another size. From then on its rows are counted, with those before. All of this is
in state.db, and the rows are counted from the journal: a kill loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from relay._native import JournalReader, JournalWriter
from relay.base.log import Log
from relay.binlog.events.position import BinlogPosition
from relay.ddl.statements import Statement, fold
from relay.ddl.syntax import TableName
from relay.ingest.reader_state import ReaderState
from relay.journal import frames
from relay.journal.decoding import decoding
from relay.journal.maintenance import ALL_COUNTED
from relay.runtime.process_status import AssumedRows, AssumedTable, StatusPage
from relay.schema.apply import schemas_set_by

BEHIND_BYTES: Final = 16 << 20
"""The part of the journal after which rows are counted although nothing contradicts the assumption: retention waits for
the count, and a long one would hold up the stream."""
_KINDS: Final = (1, 2, 4, 5)  # TABLE, ROWS, FILE, SOURCE
_SCHEMA, _VERSION, _TABLE = "assumed schema ", "assumed version ", "assumed rows "
_COUNTED: Final = "assumed counted"
"""The beginnings of keys in state.db."""


class _Schema(msgspec.Struct):
    """An assumption. `cause` says what contradicts it, empty if nothing does."""

    charset: str
    cause: str = ""


class _Version(msgspec.Struct):
    """A definition that depends on assumptions: the schemas assumed, and the table."""

    assumed: tuple[str, ...]
    schema: str
    table: str


class _Counted(msgspec.Struct):
    """Rows are counted up to this journal position, which is in this file of the binlog."""

    position: int
    file: str


class _Rows(msgspec.Struct, array_like=True, tag=2):
    """The beginning of a ROWS frame."""

    kind: int
    table: int
    end_position: int
    timestamp: int
    rows: int


_T = TypeVar("_T")
_FRAMES: Final = msgspec.msgpack.Decoder(frames.Table | _Rows | frames.File | frames.Source)


class Assumptions:
    """The assumptions of one journal."""

    def __init__(
        self,
        reader_state: ReaderState,
        writer: JournalWriter,
        journal: Path,
        log: Log,
        status_page: StatusPage | None = None,
    ) -> None:
        self._reader_state = reader_state
        self._writer = writer
        self._journal = journal
        self._log = log
        self._status_page = status_page or StatusPage()
        self._schemas = self._stored(_SCHEMA, _Schema)
        self._versions = {int(key): each for key, each in self._stored(_VERSION, _Version).items()}
        self._rows = {TableName(each.schema, each.table): each for each in self._stored(_TABLE, AssumedTable).values()}
        counted = reader_state.get(_COUNTED)
        self._counted = msgspec.json.decode(counted, type=_Counted) if counted else _Counted(0, "")
        self._shown = False

    def _stored(self, prefix: str, form: type[_T]) -> dict[str, _T]:
        """Return what state.db has under the keys that begin with `prefix`, by the rest of the key."""
        return {key: msgspec.json.decode(text, type=form) for key, text in self._reader_state.all(prefix).items()}

    @property
    def is_open(self) -> bool:
        """Whether there is an assumption that has not ended."""
        return bool(self._versions) or any(not each.cause for each in self._schemas.values())

    def of(self, schemas: Iterable[str]) -> dict[str, str]:
        """Return those of the schemas whose character set is assumed and not proven, with it."""
        return {schema: self._schemas[schema].charset for schema in schemas if schema in self._schemas}

    def begin(self, schema: str, charset: str, position: BinlogPosition, doubt: str) -> None:
        """Begin an assumption with a statement at `position`; `doubt` is what contradicts it already, if anything."""
        known = self._schemas.get(schema)
        if known is None:
            known = self._schemas[schema] = _Schema(charset)
            self._put({_SCHEMA + schema: known})
            self._log("charset_assumed", schema=schema, charset=charset, position=position)
        if doubt and not known.cause:
            self._contradict([schema], doubt)

    def register(self, version: int, table: TableName, assumed: Iterable[str], position: BinlogPosition) -> None:
        """Register a definition for the rows that follow; only those of assumed schemas count."""
        names = tuple(sorted(schema for schema in assumed if schema in self._schemas))
        known = self._versions.get(version)
        if not names or (known is not None and set(names) <= set(known.assumed)):
            return
        items: dict[str, msgspec.Struct] = {}
        if not self._versions:
            self._counted = _Counted(self._writer.committed(), position.file)
            items[_COUNTED] = self._counted
        merged = tuple(sorted({*names, *(known.assumed if known else ())}))
        self._versions[version] = items[f"{_VERSION}{version}"] = _Version(merged, *table)
        self._put(items)

    def is_contradicted(self, schemas: Iterable[str]) -> bool:
        """Whether something contradicts the assumption about one of the schemas."""
        return any(schema in self._schemas and self._schemas[schema].cause for schema in schemas)

    def finish(self) -> bool:
        """End all assumptions: the stream has reached what the source said of all tables.

        Those that nothing contradicts are proven. Returns whether definitions depended on any. Does nothing while rows
        of the journal are not committed, which could not be counted.
        """
        if self._writer.committed() != self._writer.end():
            return False
        if any(each.cause for each in self._schemas.values()):
            self._count()
        gone = [_SCHEMA + schema for schema, each in self._schemas.items() if not each.cause]
        gone += [f"{_VERSION}{version}" for version in self._versions]
        gone += [f"{_TABLE}{table}" for table, count in self._rows.items() if not count.cause]
        self._schemas = {schema: each for schema, each in self._schemas.items() if each.cause}
        self._versions.clear()
        self._rows = {table: count for table, count in self._rows.items() if count.cause}
        if gone:
            self._reader_state.delete(gone)
        return bool(gone)

    def apply(self, statement: Statement, text: str, position: BinlogPosition) -> None:
        """End the assumptions about schemas whose character set a statement sets, or may set."""
        if not self._schemas:
            return
        affected = schemas_set_by(statement)
        cause = f"{' '.join(text.split())[:200]!r} at {position}"
        self._contradict([each for each in self._schemas if affected is None or fold(each) in affected], cause)

    def contradict(self, schemas: Iterable[str], cause: str) -> None:
        """Count the rows of these schemas as read with a wrong character set."""
        self._contradict([schema for schema in schemas if schema in self._schemas], cause)

    def contradict_all(self, cause: str) -> None:
        """Count the rows of all assumptions as read with a wrong character set."""
        self._contradict(list(self._schemas), cause)

    def abandon(self, cause: str) -> None:
        """End all assumptions: the stream continues where nothing can prove them, with other definitions."""
        self.contradict_all(cause)
        self._reader_state.delete([
            *(_SCHEMA + schema for schema in self._schemas), *(f"{_VERSION}{version}" for version in self._versions)
        ])  # fmt: skip
        self._schemas.clear()
        self._versions.clear()

    def _contradict(self, schemas: Sequence[str], cause: str) -> None:
        fresh = [schema for schema in schemas if not self._schemas[schema].cause]
        for schema in fresh:
            self._schemas[schema].cause = cause
            self._put({_SCHEMA + schema: self._schemas[schema]})
        if fresh:
            self._count()

    def uncounted(self) -> int:
        """Return the journal position from which rows may have to be counted. Any thread may call it."""
        return self._counted.position if self._versions else ALL_COUNTED

    def report(self) -> None:
        """Count the rows that have to be counted by now, and show the numbers."""
        behind = self._writer.committed() - self._counted.position
        if self._versions and (behind > BEHIND_BYTES or any(each.cause for each in self._schemas.values())):
            self._count()
        if not self._shown:
            self._shown = True
            self._show()

    def _count(self) -> None:
        """Count the committed rows that are not counted yet, by table."""
        end = self._writer.committed()
        if not self._versions or end <= self._counted.position:
            self._log_contradicted()
            return
        journal = JournalReader(self._journal)
        file, versions = self._counted.file, dict[int, int]()
        changed = set[TableName]()
        start = max(self._counted.position, journal.first())
        for position, payload in journal.frames(start, end, _KINDS):
            with decoding(journal, position):
                frame = _FRAMES.decode(payload)
            match frame:
                case frames.File() | frames.Source():
                    file = frame.file
                case frames.Table():
                    versions.pop(position, None)
                case _Rows():
                    if frame.table not in versions:
                        versions[frame.table] = _version_at(journal, frame.table)
                    registered = self._versions.get(versions[frame.table])
                    if registered is not None:
                        table = TableName(registered.schema, registered.table)
                        changed.add(table)
                        self._add(table, registered, frame.rows, f"{file}:{frame.end_position}")
        self._counted = _Counted(end, file)
        self._put({_COUNTED: self._counted, **{f"{_TABLE}{each}": self._rows[each] for each in changed}})
        self._log_contradicted()

    def _add(self, table: TableName, version: _Version, rows: int, position: str) -> None:
        count = self._rows.get(table)
        if count is None:
            count = self._rows[table] = AssumedTable(*table, first=position)
        count.assumed = sorted({*count.assumed, *version.assumed})
        count.rows += rows
        count.last = position

    def _log_contradicted(self) -> None:
        """Mark the tables of contradicted assumptions, and log each of them once."""
        self._shown = False
        for table, count in self._rows.items():
            causes = [self._schemas[each] for each in count.assumed if each in self._schemas]
            wrong = next((each for each in causes if each.cause), None)
            if wrong is not None and not count.cause:
                count.cause = wrong.cause
                count.charset = wrong.charset
                self._put({f"{_TABLE}{table}": count})
                self._log(
                    "charset_contradicted", table=table, charset=count.charset, rows=count.rows, first=count.first,
                    last=count.last, cause=count.cause,
                )  # fmt: skip

    def _show(self) -> None:
        tables = sorted((each for each in self._rows.values() if each.cause), key=lambda each: -each.rows)
        shown = len(tables)
        while len(content := _packed(tables, shown)) > self._status_page.capacity:
            shown = shown * 9 // 10
        self._status_page.write(content)

    def _put(self, items: Mapping[str, msgspec.Struct]) -> None:
        self._reader_state.put_all({key: msgspec.json.encode(each).decode() for key, each in items.items()})


def _version_at(journal: JournalReader, position: int) -> int:
    """Return the version of the definition of the TABLE frame at a position, or of the one that replaces it."""
    frame = frames.decode(journal.frame(position)[1])
    if not isinstance(frame, frames.Table):
        return 0
    if frame.link:
        return _version_at(journal, frame.link)
    return msgspec.msgpack.decode(frame.definition, type=frames.Definition).version


def _packed(tables: Sequence[AssumedTable], shown: int) -> bytes:
    others = sum(each.rows for each in tables[shown:])
    return msgspec.msgpack.encode(AssumedRows(list(tables[:shown]), others))
