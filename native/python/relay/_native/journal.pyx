"""The journal: its writer (one process), readers (any number), its failed syncs and its unreadable pages."""

from typing import NamedTuple

from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from relay._native.base cimport encoded, raise_failure, raw, text_of, view
from relay._native.gtids cimport CGtid, GtidSet, parse_gtid
from relay._native.values cimport CDefinition, CRowKind

cdef extern from "journal/journal_writer.hpp" namespace "relay":
    void c_settle_syncs "relay::settle_syncs"(string directory) except +raise_failure

cdef extern from "journal/unreadable.hpp" namespace "relay":
    void c_watch_pages "relay::watch_pages"()
    void c_forget_unreadable "relay::forget_unreadable"()

cdef extern from "journal/sync_note.hpp" namespace "relay":
    cdef enum class CTrust "relay::SyncNote::Trust":
        all
        unknown
        none

    cdef cppclass CSyncNote "relay::SyncNote":
        CSyncNote(string file) except +raise_failure
        CTrust trust()
        void begin()
        void end()
        void fail()
        void settle()
        @staticmethod
        CTrust of(string file)
        @staticmethod
        string of_journal(string directory)


class JournalState(NamedTuple):
    """Where the stream resumes: after the last complete transaction of the journal. `file` is "" in a new journal."""

    file: str
    position: int
    gtid_set: str
    identity: str
    sequence: int


class Segment(NamedTuple):
    """A file of the journal: its first position, its end, and its modification time (Unix seconds)."""

    base: int
    end: int
    modified: int


cdef class JournalWriter:
    """Appends to the journal in a directory; one per journal. Raises JournalError.

    The constructor recovers the journal: it removes everything after the last complete transaction. All methods except
    `flush` and `drop_before` belong to one thread. A call that raised disk_full changed nothing and may be repeated.
    """

    def __cinit__(self, directory, uint64_t segment_bytes, uint64_t generation=0):
        cdef string path = encoded(str(directory))
        with nogil:
            self.c = new CJournalWriter(path, segment_bytes, generation)

    def __dealloc__(self):
        del self.c

    def generation(self):
        """The journal's id, never 0. The constructor's `generation` applies only to a new journal."""
        return self.c.generation()

    def state(self):
        """The JournalState after the last complete transaction."""
        cdef const CJournalState* s = &self.c.state()
        return JournalState(
            text_of(s.file), s.position, text_of((<CJournalState*>s).gtids.text()), text_of(s.identity), s.sequence
        )

    def first(self):
        """Position of the oldest segment."""
        return self.c.first()

    def end(self):
        """The position of the next frame."""
        return self.c.end()

    def sequence(self):
        """The number of the next change, also within a transaction."""
        return self.c.sequence()

    def committed(self):
        """The position up to which frames are visible to readers."""
        return self.c.committed()

    def flushed(self):
        """The position up to which frames are on disk."""
        return self.c.flushed()

    def in_transaction(self):
        """Whether there are rows or a statement without a commit."""
        return self.c.in_transaction()

    def publish_to(self, size_t address):
        """Also stores `committed` at this address (8 aligned bytes of shared memory), now and whenever it moves."""
        self.c.publish_to(<CSharedWord*>address)

    def define(self, bytes definition, pending=False):
        """Returns a handle, valid in this writer only, for rows of a packed definition; `pending`: see `resolve`."""
        return self.c.define(raw(definition), pending)

    def resolve(self, uint32_t table, bytes definition=b""):
        """Replaces a pending definition by the proven one, or keeps it (none given). Its rows may then be published."""
        self.c.resolve(table, raw(definition))

    def forget(self, uint32_t table):
        """Frees the handle."""
        self.c.forget(table)

    def rows(self, uint32_t table, int kind, uint64_t end_position, uint32_t timestamp, uint32_t rows, bytes body):
        """Appends rows of kind 1 (insert), 2 (update) or 4 (delete)."""
        self.c.rows(table, <CRowKind>kind, end_position, timestamp, rows, raw(body))

    def ddl(self, uint64_t end_position, uint32_t timestamp, str schema, str statement, bytes dialect=b"",
            bytes tables=b""):
        """Appends a statement, which takes a number like a row; a commit must follow."""
        cdef bytes s = encoded(schema)
        cdef bytes t = encoded(statement)
        self.c.ddl(end_position, timestamp, view(s), view(t), raw(dialect), raw(tables))

    def commit(self, uint64_t position, uint32_t timestamp, str gtid="", uint32_t server_id=0):
        """Ends a transaction at `position` of the binlog. Publishes it unless a pause or a pending table forbids it."""
        self.c.commit(position, timestamp, parse_gtid(gtid) if gtid else CGtid(), server_id)

    def rollback(self):
        """Removes everything appended since the last commit."""
        self.c.rollback()

    def source(self, uint64_t position, str file, str gtid_set, str identity):
        """Appends where the stream begins, and the identity of its server."""
        cdef bytes f = encoded(file)
        cdef bytes i = encoded(identity)
        cdef GtidSet gtids = GtidSet(gtid_set)
        self.c.source(position, view(f), gtids.c, view(i))

    def file(self, uint64_t position, str file):
        """Appends that the binlog continues in another file."""
        cdef bytes f = encoded(file)
        self.c.file(position, view(f))

    def gap(self, uint64_t position, str file, str reason):
        """Appends an accepted gap: events before this binlog position are lost."""
        cdef bytes f = encoded(file)
        cdef bytes r = encoded(reason)
        self.c.gap(position, view(f), view(r))

    def pause_publishing(self, on):
        """Turns a pause on or off, during which transactions are appended but not published."""
        self.c.pause_publishing(on)

    def flush(self):
        """Syncs everything committed to disk, without the GIL; returns the position up to which it is flushed."""
        cdef uint64_t position
        with nogil:
            position = self.c.flush()
        return position

    def prepare(self, uint64_t size):
        """Loads the pages of the next `size` bytes into memory, without the GIL; for the thread that flushes."""
        with nogil:
            self.c.prepare(size)

    def segments(self):
        """The journal's files, oldest first."""
        return [Segment(s.base, s.end, s.modified) for s in self.c.segments()]

    def drop_before(self, uint64_t position):
        """Deletes segments that end at or before a position, except the last."""
        with nogil:
            self.c.drop_before(position)


cdef class JournalReader:
    """Reads frames of a journal below a committed position, also while it is written. Raises JournalError."""

    def __cinit__(self, directory):
        self.c = new CJournalReader(encoded(str(directory)))

    def __dealloc__(self):
        del self.c

    def generation(self):
        """The journal's id."""
        return self.c.generation()

    def first(self):
        """Position of the oldest segment."""
        return self.c.first()

    def flushed(self):
        """The position up to which the journal is on disk; 0 if there is no journal.

        It is always between transactions. The writer's `flush` moves it, in any process.
        """
        return self.c.flushed()

    def frame(self, uint64_t position):
        """Returns (position of the next frame, payload) of the frame at a position, after a check of its CRC."""
        cdef CFrameView frame = self.c.frame(position, True)
        return frame.next, (<const char*>frame.payload.data)[:frame.payload.size]

    def frames(self, uint64_t start, uint64_t end, kinds=()):
        """Yields (position, payload) of each frame from `start` to before `end`, at most the committed position.

        If `kinds` is given, frames of other kinds are skipped without a check.
        """
        cdef CFrameView frame
        cdef uint32_t wanted = 0
        cdef cbool found
        for kind in kinds:
            wanted |= <uint32_t>1 << <uint32_t>kind
        while start < end:
            with nogil:
                found = self.c.next(start, end, wanted, &frame)
            if not found:
                return
            yield frame.position, (<const char*>frame.payload.data)[:frame.payload.size]
            start = frame.next

    def table_at(self, uint64_t position):
        """Returns (schema, table) of the rows at a position, or None if there are no rows."""
        cdef shared_ptr[const CDefinition] definition = self.c.definition_at(position)
        if definition.get() == NULL:
            return None
        return text_of(definition.get().schema), text_of(definition.get().table)

    def locate(self, str file, uint64_t position, uint64_t committed):
        """The journal position where the frames after a binlog position of the source begin."""
        cdef bytes f = encoded(file)
        return self.c.locate(view(f), position, committed)

    def segment(self, uint64_t position):
        """The beginning of the segment that contains a position."""
        return self.c.segment(position)

    def torn(self, uint64_t segment, uint64_t until):
        """Whether a segment, given by its beginning, begins within a transaction that ends before `until`.

        `until` is committed.
        """
        cdef CFrameView commit
        return self.c.torn(segment, until, &commit)

    def release_before(self, uint64_t position):
        """Unmaps segments that end at or before a position."""
        self.c.release_before(position)


def sync_failed(directory):
    """Whether a sync of the journal in the folder has failed since the host started.

    The next writer removes everything after the last successful sync. No reader may be beyond that then.
    """
    return CSyncNote.of(CSyncNote.of_journal(encoded(str(directory)))) == CTrust.none


def sync_unknown(directory):
    """Whether a writer died during a sync of the journal in the folder.

    The next writer writes the data of that sync again. Nobody may read it meanwhile.
    """
    return CSyncNote.of(CSyncNote.of_journal(encoded(str(directory)))) == CTrust.unknown


def settle_syncs(directory):
    """Writes the data of an interrupted sync again, if a writer died during one. Raises JournalError."""
    c_settle_syncs(encoded(str(directory)))


cdef class SyncNote:
    """A file that records whether syncs have succeeded since the host started; created if it is missing.

    Raises JournalError.
    """

    cdef CSyncNote* c

    def __cinit__(self, file):
        self.c = new CSyncNote(encoded(str(file)))

    def __dealloc__(self):
        del self.c

    @property
    def failed(self):
        """Whether a sync failed."""
        return self.c.trust() == CTrust.none

    @property
    def unknown(self):
        """Whether a sync is running, or was running when its process died."""
        return self.c.trust() == CTrust.unknown

    def begin(self):
        """Records that a sync begins."""
        self.c.begin()

    def end(self):
        """Records that the sync succeeded."""
        self.c.end()

    def fail(self):
        """Records that a sync failed, or is not reliable."""
        self.c.fail()

    def settle(self):
        """Records that everything is synced."""
        self.c.settle()


def watch_pages():
    """Lets this process and its later forks record the segment when they die of an unreadable journal page (SIGBUS).

    Opening a recorded segment fails with `journal_corrupt`.
    """
    c_watch_pages()


def forget_unreadable():
    """Allows unreadable segments to be opened again."""
    c_forget_unreadable()
