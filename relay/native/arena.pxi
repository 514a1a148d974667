# The shared memory of all processes: Arena.

import os
import time

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #include <atomic>
    static inline void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
    """
    void full_fence()

cdef extern from "<cstring>" nogil:
    size_t strnlen(const char* text, size_t size)


class QueueError(RelayError):
    """A client's queue cannot be made, enlarged or read."""

    def __init__(self, cause):
        super().__init__(ErrorCode.ENVIRONMENT, "client queue", cause, hint="see MaxClients and QueueMemory in [Relay]")


cdef int raise_queue_failure() except *:
    cdef CFailure failure = current_failure()
    if failure.code.empty():
        raise QueueError(failure.cause.decode("utf-8", "replace"))
    return raise_failure()


cdef extern from "arena.hpp" namespace "relay":
    cdef cppclass CWord "relay::Word":
        uint64_t get()
        void set(uint64_t v)

    cdef cppclass CBrokerRecord "relay::BrokerRecord":
        uint64_t scan, matched, lag, dropped_newest, newest_at, oldest_at, cut_at, flush_at

    cdef cppclass CServerRecord "relay::ServerRecord":
        uint64_t lo, hi, confirmed, dropped_limit, dropped_cut, dropped_flush, undecodable, undecodable_at, served
        uint64_t repeats, skipped, skipped_at

    cdef cppclass CRange "relay::Range":
        uint64_t frame
        uint32_t first, rows

    cdef cppclass CServerLine "relay::ServerLine":
        CWord waiting, connected, last_poll

    cdef cppclass CPeerRecord "relay::PeerRecord":
        char address[64]

    cdef cppclass CPeerFlip "relay::Flip<relay::PeerRecord>":
        CPeerRecord read()

    cdef cppclass CDelivery "relay::Delivery":
        uint64_t at, frame
        uint32_t kind, rows

    cdef cppclass CDeliveries "relay::Deliveries":
        size_t last(CDelivery* out)

    cdef cppclass CIdentity "relay::ClientBlock::Identity":
        CWord id

    cdef cppclass CClientBlock "relay::ClientBlock":
        CIdentity identity
        CServerLine line
        CPeerFlip peer
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

    cdef cppclass CStopFlip "relay::Flip<relay::StopRecord>":
        CStopRecord read()
        void publish(CStopRecord record)

    cdef cppclass CSourceFlip "relay::Flip<relay::SourceStatus>":
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
        CSupervisorWords supervisor
        CProcessWords processes[72]
        CStopFlip stops[72]
        CSourceFlip source
        CCounters counters

    cdef cppclass CArenaHeader "relay::ArenaHeader":
        uint64_t max_clients, workers, pool_size

    cdef cppclass CFloorDrops "relay::FloorDrops":
        uint64_t cut, flush, limit
        @staticmethod
        CFloorDrops between(uint64_t hi, CBrokerRecord broker)

    cdef cppclass CClientView "relay::ClientView":
        CBrokerRecord broker
        CServerRecord server
        uint64_t waiting()
        uint64_t in_flight()
        uint64_t head()
        uint64_t most_waiting()

    cdef cppclass CArena "relay::Arena":
        CArena(void* memory, size_t size) except +raise_queue_failure
        @staticmethod
        size_t size_for(uint64_t max_clients, uint64_t pool_bytes)
        @staticmethod
        void format(void* memory, uint64_t clients, uint64_t pool_bytes, uint64_t workers) except +raise_queue_failure
        const CArenaHeader& header()
        CControl& control()
        CClientBlock& client(size_t slot)
        size_t max_clients()
        string name(size_t slot)
        CClientView view(size_t slot)

    size_t PROCESSES "relay::kProcesses"
    size_t IN_FLIGHT_RANGES "relay::kInFlightRanges"
    enum: SHOWN_DELIVERIES "relay::Deliveries::kShown"


cdef void put_text(char* field, size_t size, text) noexcept:
    cdef bytes packed = text.encode("utf-8", "replace")[: size - 1]
    memset(field, 0, size)
    memcpy(field, <const char*>packed, len(packed))


cdef str get_text(const char* field, size_t size):
    return field[:strnlen(field, size)].decode("utf-8", "ignore")


EVENT_NAMES = {
    1: "START_EVENT_V3", 2: "QUERY_EVENT", 3: "STOP_EVENT", 4: "ROTATE_EVENT", 5: "INTVAR_EVENT", 6: "LOAD_EVENT",
    7: "SLAVE_EVENT", 8: "CREATE_FILE_EVENT", 9: "APPEND_BLOCK_EVENT", 10: "EXEC_LOAD_EVENT", 11: "DELETE_FILE_EVENT",
    12: "NEW_LOAD_EVENT", 13: "RAND_EVENT", 14: "USER_VAR_EVENT", 15: "FORMAT_DESCRIPTION_EVENT", 16: "XID_EVENT",
    17: "BEGIN_LOAD_QUERY_EVENT", 18: "EXECUTE_LOAD_QUERY_EVENT", 19: "TABLE_MAP_EVENT", 20: "PRE_GA_WRITE_ROWS_EVENT",
    21: "PRE_GA_UPDATE_ROWS_EVENT", 22: "PRE_GA_DELETE_ROWS_EVENT", 23: "WRITE_ROW_EVENT_V1", 24: "UPDATE_ROW_EVENT_V1", 25: "DELETE_ROW_EVENT_V1",
    26: "INCIDENT_EVENT", 27: "HEARTBEAT_EVENT", 28: "IGNORABLE_EVENT", 29: "ROWS_QUERY_EVENT", 30: "WRITE_ROW_EVENT", 31: "UPDATE_ROW_EVENT",
    32: "DELETE_ROW_EVENT", 33: "GTID_EVENT", 34: "ANONYMOUS_GTID_EVENT", 35: "PREVIOUS_GTIDS_EVENT",
    36: "TRANSACTION_CONTEXT_EVENT", 37: "VIEW_CHANGE_EVENT", 38: "XA_PREPARE_EVENT", 39: "PARTIAL_UPDATE_ROW_EVENT", 40: "TRANSACTION_PAYLOAD_EVENT", 41: "HEARTBEAT_EVENT_V2",
    42: "GTID_TAGGED_EVENT", 160: "ANNOTATE_ROWS_EVENT", 161: "BINLOG_CHECKPOINT_EVENT", 162: "MARIADB_GTID_EVENT",
    163: "GTID_LIST_EVENT", 164: "START_ENCRYPTION_EVENT", 165: "QUERY_COMPRESSED_EVENT",
    166: "WRITE_ROW_COMPRESSED_EVENT_V1", 167: "UPDATE_ROW_COMPRESSED_EVENT_V1", 168: "DELETE_ROW_COMPRESSED_EVENT_V1",
    169: "WRITE_ROW_COMPRESSED_EVENT", 170: "UPDATE_ROW_COMPRESSED_EVENT", 171: "DELETE_ROW_COMPRESSED_EVENT",
    172: "PARTIAL_ROW_DATA_EVENT",
}  # fmt: skip


cdef class Arena:
    """The shared memory of all processes, as a view of a writable buffer that starts at a page.

    Journal positions are bytes since the journal's beginning. Each word has one writer: the reader `committed`,
    `flushed`, `first`, `sequence`, `cut_request` and the source's state; the broker `broker_scan`, `broker_waiting`,
    `needed` and `cut_done`; the exporter `exported`; the logger `logged`; the supervisor `paused`, `draining`.
    """

    cdef CArena* c
    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, memory, max_clients=None, workers=None, pool_bytes=None):
        """With a shape, formats zeroed memory of `size(...)` bytes; without, takes it as it is. Raises QueueError."""
        PyObject_GetBuffer(memory, &self.view, PyBUF_WRITABLE)
        self.held = True
        if max_clients is not None:
            if <size_t>self.view.len < CArena.size_for(max_clients, pool_bytes):
                raise QueueError(f"{self.view.len} bytes of shared memory are too few")
            CArena.format(self.view.buf, max_clients, pool_bytes, workers)
        self.c = new CArena(self.view.buf, <size_t>self.view.len)

    def __dealloc__(self):
        del self.c
        if self.held:
            PyBuffer_Release(&self.view)

    @staticmethod
    def size(uint64_t max_clients, uint64_t workers, uint64_t pool_bytes):
        """Bytes of an arena; `pool_bytes` are for rings of clients with large limits."""
        return CArena.size_for(max_clients, pool_bytes)

    @staticmethod
    def fixed_size(uint64_t max_clients, uint64_t workers, uint64_t pool_bytes):
        """Bytes at the arena's beginning that are used in any case; parts of the rest are allocated when needed."""
        return CArena.size_for(max_clients, 0)

    @staticmethod
    def fits(memory, uint64_t max_clients, uint64_t workers, uint64_t pool_bytes):
        """Whether the memory holds an arena of this version and shape."""
        cdef Arena found
        try:
            found = Arena(memory)
        except QueueError:
            return False
        cdef const CArenaHeader* h = &found.c.header()
        return (
            h.max_clients == max_clients
            and h.workers == workers
            and <size_t>found.view.len >= CArena.size_for(max_clients, pool_bytes)
            and CArena.size_for(max_clients, h.pool_size) == CArena.size_for(max_clients, pool_bytes)
        )

    # -- words

    @property
    def committed(self):
        return self.c.control().reader.committed.get()

    @committed.setter
    def committed(self, uint64_t v):
        self.c.control().reader.committed.set(v)

    @property
    def flushed(self):
        return self.c.control().reader.flushed.get()

    @flushed.setter
    def flushed(self, uint64_t v):
        self.c.control().reader.flushed.set(v)

    @property
    def first(self):
        return self.c.control().reader.first.get()

    @first.setter
    def first(self, uint64_t v):
        self.c.control().reader.first.set(v)

    @property
    def sequence(self):
        return self.c.control().reader.sequence.get()

    @sequence.setter
    def sequence(self, uint64_t v):
        self.c.control().reader.sequence.set(v)

    @property
    def cut_request(self):
        return self.c.control().reader.cut_request.get()

    @cut_request.setter
    def cut_request(self, uint64_t v):
        self.c.control().reader.cut_request.set(v)

    @property
    def cut_done(self):
        return self.c.control().broker.cut_done.get()

    @cut_done.setter
    def cut_done(self, uint64_t v):
        self.c.control().broker.cut_done.set(v)

    @property
    def needed(self):
        return self.c.control().broker.needed.get()

    @needed.setter
    def needed(self, uint64_t v):
        self.c.control().broker.needed.set(v)

    @property
    def exported(self):
        """Up to where the lake has everything, so that retention may go there; 2**64 - 1: nobody exports."""
        return self.c.control().exporter.exported.get()

    @exported.setter
    def exported(self, uint64_t v):
        self.c.control().exporter.exported.set(v)

    @property
    def logged(self):
        """The same for the log of [Logger]; 2**64 - 1: there is none."""
        return self.c.control().logger.logged.get()

    @logged.setter
    def logged(self, uint64_t v):
        self.c.control().logger.logged.set(v)

    @property
    def broker_scan(self):
        return self.c.control().broker.scan.get()

    @property
    def broker_waiting(self):
        """Whether the broker sleeps; what was stored before it was asked is seen by a broker that is about to sleep."""
        full_fence()
        return self.c.control().broker.waiting.get() != 0

    @broker_waiting.setter
    def broker_waiting(self, bint v):
        self.c.control().broker.waiting.set(v)
        full_fence()

    @property
    def paused(self):
        return self.c.control().supervisor.paused.get() != 0

    @paused.setter
    def paused(self, bint v):
        self.c.control().supervisor.paused.set(v)

    @property
    def draining(self):
        return self.c.control().supervisor.draining.get() != 0

    @draining.setter
    def draining(self, bint v):
        self.c.control().supervisor.draining.set(v)

    def attach_writer(self, JournalWriter writer):
        """From now on this journal's writer stores `committed`."""
        writer.publish_to(<size_t>&self.c.control().reader.committed)

    @property
    def counters_address(self):
        """For `Ingest.count_into`."""
        return <size_t>&self.c.control().counters

    # -- processes

    def beat(self, size_t slot, uint64_t pid):
        """The process in this slot lives, now; pid 0: it is about to be started."""
        cdef CProcessWords* p = &self.c.control().processes[slot]
        if pid == 0 or pid != p.pid.get():
            p.running.set(0)
        p.pid.set(pid)
        p.beat.set(time.monotonic_ns())

    def heartbeat(self, size_t slot):
        """When it was last heard, in seconds of the monotonic clock."""
        return self.c.control().processes[slot].beat.get() / 1e9

    def pid(self, size_t slot):
        return self.c.control().processes[slot].pid.get()

    def mark_running(self, size_t slot):
        """It is done with its start."""
        self.c.control().processes[slot].running.set(1)

    def running(self, size_t slot):
        return self.c.control().processes[slot].running.get() != 0

    def restarts(self, size_t slot):
        return self.c.control().supervisor.restarts[slot].get()

    def count_restart(self, size_t slot):
        cdef CWord* word = &self.c.control().supervisor.restarts[slot]
        word.set(word.get() + 1)

    def set_stop(self, code, text, hint):
        """Notes why this process, which has sent a beat, stops by name."""
        cdef uint64_t pid = os.getpid()
        cdef CStopRecord record
        cdef size_t slot
        for slot in range(PROCESSES):
            if self.c.control().processes[slot].pid.get() == pid:
                record.at = time.monotonic_ns()
                put_text(record.code, sizeof(record.code), code)
                put_text(record.text, sizeof(record.text), text)
                put_text(record.hint, sizeof(record.hint), hint)
                self.c.control().stops[slot].publish(record)
                return
        raise QueueError(f"process {pid} has no place in the arena")

    def stop(self):
        """The last named stop that was not cleared: {"code", "text", "hint"}, or None."""
        cdef CStopRecord latest  # at 0
        cdef CStopRecord record
        cdef size_t slot
        for slot in range(PROCESSES):
            record = self.c.control().stops[slot].read()
            if record.at > latest.at:
                latest = record
        if latest.at <= self.c.control().supervisor.stops_cleared.get():
            return None
        return {
            "code": get_text(latest.code, sizeof(latest.code)),
            "text": get_text(latest.text, sizeof(latest.text)),
            "hint": get_text(latest.hint, sizeof(latest.hint)),
        }

    def clear_stop(self):
        """Everything that stopped so far is mended."""
        self.c.control().supervisor.stops_cleared.set(time.monotonic_ns())

    # -- the source

    @property
    def source_state(self):
        """What the reader does: a word such as "streaming"."""
        cdef CSourceStatus s = self.c.control().source.read()
        return get_text(s.state, sizeof(s.state))

    @source_state.setter
    def source_state(self, state):
        cdef CSourceStatus s = self.c.control().source.read()
        put_text(s.state, sizeof(s.state), state)
        self.c.control().source.publish(s)

    def set_source(self, host, file, uint64_t position, gtid_set, last_event, heard):
        """Where the stream stands; Unix seconds of the last event (source's clock) and of the last byte (ours)."""
        cdef CSourceStatus s = self.c.control().source.read()
        put_text(s.host, sizeof(s.host), host)
        put_text(s.file, sizeof(s.file), file)
        put_text(s.gtid_set, sizeof(s.gtid_set), gtid_set)
        s.position = position
        s.last_event = <uint64_t>last_event
        s.heard = <uint64_t>(heard * 1e9)
        self.c.control().source.publish(s)

    def source(self):
        """What set_source was told, as a dict; the GTID set is cut after 4095 bytes."""
        cdef CSourceStatus s = self.c.control().source.read()
        return {
            "host": get_text(s.host, sizeof(s.host)),
            "file": get_text(s.file, sizeof(s.file)),
            "position": s.position,
            "gtid_set": get_text(s.gtid_set, sizeof(s.gtid_set)),
            "last_event": float(s.last_event),
            "heard": s.heard / 1e9,
        }

    def rows(self):
        """Rows read from the source, by kind."""
        cdef CCounters* n = &self.c.control().counters
        return {"insert": n.rows_insert, "update": n.rows_update, "delete": n.rows_delete}

    def events(self):
        """Events read from the source, by type; those that never came are left out."""
        cdef CCounters* n = &self.c.control().counters
        return {EVENT_NAMES.get(i, f"Event #{i:02X}"): n.events[i] for i in range(256) if n.events[i]}

    def traffic(self):
        """Transactions and bytes read from the source, and what of it was skipped by name."""
        cdef CCounters* n = &self.c.control().counters
        return {"transactions": n.transactions, "bytes": n.bytes, "skipped": n.skipped}

    def count_skipped(self):
        """The reader has left out an event or a table that it does not understand."""
        cdef CCounters* n = &self.c.control().counters
        n.skipped += 1

    # -- clients

    def client_slots(self):
        """The blocks that clients have."""
        cdef size_t slot
        return [slot for slot in range(self.c.max_clients()) if self.c.client(slot).identity.id.get()]

    def client_id(self, size_t slot):
        self._check(slot)
        return self.c.client(slot).identity.id.get()

    def client_stats(self, size_t slot):
        """One client's rows at one instant: matched = confirmed + in_flight + waiting + all dropped.

        `served` counts rows each time that they are handed out; `max_waiting` is the longest the queue has been.
        `address` is the peer's, "" while nobody is connected; `last_seen`: Unix seconds of the last poll, 0 if none.
        `last_drop` has, by reason, the journal position near which rows were last dropped (0: never).
        """
        self._check(slot)
        cdef CClientView v = self.c.view(slot)
        cdef CFloorDrops d = CFloorDrops.between(v.server.hi, v.broker)
        cdef CServerLine* line = &self.c.client(slot).line
        cdef CPeerRecord peer = self.c.client(slot).peer.read()
        polled = line.last_poll.get()
        connected = line.connected.get() != 0
        return {
            "client_id": self.c.client(slot).identity.id.get(),
            "name": text_of(self.c.name(slot)),
            "connected": connected,
            "address": get_text(peer.address, sizeof(peer.address)) if connected else "",
            "last_seen": time.time() - (time.monotonic_ns() - polled) / 1e9 if polled else 0.0,
            "served": v.server.served,
            "matched": v.broker.matched,
            "confirmed": v.server.confirmed,
            "in_flight": v.in_flight(),
            "next": v.server.lo if v.in_flight() else v.head(),
            "waiting": v.waiting(),
            "max_waiting": v.most_waiting(),
            "repeats": v.server.repeats,
            "dropped": {
                "limit_oldest": v.server.dropped_limit + d.limit,
                "limit_newest": v.broker.dropped_newest,
                "cut": v.server.dropped_cut + d.cut,
                "flush": v.server.dropped_flush + d.flush,
                "undecodable": v.server.undecodable,
                "skipped": v.server.skipped,
            },
            "last_drop": {
                "limit_oldest": v.broker.oldest_at,
                "limit_newest": v.broker.newest_at,
                "cut": v.broker.cut_at,
                "flush": v.broker.flush_at,
                "undecodable": v.server.undecodable_at,
                "skipped": v.server.skipped_at,
            },
            "lagging": v.broker.lag != 0,
        }

    def client_deliveries(self, size_t slot):
        """The last ten replies with rows, oldest first: (Unix seconds, journal position of the first row, kind, rows).

        `kind` is the first row's: 1 insert, 2 update, 4 delete.
        """
        self._check(slot)
        cdef CDelivery last[SHOWN_DELIVERIES]
        cdef size_t count = self.c.client(slot).deliveries.last(last)
        clock = time.time() - time.monotonic_ns() / 1e9
        return [(clock + last[i].at / 1e9, last[i].frame, last[i].kind, last[i].rows) for i in range(count)]

    cdef int _check(self, size_t slot) except -1:
        if slot >= self.c.max_clients():
            raise IndexError(f"block {slot} of {self.c.max_clients()}")
        return 0
