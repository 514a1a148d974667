# From the binlog stream to the journal.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector

from relay._native.arena cimport CCounters
from relay._native.base cimport Bytes, raise_failure
from relay._native.gtids cimport CGtidSet
from relay._native.journal cimport CJournalWriter, JournalWriter

cdef extern from "binlog/packets.hpp" namespace "relay":
    cdef cppclass CRoom "relay::PacketBuffer::Room":
        uint8_t* data
        size_t size

cdef extern from "binlog/ingest.hpp" namespace "relay":
    cdef enum class CAlgorithm "relay::Algorithm":
        zlib

    cdef cppclass CInflate "relay::Inflate":
        cbool (*call)(void* context, CAlgorithm algorithm, Bytes data, uint64_t size, string* out) noexcept nogil
        cbool (*begin)(void* context, Bytes data, uint64_t size) noexcept nogil
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
        void count_into(CCounters* counters)
        CResume resume()
        size_t forget_prepared() except +raise_failure
        void moved() except +raise_failure
        void start(string_view file, uint64_t position, cbool by_gtid) except +raise_failure
        CRoom room(size_t least) except +raise_failure
        void received(size_t n) nogil
        cbool step(CAttention* out) except +raise_failure nogil
        void ddl(string statement, string dialect, string tables)
        void define(uint64_t table_id, Bytes definition, Bytes published,
                    vector[cbool] keep) except +raise_failure
        void exclude(uint64_t table_id) except +raise_failure
        uint32_t pending(uint64_t table_id, Bytes provisional, Bytes published,
                         vector[cbool] keep) except +raise_failure
        void expect(Bytes map, Bytes definition, Bytes published, vector[cbool] keep) except +raise_failure
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

cdef class Ingest:
    cdef CIngest* c
    cdef JournalWriter writer
    cdef object zstd_parts
    cdef object parts  # iterator over the transaction that is being decompressed
    cdef object inflating  # the exception that decompression raised, or None

    cdef object explained(self, error)
    cdef object attention(self, const CAttention& a)
