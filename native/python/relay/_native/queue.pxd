# The clients' queues.

from libc.stdint cimport uint32_t, uint64_t
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector

from relay._native.arena cimport CArena, CRange, Arena
from relay._native.base cimport Bytes, raise_queue_failure

cdef extern from "queue/broker.hpp" namespace "relay":
    cdef cppclass CFilter "relay::Filter":
        string schema, table
        uint32_t kinds, discard
        uint64_t limit
        uint64_t since "from"
        uint64_t until "to"

    cdef cppclass CSnapshotClient "relay::Broker::Snapshot::Client":
        uint64_t id
        string packed

    cdef cppclass CSnapshot "relay::Broker::Snapshot":
        uint64_t position
        vector[CSnapshotClient] clients

    cdef cppclass CCheckpoint "relay::Checkpoint":
        @staticmethod
        CCheckpoint unpack(Bytes packed) except +raise_queue_failure

    cdef cppclass CStep "relay::Broker::Step":
        uint64_t rows, wake, position

    cdef cppclass CExtent "relay::Broker::Extent":
        uint64_t offset, length

    cdef cppclass CBroker "relay::Broker":
        CBroker(const CArena& arena, CJournalFrames& frames, uint64_t generation) except +raise_queue_failure
        uint64_t position()
        size_t add_client(uint64_t id, string_view name) except +raise_queue_failure
        void admit(size_t slot) except +raise_queue_failure
        void remove_client(size_t slot) except +raise_queue_failure
        CExtent plan_list(size_t slot, const vector[CFilter]& filters, uint64_t entries) except +raise_queue_failure
        void set_filters(size_t slot, vector[CFilter] filters) except +raise_queue_failure
        CStep step(uint64_t max_bytes) except +raise_queue_failure nogil
        bint pending() nogil
        uint64_t flush(size_t slot) except +raise_queue_failure
        void seek(size_t slot, uint64_t position) except +raise_queue_failure
        void cut(uint64_t position) except +raise_queue_failure
        uint64_t needed(size_t slot) except +raise_queue_failure
        const CSnapshot* snapshot(uint64_t flushed) except +raise_queue_failure
        void stored()
        uint64_t decided(size_t slot) except +raise_queue_failure
        uint64_t stored_needed()
        string flaw(Bytes packed, uint64_t position) except +raise_queue_failure
        CExtent plan_restore(size_t slot, const CCheckpoint& checkpoint) except +raise_queue_failure
        void bring_up_to_date(size_t slot, uint64_t position, CCheckpoint* checkpoint) except +raise_queue_failure
        void restore(size_t slot, const CCheckpoint& checkpoint) except +raise_queue_failure
        bint refuse_unproven

cdef extern from "queue/journal_frames.hpp" namespace "relay":
    cdef cppclass CJournalFrames "relay::JournalFrames":
        CJournalFrames(string directory) except +raise_queue_failure
        uint64_t generation() except +raise_queue_failure
        void release_before(uint64_t position) except +raise_queue_failure


cdef class Broker:
    cdef unique_ptr[CJournalFrames] frames
    cdef unique_ptr[CBroker] c
    cdef Arena arena
    cdef object allocate

    cdef _restore(self, size_t slot, bytes packed, uint64_t position)
    cdef _allocate(self, CExtent extent)
