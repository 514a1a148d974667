"""Keep the schema history consistent with the journal, also after a kill.

The journal is written first: the frame of a statement contains its outcomes. The store is written after it, with the
journal position up to which it is complete. If the reader is killed before, the outcomes behind that position are read
from the journal. If the host fails and the journal loses its end, the store forgets the outcomes in that end: their
statements come again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from relay._native import JournalReader, JournalWriter
from relay.binlog.events.position import BinlogPosition
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import TableName
from relay.journal.decoding import decoding
from relay.journal.frames import Commit, Ddl, Definition, File, Gap, Source, decode
from relay.schema.facts import ANY, SKIPPED, Proof, Version
from relay.schema.history import Outcome, unpacked
from relay.schema.matching import table_of
from relay.schema.store import Store
from relay.schema.table import Unknown

_BEHIND_BYTES: Final = 64 << 20  # of the journal that may have to be read after a kill
_KINDS: Final = (3, 4, 5, 6, 7)  # all but TABLE and ROWS
_GENERATION: Final = "generation"
SOURCE: Final = "source"
"""A fact of the store: the identity of the source of these binlog positions, stored with the source's replies."""
_COVERED, _FILE, _SEQUENCE = "covered", "file", "sequence"
"""Facts of the store: the journal position up to which it is complete, and the state of the journal there.

The state is the binlog file and the number of the next change.
"""


class HistoryCommitter:
    """Commit additions to the store once the journal has them."""

    def __init__(self, store: Store, writer: JournalWriter) -> None:
        self._store = store
        self._writer = writer
        self._covered = int(store.fact(_COVERED) or 0)

    @property
    def has_additions(self) -> bool:
        """Whether there are uncommitted additions."""
        return self._store.has_changes

    def commit(self) -> None:
        """Commit additions that are in the journal, and the journal position; from time to time only the position."""
        end = self._writer.end()
        lost = end < self._covered  # the journal has lost its end, with the host
        far = end - self._covered > _BEHIND_BYTES
        if self._writer.in_transaction() or not (self._store.has_changes or far or lost):
            return
        state = self._writer.state()
        for key, value in ((_COVERED, end), (_FILE, state.file), (_SEQUENCE, state.sequence)):
            self._store.put_fact(key, str(value))
        self._store.commit()
        if lost:
            self._store.flush()  # once the journal has grown again, its earlier positions mean something else
        self._covered = end

    def commit_after_rollback(self) -> None:
        """Forget additions of the unfinished transaction that the journal has cut off, and commit the others."""
        self._store.forget_from(self._writer.state().sequence)
        self.commit()


def is_lost(store: Store, writer: JournalWriter, earlier: bool) -> bool:
    """Whether the store is lost: it is new, but the journal is not.

    A journal of a release without schema history (`earlier`) has no store.
    """
    return not (store.fact(_GENERATION) or earlier) and bool(writer.state().identity)


def restore(
    store: Store,
    writer: JournalWriter,
    directory: Path,
    earlier: Callable[[], Iterable[tuple[Definition, BinlogPosition]]],
    skipped: str = "",
) -> None:
    """Bring the store to the state of the journal's end.

    `earlier` returns the definitions that a release without a schema history had proven; `skipped` is the position of
    the last skipped event, as stored beside the store. Raises `JournalError`, `sqlite3.Error`, `Unreadable`.
    """
    generation = str(writer.generation())
    known = store.fact(_GENERATION)
    if not known:
        dialect = Dialect(writer.state().identity.startswith("mariadb"), 0)
        store.add(
            Version(TableName(each.schema, each.table), table_of(each, dialect), since, 0, Proof.EARLIER)
            for each, since in earlier()
        )
    elif known != generation:
        store.new_epoch()
        store.put_fact(_COVERED, "")
    store.put_fact(_GENERATION, generation)
    store.forget_from(writer.state().sequence)
    identity = _replay(store, writer, JournalReader(directory))
    if writer.state().identity != identity != "":
        store.new_epoch()  # the journal has lost the frame for the change to that source
    if skipped != store.fact(SKIPPED):
        state = writer.state()
        doubt = Unknown(f"the event that was skipped at {skipped} may have changed it")
        store.add([Version(ANY, doubt, BinlogPosition(state.file, state.position), state.sequence - 1, Proof.ROWS)])
        store.put_fact(SKIPPED, skipped)
    HistoryCommitter(store, writer).commit()


def _replay(store: Store, writer: JournalWriter, journal: JournalReader) -> str:
    """Add the outcomes that only the journal has; return the identity of the last source, "" if unknown."""
    covered, end = int(store.fact(_COVERED) or 0), writer.end()
    start = max(covered, journal.first())
    here = covered == start
    file, sequence = (store.fact(_FILE), int(store.fact(_SEQUENCE) or 1)) if here else ("", 1)
    identity = store.fact(SOURCE)
    statements: list[tuple[Ddl, list[Outcome]]] = []
    for position, payload in journal.frames(start, end, _KINDS):
        with decoding(journal, position):
            frame = decode(payload)
            outcomes = unpacked(frame.tables) if isinstance(frame, Ddl) else []
        match frame:
            case File(file=name):
                file = name
            case Source() as source:
                if identity not in ("", source.identity):
                    store.new_epoch()
                file, identity, sequence = source.file, source.identity, source.sequence
            case Gap(file=name):
                store.new_epoch()
                file = name
            case Ddl() as ddl:
                statements.append((ddl, outcomes))
            case Commit() as commit:
                # A statement is the first change of its transaction; rows follow in MySQL's CREATE TABLE ... SELECT.
                _add(store, statements, file, sequence, commit)
                statements = []
                sequence = commit.sequence
    return identity


def _add(store: Store, statements: list[tuple[Ddl, list[Outcome]]], file: str, first: int, commit: Commit) -> None:
    """Add the outcomes of a transaction's statements; `first` is the number of its first change."""
    for sequence, (ddl, outcomes) in enumerate(statements, first):
        end = BinlogPosition(file, ddl.end_position)
        store.add(
            Version(TableName(schema, name), state, end, sequence, Proof.STATEMENT, ddl.statement, commit.gtid)
            for schema, name, state in outcomes
        )
