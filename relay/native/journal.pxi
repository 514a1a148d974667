# The journal: its writer (one process), and readers (any number).

from typing import NamedTuple

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.optional cimport optional
from libcpp.string cimport string
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector

from relay.errors import ErrorCode, RelayError, StopCode

cdef extern from "<atomic>" namespace "std":
    cdef cppclass AtomicWord "std::atomic<uint64_t>":
        pass

cdef extern from "bytes.hpp" namespace "relay":
    cdef cppclass RawBytes "relay::Bytes":
        const uint8_t* data
        size_t size
        RawBytes()
        RawBytes(const void* data, size_t size)

cdef extern from "failure.hpp" namespace "relay":
    cdef cppclass CFailure "relay::Failure":
        string code
        string operation
        string where
        string cause
        string hint
    CFailure current_failure()


class JournalError(RelayError):
    """A failure of the journal: `code` is one of disk_full, journal_lost, journal_corrupt, unexpected."""


cdef int raise_failure() except *:
    cdef CFailure failure = current_failure()
    code, operation, where, cause, hint = (
        part.decode("utf-8", "replace")
        for part in (failure.code, failure.operation, failure.where, failure.cause, failure.hint)
    )
    if not code:
        raise RuntimeError(cause)
    known = StopCode(code) if code in StopCode.__members__.values() else ErrorCode(code)
    kind = RelayError if where else JournalError
    raise kind(known, operation, cause, position=where, hint=hint)


cdef extern from "crc.hpp" namespace "relay":
    uint32_t c_crc32 "relay::crc32"(RawBytes data, uint32_t crc)
    uint32_t c_crc32c "relay::crc32c"(RawBytes data, uint32_t crc)

cdef extern from "gtid.hpp" namespace "relay":
    cdef cppclass CGtid "relay::Gtid":
        CGtid()
        string text()
        @staticmethod
        optional[CGtid] parse(string_view text, string* error)
        cbool mariadb
        uint64_t number

    cdef cppclass CGtidRun "relay::GtidSet::Run":
        CGtid first
        uint64_t last

    cdef cppclass CGtidSet "relay::GtidSet":
        CGtidSet()
        @staticmethod
        optional[CGtidSet] parse(string_view text, string* error)
        @staticmethod
        optional[CGtidSet] decode(RawBytes packed)
        string text()
        string encode()
        cbool empty()
        cbool mariadb()
        void add(const CGtid& gtid)
        void remove(const CGtid& gtid)
        cbool contains(const CGtid& gtid)
        cbool subset_of(const CGtidSet& other)
        void unite(const CGtidSet& other)
        void subtract(const CGtidSet& other)
        void intersect(const CGtidSet& other)
        vector[CGtidRun] runs()

cdef extern from "definition.hpp" namespace "relay":
    cdef cppclass CDefinition "relay::Definition":
        string schema
        string table

cdef extern from "journal.hpp" namespace "relay":
    cdef cppclass CFrameView "relay::FrameView":
        uint64_t position
        uint64_t next
        RawBytes payload

    cdef cppclass CRowKind "relay::RowKind":
        pass

    cdef cppclass CJournalReader "relay::JournalReader":
        CJournalReader(string directory) except +raise_failure
        uint64_t generation() except +raise_failure
        uint64_t first() except +raise_failure
        uint64_t segment(uint64_t position) except +raise_failure
        cbool torn(uint64_t segment, uint64_t until, CFrameView* commit) except +raise_failure
        uint64_t flushed() except +raise_failure
        CFrameView frame(uint64_t position, cbool check) except +raise_failure
        cbool next(uint64_t position, uint64_t end, uint32_t kinds, CFrameView* out) except +raise_failure nogil
        shared_ptr[const CDefinition] definition_at(uint64_t position) except +raise_failure
        void release_before(uint64_t position) except +raise_failure
        uint64_t locate(string_view file, uint64_t position, uint64_t committed) except +raise_failure

cdef extern from "journal_writer.hpp" namespace "relay":
    cdef cppclass CJournalState "relay::JournalState":
        string file
        uint64_t position
        CGtidSet gtids
        string identity
        uint64_t sequence

    cdef cppclass CSegmentFacts "relay::JournalWriter::SegmentFacts":
        uint64_t base
        uint64_t end
        int64_t modified

    cdef cppclass CJournalWriter "relay::JournalWriter":
        CJournalWriter(string directory, uint64_t segment_bytes, uint64_t generation) except +raise_failure nogil
        uint64_t generation()
        const CJournalState& state()
        uint64_t first()
        uint64_t end()
        uint64_t committed()
        cbool in_transaction()
        void publish_to(AtomicWord* word)
        uint32_t define(RawBytes definition, cbool pending) except +raise_failure
        void resolve(uint32_t table, RawBytes definition) except +raise_failure
        void forget(uint32_t table) except +raise_failure
        void rows(uint32_t table, CRowKind kind, uint64_t end_position, uint32_t timestamp, uint32_t rows,
                  RawBytes body) except +raise_failure
        uint64_t sequence()
        void ddl(uint64_t end_position, uint32_t timestamp, string_view schema,
                 string_view statement, RawBytes dialect, RawBytes tables) except +raise_failure
        void commit(uint64_t position, uint32_t timestamp, const CGtid& gtid, uint32_t server) except +raise_failure
        void rollback() except +raise_failure
        void source(uint64_t position, string_view file, const CGtidSet& gtids,
                    string_view identity) except +raise_failure
        void file(uint64_t position, string_view file) except +raise_failure
        void gap(uint64_t position, string_view file, string_view reason) except +raise_failure
        void hold(cbool on)
        uint64_t flush() except +raise_failure nogil
        void prepare(uint64_t bytes) nogil
        uint64_t flushed()
        vector[CSegmentFacts] segments() except +raise_failure
        void drop_before(uint64_t position) except +raise_failure nogil

    void c_settle_syncs "relay::settle_syncs"(string directory) except +raise_failure


cdef extern from "sync_note.hpp" namespace "relay":
    cdef enum class CTrust "relay::SyncNote::Trust":
        all
        unknown
        none

    cdef cppclass CSyncNote "relay::SyncNote":
        @staticmethod
        CTrust of(string directory)


cdef RawBytes raw(bytes data):
    return RawBytes(<const char*>data, <size_t>len(data))


cdef string_view view(bytes data):
    return string_view(<const char*>data, <size_t>len(data))


cdef str text_of(string s):
    return s.decode("utf-8", "surrogateescape")


cdef object no_gtids(str text, str what, string error):
    shortened = text if len(text) <= 80 else text[:77] + "..."
    return ValueError(f"{shortened!r} is no {what}: {error.decode('utf-8', 'replace')}")


cdef CGtid parse_gtid(str text) except *:
    cdef bytes packed = text.encode()
    cdef string error
    cdef optional[CGtid] parsed = CGtid.parse(view(packed), &error)
    if not parsed.has_value():
        raise no_gtids(text, "GTID", error)
    return parsed.value()


cdef class GtidSet:
    """A set of GTIDs, of MySQL or of MariaDB.

    MySQL's has intervals of numbers per server and tag: "uuid:1-5:9:tag:1-3,uuid:7". MariaDB's has the last GTID of
    each domain, "0-1-100,3-2-50", which stands for all before it in that domain. The text is the servers' own, without
    the line breaks that MySQL writes behind its commas; blanks in what is read are left out.

    `a | b`, `a - b` and `a & b` are what is in either, in `a` alone, and in both; of MariaDB's domains the further
    position, those in which `a` is further, and the nearer one. `gtid in a`, `a.issubset(b)`, `len(a)` and iteration
    (texts of single GTIDs in order; of MariaDB, the last of each domain) work as with other sets. What holds GTIDs of
    both kinds, or is no GTID, raises ValueError.
    """

    cdef CGtidSet c

    def __init__(self, text=""):
        """The set that `text` says, "" being the empty one. Raises ValueError with what is wrong and where."""
        cdef bytes packed = text.encode()
        cdef string error
        cdef optional[CGtidSet] parsed = CGtidSet.parse(view(packed), &error)
        if not parsed.has_value():
            raise no_gtids(text, "GTID set", error)
        self.c = parsed.value()

    @staticmethod
    def decode(packed):
        """The set in the body of a PREVIOUS_GTIDS event, or as COM_BINLOG_DUMP_GTID carries it (MySQL)."""
        cdef bytes data = bytes(packed)
        cdef optional[CGtidSet] parsed = CGtidSet.decode(raw(data))
        if not parsed.has_value():
            raise ValueError("the GTID set is damaged")
        cdef GtidSet made = GtidSet()
        made.c = parsed.value()
        return made

    def encode(self):
        """The set as COM_BINLOG_DUMP_GTID carries it; a set of MySQL's."""
        if self.c.mariadb():
            raise ValueError("MariaDB has no packed form of GTID sets")
        return <bytes>self.c.encode()

    def add(self, gtid):
        """Adds one GTID; in a domain of MariaDB it becomes the last one."""
        cdef CGtid one = parse_gtid(gtid)
        if not self.c.empty() and self.c.mariadb() != one.mariadb:
            raise ValueError(f"{gtid!r} and {str(self)!r} are GTIDs of MySQL and of MariaDB")
        self.c.add(one)

    def remove(self, gtid):
        """Takes one GTID of MySQL's out; a position of MariaDB cannot leave one out."""
        cdef CGtid one = parse_gtid(gtid)
        if one.mariadb:
            raise ValueError(f"{gtid!r} cannot be left out of a position of MariaDB")
        self.c.remove(one)

    def __contains__(self, gtid):
        return self.c.contains(parse_gtid(gtid))

    def issubset(self, GtidSet other):
        """Whether everything in this set is in the other."""
        return self.c.subset_of(other.c)

    cdef GtidSet copied(self, GtidSet other):
        if not self.c.empty() and not other.c.empty() and self.c.mariadb() != other.c.mariadb():
            raise ValueError(f"{str(self)!r} and {str(other)!r} are GTIDs of MySQL and of MariaDB")
        cdef GtidSet made = GtidSet()
        made.c = self.c
        return made

    def __or__(self, GtidSet other):
        cdef GtidSet made = self.copied(other)
        made.c.unite(other.c)
        return made

    def __sub__(self, GtidSet other):
        cdef GtidSet made = self.copied(other)
        made.c.subtract(other.c)
        return made

    def __and__(self, GtidSet other):
        cdef GtidSet made = self.copied(other)
        made.c.intersect(other.c)
        return made

    def __iter__(self):
        cdef CGtidRun run
        for run in self.c.runs():
            source = text_of(run.first.text()).removesuffix(str(run.first.number))
            for number in range(run.first.number, run.last + 1):
                yield f"{source}{number}"

    def __len__(self):
        return sum(run.last - run.first.number + 1 for run in self.c.runs())

    @property
    def mariadb(self):
        """Whether it holds MariaDB's GTIDs."""
        return self.c.mariadb()

    def __bool__(self):
        return not self.c.empty()

    def __eq__(self, other):
        return isinstance(other, GtidSet) and str(self) == str(other)

    __hash__ = None

    def __reduce__(self):
        return GtidSet, (str(self),)

    def __str__(self):
        return text_of(self.c.text())

    def __repr__(self):
        return f"GtidSet({str(self)!r})"


class JournalState(NamedTuple):
    """Where the stream goes on: after the last complete transaction of the journal. `file` is "" in a new journal."""

    file: str
    position: int
    gtid_set: str
    identity: str
    sequence: int


class Segment(NamedTuple):
    """A file of the journal: positions of its first byte and after its last; when it last changed (Unix seconds)."""

    base: int
    end: int
    modified: int


cdef class JournalWriter:
    """Appends to the journal in a directory; one per journal. Raises JournalError.

    Opening recovers: everything after the last complete transaction is removed. Methods belong to one thread, but for
    `flush` and `drop_before`. A call that raised disk_full changed nothing and may be made again.
    """

    cdef CJournalWriter* c

    def __cinit__(self, directory, uint64_t segment_bytes, uint64_t generation=0):
        cdef string path = str(directory).encode("utf-8", "surrogateescape")
        with nogil:
            self.c = new CJournalWriter(path, segment_bytes, generation)

    def __dealloc__(self):
        del self.c

    def generation(self):
        """The journal's id, never 0; `generation` as given only where the journal is new."""
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
        """Position of the next frame."""
        return self.c.end()

    def sequence(self):
        """Number of the next change, also within a transaction."""
        return self.c.sequence()

    def committed(self):
        """Position up to which frames are visible to readers."""
        return self.c.committed()

    def flushed(self):
        """Position up to which frames are on disk."""
        return self.c.flushed()

    def in_transaction(self):
        """Whether rows or a statement wait for their commit."""
        return self.c.in_transaction()

    def publish_to(self, size_t address):
        """Stores `committed` at this address (8 bytes, aligned, shared memory) too, now and whenever it moves."""
        self.c.publish_to(<AtomicWord*>address)

    def define(self, bytes definition, pending=False):
        """A handle, of this writer alone, for rows of a packed definition; see `resolve` for pending ones."""
        return self.c.define(raw(definition), pending)

    def resolve(self, uint32_t table, bytes definition=b""):
        """The proven definition of a pending one (none: it stands as it is): its rows may now be published."""
        self.c.resolve(table, raw(definition))

    def forget(self, uint32_t table):
        """The handle is no longer used."""
        self.c.forget(table)

    def rows(self, uint32_t table, int kind, uint64_t end_position, uint32_t timestamp, uint32_t rows, bytes body):
        """Appends rows of kind 1 (insert), 2 (update) or 4 (delete)."""
        self.c.rows(table, <CRowKind>kind, end_position, timestamp, rows, raw(body))

    def ddl(self, uint64_t end_position, uint32_t timestamp, str schema, str statement, bytes dialect=b"",
            bytes tables=b""):
        """Appends a statement, which takes a number as a row does; a commit has to follow."""
        cdef bytes s = schema.encode("utf-8", "surrogateescape")
        cdef bytes t = statement.encode("utf-8", "surrogateescape")
        self.c.ddl(end_position, timestamp, view(s), view(t), raw(dialect), raw(tables))

    def commit(self, uint64_t position, uint32_t timestamp, str gtid="", uint32_t server_id=0):
        """Ends a transaction that ends at `position` of the binlog, and publishes it unless something holds it."""
        self.c.commit(position, timestamp, parse_gtid(gtid) if gtid else CGtid(), server_id)

    def rollback(self):
        """Removes what was appended since the last commit."""
        self.c.rollback()

    def source(self, uint64_t position, str file, str gtid_set, str identity):
        """Where the stream begins, and on which server."""
        cdef bytes f = file.encode("utf-8", "surrogateescape")
        cdef bytes i = identity.encode("utf-8", "surrogateescape")
        cdef GtidSet gtids = GtidSet(gtid_set)
        self.c.source(position, view(f), gtids.c, view(i))

    def file(self, uint64_t position, str file):
        """The binlog goes on in another file."""
        cdef bytes f = file.encode("utf-8", "surrogateescape")
        self.c.file(position, view(f))

    def gap(self, uint64_t position, str file, str reason):
        """Events before this place are lost, and that was accepted."""
        cdef bytes f = file.encode("utf-8", "surrogateescape")
        cdef bytes r = reason.encode("utf-8", "surrogateescape")
        self.c.gap(position, view(f), view(r))

    def hold(self, on):
        """While on, transactions are appended but not published."""
        self.c.hold(on)

    def flush(self):
        """Writes what is committed to the disk, without the GIL; the position up to which that now holds."""
        cdef uint64_t position
        with nogil:
            position = self.c.flush()
        return position

    def prepare(self, uint64_t size):
        """Brings the pages of the next `size` bytes into memory, without the GIL; for the thread that flushes."""
        with nogil:
            self.c.prepare(size)

    def segments(self):
        """The journal's files, oldest first."""
        return [Segment(s.base, s.end, s.modified) for s in self.c.segments()]

    def drop_before(self, uint64_t position):
        """Deletes whole segments that end at or before a position; never the last."""
        with nogil:
            self.c.drop_before(position)


def sync_failed(directory):
    """Whether a sync of the journal in the folder has failed since the host was started. Its next writer cuts away what
    was written since the last good one; nobody may stand behind that then."""
    return CSyncNote.of(str(directory).encode("utf-8", "surrogateescape")) == CTrust.none


def sync_unknown(directory):
    """Whether a writer died within a sync of the journal in the folder. Its next writer writes anew what that was to
    write, and nobody may read it meanwhile."""
    return CSyncNote.of(str(directory).encode("utf-8", "surrogateescape")) == CTrust.unknown


def settle_syncs(directory):
    """Write anew what a writer that died within a sync was to write. Raises JournalError."""
    c_settle_syncs(str(directory).encode("utf-8", "surrogateescape"))


cdef class JournalReader:
    """Reads the frames of a journal below a committed position, also while it is being written. Raises JournalError."""

    cdef CJournalReader* c

    def __cinit__(self, directory):
        self.c = new CJournalReader(str(directory).encode("utf-8", "surrogateescape"))

    def __dealloc__(self):
        del self.c

    def generation(self):
        """The journal's id."""
        return self.c.generation()

    def first(self):
        """Position of the oldest segment."""
        return self.c.first()

    def flushed(self):
        """Position up to which the journal is on disk for good: always between transactions, and moved by the writer's
        `flush`, in whatever process that is. 0 if there is no journal."""
        return self.c.flushed()

    def frame(self, uint64_t position):
        """(position of the next frame, payload) of the frame at a position; its CRC is verified."""
        cdef CFrameView frame = self.c.frame(position, True)
        return frame.next, (<const char*>frame.payload.data)[:frame.payload.size]

    def frames(self, uint64_t start, uint64_t end, kinds=()):
        """Yields (position, payload) of each frame from `start` to before `end`, at most the committed position.

        `kinds` leaves others out, and does not verify them."""
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
        """(schema, table) of the rows at a position; None if no rows stand there."""
        cdef shared_ptr[const CDefinition] definition = self.c.definition_at(position)
        if definition.get() == NULL:
            return None
        return text_of(definition.get().schema), text_of(definition.get().table)

    def locate(self, str file, uint64_t position, uint64_t committed):
        """The journal position from which the frames follow that come after a place in the source's binlog."""
        cdef bytes f = file.encode("utf-8", "surrogateescape")
        return self.c.locate(view(f), position, committed)

    def segment(self, uint64_t position):
        """Position of the beginning of the segment that holds a position."""
        return self.c.segment(position)

    def torn(self, uint64_t segment, uint64_t until):
        """Whether the segment that begins at a position begins within a transaction that ends before `until`, which is
        committed."""
        cdef CFrameView commit
        return self.c.torn(segment, until, &commit)

    def release_before(self, uint64_t position):
        """Unmaps segments that end at or before a position."""
        self.c.release_before(position)


def crc32(bytes data, uint32_t crc=0):
    """zlib's CRC-32, continued from `crc`."""
    return c_crc32(raw(data), crc)


def crc32c(bytes data, uint32_t crc=0):
    """Castagnoli's CRC-32C, continued from `crc`."""
    return c_crc32c(raw(data), crc)
