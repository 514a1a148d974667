# The shared memory of all processes.

from libc.stdint cimport uint32_t, uint64_t
from libcpp.string cimport string

from relay._native.base cimport raise_queue_failure


cdef extern from "queue/arena.hpp" namespace "relay":
    cdef cppclass CWord "relay::Word":
        uint64_t get() nogil
        uint64_t relaxed() nogil
        void set(uint64_t v) nogil
        void add(uint64_t n) nogil

    cdef cppclass CCounts "relay::Counts":
        uint64_t kept, limited

    cdef cppclass CBrokerRecord "relay::BrokerRecord":
        uint64_t scan, lag, dropped_newest, newest_at, oldest_at, cut_at, flush_at
        uint64_t matched()

    cdef cppclass CServerRecord "relay::ServerRecord":
        uint64_t lo, hi, confirmed, dropped_limit, dropped_cut, dropped_flush, undecodable, undecodable_at, served
        uint64_t repeats, skipped, skipped_at
        CCounts taken()

    cdef cppclass CRange "relay::Range":
        uint64_t frame
        uint32_t first, rows

    cdef cppclass CServerLine "relay::ServerLine":
        CWord waiting, connected, last_poll

    cdef cppclass CAddressRecord "relay::AddressRecord":
        char text[64]

    cdef cppclass CBufferedAddress "relay::DoubleBuffered<relay::AddressRecord>":
        CAddressRecord read(uint64_t* version)
        uint64_t version()

    cdef cppclass CBufferedBroker "relay::DoubleBuffered<relay::BrokerRecord>":
        uint64_t version()

    cdef cppclass CBufferedServer "relay::DoubleBuffered<relay::ServerRecord>":
        uint64_t version()

    cdef cppclass CDelivery "relay::Delivery":
        uint64_t at, frame
        uint32_t kind, rows

    cdef cppclass CDeliveries "relay::Deliveries":
        size_t last(CDelivery* out)

    cdef cppclass CClientBlock "relay::ClientBlock":
        CBufferedBroker broker
        CBufferedServer server
        CServerLine line
        CBufferedAddress address
        CDeliveries deliveries

    cdef cppclass CStopRecord "relay::StopRecord":
        uint64_t at
        char code[32]
        char text[512]
        char hint[256]

    cdef cppclass CSourceStatus "relay::SourceStatus":
        char state[32]
        char host[256]
        char file[256]
        char gtid_set[4096]
        uint64_t position, last_event, heard

    cdef cppclass CBufferedStop "relay::DoubleBuffered<relay::StopRecord>":
        CStopRecord read()
        void publish(CStopRecord record)

    cdef cppclass CBufferedSource "relay::DoubleBuffered<relay::SourceStatus>":
        CSourceStatus read()
        void publish(CSourceStatus record)

    cdef cppclass CCounters "relay::Counters":
        uint64_t events[256]
        uint64_t rows_insert, rows_update, rows_delete, transactions, bytes, skipped

    cdef cppclass CReaderWords "relay::ReaderWords":
        CWord committed, flushed, first, sequence, cut_request

    cdef cppclass CBrokerWords "relay::BrokerWords":
        CWord scan, needed, waiting, cut_done

    cdef cppclass CExporterWords "relay::ExporterWords":
        CWord exported

    cdef cppclass CLoggerWords "relay::LoggerWords":
        CWord logged

    cdef cppclass CStateWords "relay::StateWords":
        CWord changes

    cdef cppclass CSupervisorWords "relay::SupervisorWords":
        CWord paused, draining, stops_cleared
        CWord restarts[72]

    cdef cppclass CProcessWords "relay::ProcessWords":
        CWord beat, pid, running

    cdef cppclass CControl "relay::Control":
        CReaderWords reader
        CBrokerWords broker
        CExporterWords exporter
        CLoggerWords logger
        CStateWords state
        CSupervisorWords supervisor
        CProcessWords processes[72]
        CBufferedStop stops[72]
        CBufferedSource source
        CCounters counters

    cdef cppclass CArenaHeader "relay::ArenaHeader":
        uint64_t max_clients, workers, pool_size

    cdef cppclass CFloorDrops "relay::FloorDrops":
        uint64_t cut, flush, limit
        @staticmethod
        CFloorDrops between(const CCounts& taken, const CBrokerRecord& broker)

    cdef cppclass CClientView "relay::ClientView":
        CBrokerRecord broker
        CServerRecord server
        uint64_t broker_version, server_version
        uint64_t waiting()
        uint64_t waiting_limited()
        uint64_t in_flight()
        uint64_t head()
        uint64_t most_waiting()

    cdef cppclass CArena "relay::Arena":
        CArena(void* memory, size_t size) except +raise_queue_failure
        @staticmethod
        size_t size_for(uint64_t max_clients, uint64_t pool_bytes, uint64_t workers)
        @staticmethod
        void format(void* memory, uint64_t clients, uint64_t pool_bytes, uint64_t workers) except +raise_queue_failure
        const CArenaHeader& header()
        CControl& control()
        CClientBlock& client(size_t slot)
        CWord& id(size_t slot)
        size_t max_clients()
        size_t slots()
        void release_holds()
        bint broker_sleeps() nogil
        string name(size_t slot)
        CClientView view(size_t slot)

    size_t PROCESSES "relay::kProcesses"
    size_t IN_FLIGHT_RANGES "relay::kInFlightRanges"
    size_t PREFETCHED "relay::kPrefetched"
    enum: SHOWN_DELIVERIES "relay::Deliveries::kShown"

cdef class Arena:
    cdef CArena* c
    cdef Py_buffer view
    cdef bint viewed

    cdef dict _client_stats(self, size_t slot, uint64_t id)
    cdef int _check(self, size_t slot) except -1
