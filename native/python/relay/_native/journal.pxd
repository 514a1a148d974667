# The journal: its writer and its reader.

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector

from relay._native.base cimport Bytes, raise_failure
from relay._native.gtids cimport CGtid, CGtidSet
from relay._native.values cimport CDefinition, CRowKind

cdef extern from "base/words.hpp" namespace "relay":
    cdef cppclass CSharedWord "relay::Word":
        pass

cdef extern from "journal/journal.hpp" namespace "relay":
    cdef cppclass CFrameView "relay::FrameView":
        uint64_t position
        uint64_t next
        Bytes payload

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

cdef extern from "journal/journal_writer.hpp" namespace "relay":
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
        uint64_t committed() nogil
        cbool in_transaction()
        void publish_to(CSharedWord* word)
        uint32_t define(Bytes definition, cbool pending) except +raise_failure
        void resolve(uint32_t table, Bytes definition) except +raise_failure
        void forget(uint32_t table) except +raise_failure
        void rows(uint32_t table, CRowKind kind, uint64_t end_position, uint32_t timestamp, uint32_t rows,
                  Bytes body) except +raise_failure
        uint64_t sequence()
        void ddl(uint64_t end_position, uint32_t timestamp, string_view schema,
                 string_view statement, Bytes dialect, Bytes tables) except +raise_failure
        void commit(uint64_t position, uint32_t timestamp, const CGtid& gtid, uint32_t server) except +raise_failure
        void rollback() except +raise_failure
        void source(uint64_t position, string_view file, const CGtidSet& gtids,
                    string_view identity) except +raise_failure
        void file(uint64_t position, string_view file) except +raise_failure
        void gap(uint64_t position, string_view file, string_view reason) except +raise_failure
        void pause_publishing(cbool on)
        uint64_t flush() except +raise_failure nogil
        void prepare(uint64_t bytes) nogil
        uint64_t flushed()
        vector[CSegmentFacts] segments() except +raise_failure
        void drop_before(uint64_t position) except +raise_failure nogil


cdef class JournalWriter:
    cdef CJournalWriter* c


cdef class JournalReader:
    cdef CJournalReader* c
