"""The schema history beside the journal: kept with it, and whole again after a kill.

The journal is first: a statement's frame has what the statement leaves. The store is kept behind it, and knows how far
in the journal it has come; what a kill kept out of it is read from there. What a journal lost with its host is
forgotten, since it comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from relay._native import JournalReader, JournalWriter
from relay.binlog.place import Place
from relay.ddl.dialect import Dialect
from relay.ddl.syntax import TableName
from relay.journal.frames import Commit, Ddl, Definition, File, Gap, Source, decode
from relay.schema.facts import ANY, SKIPPED, Proof, Version
from relay.schema.history import unpacked
from relay.schema.matching import told
from relay.schema.store import Store
from relay.schema.table import Unknown

_BEHIND_BYTES: Final = 64 << 20  # of the journal that may have to be walked after a kill
_KINDS: Final = (3, 4, 5, 6, 7)  # all but TABLE and ROWS
_GENERATION: Final = "generation"
SOURCE: Final = "source"
"""Fact of the store: the identity of the source whose places these are, kept with what that source is asked for."""
_COVERED, _FILE, _SEQUENCE = "covered", "file", "sequence"
"""Facts of the store: the journal's id; the position in it up to which all is here, the binlog's file and the number of
the next change there."""


class Keeper:
    """Keeps what is added to the store, behind the journal."""

    def __init__(self, store: Store, writer: JournalWriter) -> None:
        self._store = store
        self._writer = writer
        self._covered = int(store.fact(_COVERED) or 0)

    def keep(self) -> None:
        """Keep what was added and stands in the journal, and note how far that is, now and then in any case."""
        end = self._writer.end()
        lost = end < self._covered  # the journal its end, with the host
        far = end - self._covered > _BEHIND_BYTES
        if self._writer.in_transaction() or not (self._store.changed or far or lost):
            return
        state = self._writer.state()
        for key, value in ((_COVERED, end), (_FILE, state.file), (_SEQUENCE, state.sequence)):
            self._store.put_fact(key, str(value))
        self._store.keep()
        if lost:
            self._store.flush()  # once the journal has grown again, its former places mean something else
        self._covered = end

    def settle(self) -> None:
        """Keep what the journal has, now that it has lost what had not ended."""
        self._store.cut(self._writer.state().sequence)
        self.keep()


def is_lost(store: Store, writer: JournalWriter, earlier: bool) -> bool:
    """Whether the store was lost: it is new, but the journal is not, nor of a release that had none (`earlier`)."""
    return not (store.fact(_GENERATION) or earlier) and bool(writer.state().identity)


def restore(
    store: Store,
    writer: JournalWriter,
    directory: Path,
    earlier: Callable[[], Iterable[tuple[Definition, Place]]],
    skipped: str = "",
) -> None:
    """Bring the store to where the journal is. `earlier` gives what a release without a history had proven; `skipped`
    is the place of what was left out last, as it is kept beside the store.

    Raises `JournalError`, `sqlite3.Error`, `Unreadable`.
    """
    generation = str(writer.generation())
    known = store.fact(_GENERATION)
    if not known:
        dialect = Dialect(writer.state().identity.startswith("mariadb"), 0)
        store.add(
            Version(TableName(each.schema, each.table), told(each, dialect), since, 0, Proof.EARLIER)
            for each, since in earlier()
        )
    elif known != generation:
        store.new_epoch()
        store.put_fact(_COVERED, "")
    store.put_fact(_GENERATION, generation)
    store.cut(writer.state().sequence)
    identity = _replay(store, writer, JournalReader(directory))
    if writer.state().identity != identity != "":
        store.new_epoch()  # the journal lost the way to that source
    if skipped != store.fact(SKIPPED):
        state = writer.state()
        doubt = Unknown(f"what was left out at {skipped} may have changed it")
        store.add([Version(ANY, doubt, Place(state.file, state.position), state.sequence - 1, Proof.ROWS)])
        store.put_fact(SKIPPED, skipped)
    Keeper(store, writer).keep()


def _replay(store: Store, writer: JournalWriter, journal: JournalReader) -> str:
    """Add what statements left that the journal has and the store does not; the source of the last, if it is known."""
    covered, end = int(store.fact(_COVERED) or 0), writer.end()
    start = max(covered, journal.first())
    here = covered == start
    file, sequence = (store.fact(_FILE), int(store.fact(_SEQUENCE) or 1)) if here else ("", 1)
    identity = store.fact(SOURCE)
    statements: list[Ddl] = []
    for _, payload in journal.frames(start, end, _KINDS):
        match decode(payload):
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
                statements.append(ddl)
            case Commit() as commit:
                # A statement is the first change of its transaction; rows follow on MySQL's CREATE TABLE ... SELECT.
                _add(store, statements, file, sequence, commit)
                statements = []
                sequence = commit.sequence
    return identity


def _add(store: Store, statements: list[Ddl], file: str, first: int, commit: Commit) -> None:
    """What the statements of a transaction, whose first change has that number, left."""
    for sequence, ddl in enumerate(statements, first):
        end = Place(file, ddl.end_position)
        store.add(
            Version(TableName(schema, name), state, end, sequence, Proof.STATEMENT, ddl.statement, commit.gtid)
            for schema, name, state in unpacked(ddl.tables)
        )
