# The reader's hot path: from the bytes of a binlog stream to frames in the journal.

from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory

cimport cython
import msgspec

cdef extern from "arena.hpp" namespace "relay":
    cdef cppclass IngestCounters "relay::Counters":
        pass

cdef extern from "packets.hpp" namespace "relay":
    cdef cppclass CRoom "relay::PacketBuffer::Room":
        uint8_t* data
        size_t size

cdef extern from "inflate.hpp" namespace "relay":
    cdef enum class CDeflated "relay::Deflated"(uint8_t):
        zlib

    cbool inflate_exactly(RawBytes, CDeflated, size_t, string*) nogil

cdef extern from "ingest.hpp" namespace "relay":
    cdef enum class CAlgorithm "relay::Algorithm":
        zlib

    cdef cppclass CInflate "relay::Inflate":
        cbool (*call)(void* context, CAlgorithm algorithm, RawBytes data, uint64_t size, string* out) noexcept nogil
        cbool (*begin)(void* context, RawBytes data, uint64_t size) noexcept nogil
        cbool (*next)(void* context, string* out) noexcept nogil
        void* context

    cdef cppclass CAsks "relay::Asks":
        pass

    cdef cppclass CAttention "relay::Attention":
        CAsks asks
        string file
        uint64_t start
        uint64_t position
        uint32_t timestamp
        uint8_t type
        uint64_t table_id
        string body
        string schema
        string statement
        uint16_t flags
        string gtid
        cbool unfinished
        cbool in_transaction
        uint32_t code
        string message

    cdef cppclass CIngestLimits "relay::IngestLimits":
        size_t event_bytes
        size_t prepared_bytes

    cdef cppclass CResume "relay::Ingest::Resume":
        string file
        uint64_t position
        CGtidSet gtids
        cbool by_gtid_possible

    cdef cppclass CMark "relay::Ingest::Mark":
        string file
        uint32_t created
        uint64_t start
        string head

    cdef cppclass CIngest "relay::Ingest":
        CIngest(CJournalWriter& writer, string directory, CIngestLimits limits,
                CInflate inflate) except +raise_failure
        void count_into(IngestCounters* counters)
        CResume resume()
        size_t forget_prepared() except +raise_failure
        void moved() except +raise_failure
        void start(string_view file, uint64_t position, cbool by_gtid) except +raise_failure
        CRoom room(size_t least) except +raise_failure
        void received(size_t n)
        cbool step(CAttention* out) except +raise_failure nogil
        void pass_ "pass"()
        void ddl(string statement, string dialect, string tables)
        void define(uint64_t table_id, RawBytes definition, RawBytes published,
                    vector[cbool] keep) except +raise_failure
        void exclude(uint64_t table_id) except +raise_failure
        uint32_t pending(uint64_t table_id, RawBytes provisional, RawBytes published,
                         vector[cbool] keep) except +raise_failure
        void accept_partial(uint64_t table_id)
        void skip()
        void stop_at_boundary(cbool on)
        void redefined(string_view schema, string_view table)
        void new_epoch()
        const string& file()
        uint64_t position()
        uint32_t timestamp()
        const CMark& mark()
        const string& server()
        uint64_t heartbeats()
        uint64_t abandoned()
        cbool in_transaction()
        cbool skipping()


ASKS = ("", "query", "table", "unknown", "partial", "error", "end", "boundary")


class Attention(msgspec.Struct, frozen=True):
    """What `Ingest.step` needs to be told, or tells. `asks` says which fields matter, and which answers there are:

    query: a statement (schema, statement, in_transaction; body, flags and gtid of its event), answered by `ddl` or
        `pass_by`; `unfinished`: of MariaDB's ALTER in two phases it is the beginning, or one that is rolled back;
    table: a TABLE_MAP (table_id, body), answered by `define`, `pending` or `exclude`;
    partial: rows (table_id) whose images lack columns, answered by `accept_partial` or `skip`;
    unknown: an event that is not understood (type, the beginning of its body; message, statement where it is not the
        event as such), answered by `skip`;
    error: the source ended the stream (code, message); end: it ended it without one;
    boundary: between transactions, as `stop_at_boundary` asked.
    """

    asks: str
    file: str
    start: int  # of the event in the file
    position: int  # its end
    timestamp: int
    type: int
    table_id: int
    body: bytes
    schema: str
    statement: str  # as UTF-8, U+FFFD where it is none
    flags: int
    gtid: str
    unfinished: bool
    in_transaction: bool
    code: int
    message: str


class Resume(NamedTuple):
    """Where the source is asked to go on. Not `by_gtid_possible`: only by file and position."""

    file: str
    position: int
    gtid_set: str
    by_gtid_possible: bool


class Mark(NamedTuple):
    """What tells a history from another one of the same files: when the source made the file (Unix seconds), and an
    event in it that begins at `start`: its first bytes, 64 at most, without a checksum. `start` 0: none yet."""

    file: str
    created: int
    start: int
    head: bytes


cdef str shown(string s):
    return s.decode("utf-8", "replace")


cdef vector[cbool] mask(object keep):
    cdef vector[cbool] bits
    for kept in keep:
        bits.push_back(kept)
    return bits


cdef cbool inflate(void* context, CAlgorithm algorithm, RawBytes data, uint64_t size, string* out) noexcept nogil:
    if <int>algorithm == <int>CAlgorithm.zlib:
        return inflate_exactly(data, CDeflated.zlib, size, out)
    with gil:
        return inflate_by(<Ingest>context, data, size, out)


cdef cbool inflate_by(Ingest self, RawBytes data, uint64_t size, string* out) noexcept:
    cdef bytes result
    try:
        packed = (<const char*>data.data)[:data.size]
        result = b"".join(self.zstd_parts(packed, size))
        out.assign(<const char*>result, <size_t>len(result))
        return True
    except Exception as error:
        self.inflating = error
        return False


cdef cbool inflate_begin(void* context, RawBytes data, uint64_t size) noexcept with gil:
    cdef Ingest self = <Ingest>context
    try:
        self.parts = iter(self.zstd_parts((<const char*>data.data)[:data.size], size))
        return True
    except Exception as error:
        self.inflating = error
        return False


cdef cbool inflate_next(void* context, string* out) noexcept with gil:
    cdef Ingest self = <Ingest>context
    cdef bytes part
    try:
        part = next(self.parts, b"")
        out.append(<const char*>part, <size_t>len(part))
        return True
    except Exception as error:
        self.inflating = error
        return False


def inflate_zlib(bytes data not None, size_t size):
    """The `size` bytes that zlib's stream in `data` holds. Raises `ValueError` if it is damaged or holds fewer or more.

    No more than `size` bytes are ever made, whatever the data asks for.
    """
    cdef string out
    if not inflate_exactly(RawBytes(<const char*>data, <size_t>len(data)), CDeflated.zlib, size, &out):
        raise ValueError(f"damaged zlib data, or not of the {size} bytes that were announced")
    return <bytes>out


@cython.no_gc_clear  # the native half refers to the writer until it is gone
cdef class Ingest:
    """Reads one binlog stream into a journal.

    Bytes go into `buffer()`, `received(n)` says how many, `step()` works through them without the GIL until it needs
    more (None) or needs to be told something (an Attention; asked again by each step until it is answered). Raises
    `RelayError`: checksum_mismatch, unknown_event (also for malformed ones), unsupported_column, and those of the
    journal, of which disk_full leaves everything as it was, so that the same step may be tried again.
    """

    cdef CIngest* c
    cdef JournalWriter writer
    cdef object zstd_parts
    cdef object parts  # of the transaction that is being inflated
    cdef object inflating

    def __cinit__(self, JournalWriter writer, directory, zstd_parts, size_t max_event_bytes=1 << 30,
                  size_t prepared_memory=1 << 25):
        """`zstd_parts(data, size)` gives the `size` bytes that zstd's `data` holds, in parts, or raises. Rows of prepared XA
        transactions beyond `prepared_memory` bytes are held in a file of the directory."""
        cdef CIngestLimits limits
        limits.event_bytes = max_event_bytes
        limits.prepared_bytes = prepared_memory
        cdef CInflate by
        by.call = inflate
        by.begin = inflate_begin
        by.next = inflate_next
        by.context = <void*>self
        self.writer = writer
        self.zstd_parts = zstd_parts
        self.c = new CIngest(writer.c[0], str(directory).encode("utf-8", "surrogateescape"), limits, by)

    def __dealloc__(self):
        del self.c

    def count_into(self, size_t address):
        """Adds events, rows, transactions and bytes to the Counters at this address (of an arena)."""
        self.c.count_into(<IngestCounters*>address)

    def resume(self):
        """Where to ask the source to go on: after the journal's state, but before a prepared group not in memory;
        without a file if only GTIDs tell where that is."""
        cdef CResume r = self.c.resume()
        return Resume(text_of(r.file), r.position, text_of(r.gtids.text()), r.by_gtid_possible)

    def forget_prepared(self):
        """Gives up all prepared transactions, since the source no longer has what they begin with; how many there were."""
        return self.c.forget_prepared()

    def moved(self):
        """The stream goes on at another server: places of prepared groups mean nothing there."""
        self.c.moved()

    def start(self, str file, uint64_t position, by_gtid=False):
        """A new stream begins there. What is left of the last is dropped; what the journal holds will be skipped."""
        cdef bytes f = file.encode("utf-8", "surrogateescape")
        self.c.start(view(f), position, by_gtid)

    def buffer(self, size_t least=1):
        """Writable memory of at least `least` bytes for what comes next; valid until the next call of any method."""
        cdef CRoom room = self.c.room(least)
        return PyMemoryView_FromMemory(<char*>room.data, <Py_ssize_t>room.size, PyBUF_WRITE)

    def received(self, size_t n):
        """The first `n` bytes of `buffer()` have been filled."""
        self.c.received(n)

    cpdef step(self):
        """Works through what was received; an Attention, or None when it needs more."""
        cdef CAttention a
        cdef cbool asks
        self.inflating = None
        try:
            with nogil:
                asks = self.c.step(&a)
        except RelayError as error:
            if self.inflating is not None:
                raise error from self.inflating
            raise
        if not asks:
            return None
        return Attention(
            ASKS[<int>a.asks], text_of(a.file), a.start, a.position, a.timestamp, a.type, a.table_id, <bytes>a.body,
            shown(a.schema), shown(a.statement), a.flags, text_of(a.gtid), a.unfinished, a.in_transaction, a.code,
            shown(a.message),
        )

    def ddl(self, str statement, bytes dialect=b"", bytes tables=b""):
        """Answers query: the statement becomes a DDL frame, with a packed Dialect and a packed list of Outcomes."""
        self.c.ddl(statement.encode("utf-8", "surrogateescape"), dialect, tables)

    def pass_by(self):
        """Answers query: only the statement's place is kept."""
        self.c.pass_()

    def define(self, uint64_t table_id, bytes definition, bytes published, keep=()):
        """Answers table with the packed definition of all its columns and of those that are published; `keep` tells
        which those are, one bool a column (none: all)."""
        self.c.define(table_id, raw(definition), raw(published), mask(keep))

    def exclude(self, uint64_t table_id):
        """Answers table: its rows are left out."""
        self.c.exclude(table_id)

    def pending(self, uint64_t table_id, bytes provisional, bytes published, keep=()):
        """Answers table with definitions that are not proven yet; a handle for the writer's `resolve`, until which
        nothing more is published."""
        return self.c.pending(table_id, raw(provisional), raw(published), mask(keep))

    def accept_partial(self, uint64_t table_id):
        """Answers partial: images of this table may lack columns."""
        self.c.accept_partial(table_id)

    def skip(self):
        """Answers unknown, or partial: the event is left out."""
        self.c.skip()

    def stop_at_boundary(self, on):
        """While on, `step` returns a boundary Attention between transactions."""
        self.c.stop_at_boundary(on)

    def redefined(self, str schema, str table):
        """The definition of the table may have changed: it is asked for again."""
        cdef bytes s = schema.encode("utf-8", "surrogateescape")
        cdef bytes t = table.encode("utf-8", "surrogateescape")
        self.c.redefined(view(s), view(t))

    def new_epoch(self):
        """Definitions may have changed: every table is asked for again."""
        self.c.new_epoch()

    @property
    def file(self):
        """The binlog file that is being read."""
        return text_of(self.c.file())

    @property
    def position(self):
        """The end of the last event in it."""
        return self.c.position()

    @property
    def timestamp(self):
        """Of the last event, Unix seconds of the source; 0 before one."""
        return self.c.timestamp()

    @property
    def mark(self):
        """The Mark that the stream left last; its file is "" before a FORMAT_DESCRIPTION."""
        cdef const CMark* m = &self.c.mark()
        return Mark(text_of(m.file), m.created, m.start, <bytes>m.head)

    @property
    def server(self):
        """Version of the server that wrote what is being read, "" before a FORMAT_DESCRIPTION."""
        return text_of(self.c.server())

    @property
    def heartbeats(self):
        """Heartbeats so far."""
        return self.c.heartbeats()

    @property
    def abandoned(self):
        """Groups that the source began and never ended."""
        return self.c.abandoned()

    @property
    def in_transaction(self):
        """Whether the last event stands within a transaction."""
        return self.c.in_transaction()

    @property
    def skipping(self):
        """Whether what comes is in the journal already, up to the place where that ends."""
        return self.c.skipping()
