"""From the bytes of a binlog stream to frames in the journal: Ingest."""

from typing import NamedTuple

cimport cython
from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from relay._native.arena cimport CCounters
from relay._native.base cimport Bytes, encoded, raw, shown, text_of, view
from relay._native.journal cimport JournalWriter

import msgspec

from relay.base.errors import RelayError

cdef extern from "base/inflate.hpp" namespace "relay":
    cdef enum class CDeflated "relay::Deflated"(uint8_t):
        zlib

    cbool inflate_exactly(Bytes, CDeflated, size_t, string*) nogil


ASKS = ("", "query", "table", "unknown", "partial", "error", "end", "boundary")


class Attention(msgspec.Struct, frozen=True):
    """A question or a report of `Ingest.step`. `asks` says which fields are set, and which methods reply:

    query: a statement (schema, statement, in_transaction; body, flags and gtid of its event); reply with `ddl` or
        `skip`. `unfinished`: the start of MariaDB's ALTER in two phases, or one that is rolled back;
    table: a TABLE_MAP (table_id, body); reply with `define`, `pending` or `exclude`;
    partial: rows (table_id) whose images lack columns; reply with `accept_partial` or `skip`;
    unknown: an event that is not understood (type, the beginning of its body; message and statement if the cause is
        not the type); reply with `skip`;
    error: the source ended the stream with an error (code, message); end: it ended the stream without one;
    boundary: the stream is between transactions, after `stop_at_boundary(True)`.
    """

    asks: str
    file: str
    start: int  # start of the event in the file
    position: int  # end of the event
    timestamp: int
    type: int
    table_id: int
    body: bytes
    schema: str
    statement: str  # U+FFFD where it is not UTF-8
    flags: int
    gtid: str
    unfinished: bool
    in_transaction: bool
    code: int
    message: str


class Resume(NamedTuple):
    """Where to resume the stream; without `by_gtid_possible` only by file and position."""

    file: str
    position: int
    gtid_set: str
    by_gtid_possible: bool


class Mark(NamedTuple):
    """Distinguishes a binlog history from another one with the same file names.

    `created` is the time when the source made the file (Unix seconds). `head` holds the first bytes, at most 64 and
    without a checksum, of an event that begins at `start`; 0: none yet.
    """

    file: str
    created: int
    start: int
    head: bytes


cdef vector[cbool] mask(object keep):
    cdef vector[cbool] bits
    for kept in keep:
        bits.push_back(kept)
    return bits


cdef cbool inflate(void* context, CAlgorithm algorithm, Bytes data, uint64_t size, string* out) noexcept nogil:
    if <int>algorithm == <int>CAlgorithm.zlib:
        return inflate_exactly(data, CDeflated.zlib, size, out)
    with gil:
        return inflate_by(<Ingest>context, data, size, out)


cdef cbool inflate_by(Ingest self, Bytes data, uint64_t size, string* out) noexcept:
    cdef bytes result
    try:
        packed = (<const char*>data.data)[:data.size]
        result = b"".join(self.zstd_parts(packed, size))
        out.assign(<const char*>result, <size_t>len(result))
        return True
    except Exception as error:
        self.inflating = error
        return False


cdef cbool inflate_begin(void* context, Bytes data, uint64_t size) noexcept with gil:
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
    """Decompresses the zlib stream in `data` to `size` bytes. Raises `ValueError` if it is damaged or of another size.

    Never makes more than `size` bytes.
    """
    cdef string out
    if not inflate_exactly(raw(data), CDeflated.zlib, size, &out):
        raise ValueError(f"the zlib data is damaged, or does not have the announced {size} bytes")
    return <bytes>out


@cython.no_gc_clear  # the native part uses the writer until it is deleted
cdef class Ingest:
    """Reads one binlog stream into a journal.

    The caller writes bytes into `buffer()` and their number into `received(n)`. `step()` processes them without the GIL
    until it needs more (None) or a reply (an Attention, which each step repeats until there is a reply). Raises
    `RelayError`: checksum_mismatch, unknown_event (also for malformed events), unsupported_column, and those of the
    journal. After disk_full nothing has changed, and the step may be repeated.
    """

    def __cinit__(self, JournalWriter writer, directory, zstd_parts, size_t max_event_bytes=1 << 30,
                  size_t prepared_memory=1 << 25):
        """Creates the ingest of a writer.

        `zstd_parts(data, size)` decompresses zstd's `data` to `size` bytes, in parts, or raises. Rows of prepared XA
        transactions beyond `prepared_memory` bytes are kept in a file of the directory.
        """
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
        self.c = new CIngest(writer.c[0], encoded(str(directory)), limits, by)

    def __dealloc__(self):
        del self.c

    def count_into(self, size_t address):
        """Adds events, rows, transactions and bytes to the Counters at this address (of an arena)."""
        self.c.count_into(<CCounters*>address)

    def resume(self):
        """Where to resume the source: after the journal's state, but before a prepared group that is not in memory.

        The file is empty if the point is known only by GTIDs.
        """
        cdef CResume r = self.c.resume()
        return Resume(text_of(r.file), r.position, text_of(r.gtids.text()), r.by_gtid_possible)

    def forget_prepared(self):
        """Drops all prepared transactions, because the source no longer has their beginning; returns their number."""
        return self.c.forget_prepared()

    def moved(self):
        """Continues the stream at another server, where binlog positions of prepared groups are invalid."""
        self.c.moved()

    def start(self, str file, uint64_t position, by_gtid=False):
        """Begins a new stream there and drops the rest of the last one. Events that the journal holds are skipped."""
        cdef bytes f = encoded(file)
        self.c.start(view(f), position, by_gtid)

    def buffer(self, size_t least=1):
        """Writable memory of at least `least` bytes for the next bytes; valid until the next call of a method."""
        cdef CRoom room = self.c.room(least)
        return PyMemoryView_FromMemory(<char*>room.data, <Py_ssize_t>room.size, PyBUF_WRITE)

    def received(self, size_t n):
        """Takes the first `n` bytes of `buffer()` as received."""
        self.c.received(n)

    def step(self):
        """Processes the received bytes; returns an Attention, or None if it needs more."""
        cdef CAttention a
        cdef cbool asks
        self.inflating = None
        try:
            with nogil:
                asks = self.c.step(&a)
        except RelayError as error:
            raise self.explained(error)
        return self.attention(a) if asks else None

    cdef object explained(self, error):
        """The error of `c.step`; its cause is what decompression raised."""
        if self.inflating is not None:
            error.__cause__ = self.inflating
        return error

    cdef object attention(self, const CAttention& a):
        return Attention(
            ASKS[<int>a.asks], text_of(a.file), a.start, a.position, a.timestamp, a.type, a.table_id, <bytes>a.body,
            shown(a.schema), shown(a.statement), a.flags, text_of(a.gtid), a.unfinished, a.in_transaction, a.code,
            shown(a.message),
        )

    def ddl(self, str statement, bytes dialect=b"", bytes tables=b""):
        """Replies to query: appends a DDL frame, with a packed Dialect and a packed list of Outcomes."""
        self.c.ddl(encoded(statement), dialect, tables)

    def define(self, uint64_t table_id, bytes definition, bytes published, keep=()):
        """Replies to table with the packed definitions of all its columns and of the published ones.

        `keep` has a bool for each column, true for the published ones; empty: all.
        """
        self.c.define(table_id, raw(definition), raw(published), mask(keep))

    def exclude(self, uint64_t table_id):
        """Replies to table: its rows are left out."""
        self.c.exclude(table_id)

    def pending(self, uint64_t table_id, bytes provisional, bytes published, keep=()):
        """Replies to table with definitions that are not proven yet; returns a handle for the writer's `resolve`.

        Until `resolve`, nothing more is published.
        """
        return self.c.pending(table_id, raw(provisional), raw(published), mask(keep))

    def expect(self, bytes table_map, bytes definition, bytes published, keep=()):
        """Gives the definitions, as in `define`, for a table map that may come; it is no reply.

        `table_map` is its body after the table id. `step` asks about a table whose map comes out otherwise.
        """
        self.c.expect(raw(table_map), raw(definition), raw(published), mask(keep))

    def accept_partial(self, uint64_t table_id):
        """Replies to partial: images of this table may lack columns."""
        self.c.accept_partial(table_id)

    def skip(self):
        """Replies to query, unknown or partial: leaves the event out, except for its binlog position."""
        self.c.skip()

    def stop_at_boundary(self, on):
        """Turns on or off that `step` returns a boundary Attention between transactions."""
        self.c.stop_at_boundary(on)

    def redefined(self, str schema, str table):
        """Makes `step` ask for the definition of the table again, because it may have changed."""
        cdef bytes s = encoded(schema)
        cdef bytes t = encoded(table)
        self.c.redefined(view(s), view(t))

    def new_epoch(self):
        """Makes `step` ask for every definition again, because they may have changed."""
        self.c.new_epoch()

    @property
    def file(self):
        """The binlog file that is being read."""
        return text_of(self.c.file())

    @property
    def position(self):
        """The end of the last event in that file."""
        return self.c.position()

    @property
    def timestamp(self):
        """The time of the last event, Unix seconds of the source; 0 before the first."""
        return self.c.timestamp()

    @property
    def mark(self):
        """The latest Mark of the stream; its file is "" before a FORMAT_DESCRIPTION."""
        cdef const CMark* m = &self.c.mark()
        return Mark(text_of(m.file), m.created, m.start, <bytes>m.head)

    @property
    def server(self):
        """The version of the server that wrote the file; "" before a FORMAT_DESCRIPTION."""
        return text_of(self.c.server())

    @property
    def heartbeats(self):
        """The number of heartbeats received."""
        return self.c.heartbeats()

    @property
    def abandoned(self):
        """The number of groups that the source began and never ended."""
        return self.c.abandoned()

    @property
    def in_transaction(self):
        """Whether the last event is within a transaction."""
        return self.c.in_transaction()

    @property
    def skipping(self):
        """Whether the journal already has the next events; ends at the binlog position where the journal ends."""
        return self.c.skipping()
