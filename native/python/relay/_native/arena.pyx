"""The shared memory of all processes: Arena."""

import os
import time

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from relay._native.base cimport field_of, put_field, text_of
from relay._native.journal cimport JournalWriter

from relay._native.base import QueueError
from relay.base.event_names import EVENT_NAMES

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void*)

cdef struct ClientMark:
    uint64_t id
    uint64_t broker, server, address  # versions of its records
    uint64_t polled, connected

CLIENT_MARK_BYTES = sizeof(ClientMark)


cdef class Arena:
    """The shared memory of all processes, in a writable buffer that begins at a page boundary.

    Journal positions are bytes since the beginning of the journal. Each word has one writer. The reader writes
    `committed`, `flushed`, `first`, `sequence`, `cut_request` and the state of the source; the broker `broker_scan`,
    `broker_waiting`, `needed` and `cut_done`; the exporter `exported`; the logger `logged`; the supervisor `paused` and
    `draining`.
    """

    def __cinit__(self, memory, max_clients=None, workers=None, pool_bytes=None):
        """Formats zeroed memory of `size(...)` bytes if `max_clients` is given, else opens it. Raises QueueError."""
        PyObject_GetBuffer(memory, &self.view, PyBUF_WRITABLE)
        self.viewed = True
        if max_clients is not None:
            if <size_t>self.view.len < CArena.size_for(max_clients, pool_bytes, workers):
                raise QueueError(f"{self.view.len} bytes of shared memory are too few")
            CArena.format(self.view.buf, max_clients, pool_bytes, workers)
        self.c = new CArena(self.view.buf, <size_t>self.view.len)

    def __dealloc__(self):
        del self.c
        if self.viewed:
            PyBuffer_Release(&self.view)

    @staticmethod
    def size(uint64_t max_clients, uint64_t workers, uint64_t pool_bytes):
        """The size of an arena in bytes; `pool_bytes` are for the lists of clients with filters that drop the newest."""
        return CArena.size_for(max_clients, pool_bytes, workers)

    @staticmethod
    def fixed_size(uint64_t max_clients, uint64_t workers, uint64_t pool_bytes):
        """The bytes at the arena's beginning that are always used; parts of the rest are allocated when needed."""
        return CArena.size_for(max_clients, 0, workers)

    @staticmethod
    def fits(memory, uint64_t max_clients, uint64_t workers, uint64_t pool_bytes):
        """Whether the memory holds an arena of this version and these sizes."""
        cdef Arena found
        try:
            found = Arena(memory)
        except QueueError:
            return False
        cdef const CArenaHeader* h = &found.c.header()
        return (
            h.max_clients == max_clients
            and h.workers == workers
            and <size_t>found.view.len >= CArena.size_for(max_clients, pool_bytes, workers)
            and CArena.size_for(max_clients, h.pool_size, workers) == CArena.size_for(max_clients, pool_bytes, workers)
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
        """The journal position up to which the lake has everything, for retention; 2**64 - 1: no exporter."""
        return self.c.control().exporter.exported.get()

    @exported.setter
    def exported(self, uint64_t v):
        self.c.control().exporter.exported.set(v)

    @property
    def logged(self):
        """The journal position up to which the row log has everything, for retention; 2**64 - 1: no logger."""
        return self.c.control().logger.logged.get()

    @logged.setter
    def logged(self, uint64_t v):
        self.c.control().logger.logged.set(v)

    @property
    def stored_changes(self):
        """The number of changes of clients, filters and gaps in state.db; reader and state writer count them."""
        return self.c.control().state.changes.get()

    def count_stored_change(self):
        """Counts a change, after it is in the file."""
        self.c.control().state.changes.add(1)

    @property
    def broker_scan(self):
        return self.c.control().broker.scan.get()

    @property
    def broker_waiting(self):
        """Whether the broker must be woken for earlier stores: it sleeps, or is about to and may not have seen them."""
        return self.c.broker_sleeps()

    @broker_waiting.setter
    def broker_waiting(self, bint v):
        self.c.control().broker.waiting.set(v)

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
        """Makes the writer of the journal store `committed`, from now on."""
        writer.publish_to(<size_t>&self.c.control().reader.committed)

    @property
    def counters_address(self):
        """The address of the counters, for `Ingest.count_into`."""
        return <size_t>&self.c.control().counters

    # -- processes

    def beat(self, size_t slot, uint64_t pid):
        """Records a heartbeat of the process in this slot; pid 0: it is about to start."""
        cdef CProcessWords* p = &self.c.control().processes[slot]
        if pid == 0 or pid != p.pid.get():
            p.running.set(0)
        p.pid.set(pid)
        p.beat.set(time.monotonic_ns())

    def heartbeat(self, size_t slot):
        """The time of the last heartbeat, in seconds of the monotonic clock."""
        return self.c.control().processes[slot].beat.get() / 1e9

    def pid(self, size_t slot):
        return self.c.control().processes[slot].pid.get()

    def mark_running(self, size_t slot):
        """Records that the process has completed its start."""
        self.c.control().processes[slot].running.set(1)

    def running(self, size_t slot):
        return self.c.control().processes[slot].running.get() != 0

    def restarts(self, size_t slot):
        return self.c.control().supervisor.restarts[slot].get()

    def count_restart(self, size_t slot):
        cdef CWord* word = &self.c.control().supervisor.restarts[slot]
        word.set(word.get() + 1)

    def set_stop(self, code, text, hint):
        """Stores the fatal error of this process, which must have sent a heartbeat."""
        cdef uint64_t pid = os.getpid()
        cdef CStopRecord record
        cdef size_t slot
        for slot in range(PROCESSES):
            if self.c.control().processes[slot].pid.get() == pid:
                record.at = time.monotonic_ns()
                put_field(record.code, sizeof(record.code), code)
                put_field(record.text, sizeof(record.text), text)
                put_field(record.hint, sizeof(record.hint), hint)
                self.c.control().stops[slot].publish(record)
                return
        raise QueueError(f"process {pid} has no slot in the arena")

    def stop(self):
        """The last fatal error that is not cleared, as {"code", "text", "hint"}, or None."""
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
            "code": field_of(latest.code, sizeof(latest.code)),
            "text": field_of(latest.text, sizeof(latest.text)),
            "hint": field_of(latest.hint, sizeof(latest.hint)),
        }

    def clear_stop(self):
        """Clears all fatal errors so far."""
        self.c.control().supervisor.stops_cleared.set(time.monotonic_ns())

    # -- the source

    @property
    def source_state(self):
        """The state of the reader's connection, such as "streaming"."""
        cdef CSourceStatus s = self.c.control().source.read()
        return field_of(s.state, sizeof(s.state))

    @source_state.setter
    def source_state(self, state):
        cdef CSourceStatus s = self.c.control().source.read()
        put_field(s.state, sizeof(s.state), state)
        self.c.control().source.publish(s)

    def set_source(self, host, file, uint64_t position, gtid_set, last_event, heard):
        """Stores the position of the stream, and when the last event was made and the last byte came, in Unix seconds.

        `last_event` is on the clock of the source, `heard` on that of this host.
        """
        cdef CSourceStatus s = self.c.control().source.read()
        put_field(s.host, sizeof(s.host), host)
        put_field(s.file, sizeof(s.file), file)
        put_field(s.gtid_set, sizeof(s.gtid_set), gtid_set)
        s.position = position
        s.last_event = <uint64_t>last_event
        s.heard = <uint64_t>(heard * 1e9)
        self.c.control().source.publish(s)

    def source(self):
        """The values of `set_source` as a dict; the GTID set is truncated after 4095 bytes."""
        cdef CSourceStatus s = self.c.control().source.read()
        return {
            "host": field_of(s.host, sizeof(s.host)),
            "file": field_of(s.file, sizeof(s.file)),
            "position": s.position,
            "gtid_set": field_of(s.gtid_set, sizeof(s.gtid_set)),
            "last_event": float(s.last_event),
            "heard": s.heard / 1e9,
        }

    def rows(self):
        """The numbers of rows read from the source, by kind."""
        cdef CCounters* n = &self.c.control().counters
        return {"insert": n.rows_insert, "update": n.rows_update, "delete": n.rows_delete}

    def events(self):
        """The numbers of events read from the source, by type, without zeros."""
        cdef CCounters* n = &self.c.control().counters
        return {EVENT_NAMES.get(i, f"Event #{i:02X}"): n.events[i] for i in range(256) if n.events[i]}

    def traffic(self):
        """The numbers of transactions and bytes read from the source, and of skipped events and tables."""
        cdef CCounters* n = &self.c.control().counters
        return {"transactions": n.transactions, "bytes": n.bytes, "skipped": n.skipped}

    def count_skipped(self):
        """Counts an event or a table that the reader skipped because it does not understand it."""
        cdef CCounters* n = &self.c.control().counters
        n.skipped += 1

    # -- clients

    def release_holds(self):
        """Clears all uses of client blocks by servers. No process that shared this memory may be alive."""
        self.c.release_holds()

    def client_slots(self):
        """The slots of all clients."""
        cdef size_t slot
        return [slot for slot in range(self.c.slots()) if self.c.id(slot).get()]

    def client_marks(self):
        """For each slot `CLIENT_MARK_BYTES` bytes, the first eight of them its client's id (0: none).

        As long as they are equal to the mark in `client_stats`, these facts have not changed.
        """
        cdef size_t slot, slots = self.c.slots()
        cdef CClientBlock* block
        cdef vector[ClientMark] marks
        marks.resize(slots)
        for slot in range(slots):
            if slot + PREFETCHED < slots:
                block = &self.c.client(slot + PREFETCHED)
                prefetch(&block.broker)
                prefetch(&block.server)
                prefetch(&block.address)
                prefetch(&block.line)
            block = &self.c.client(slot)
            marks[slot].id = self.c.id(slot).relaxed()
            marks[slot].broker = block.broker.version()
            marks[slot].server = block.server.version()
            marks[slot].address = block.address.version()
            marks[slot].polled = block.line.last_poll.relaxed()
            marks[slot].connected = block.line.connected.relaxed()
        return <bytes>(<char*>marks.data())[:slots * sizeof(ClientMark)]

    def client_id(self, size_t slot):
        self._check(slot)
        return self.c.id(slot).get()

    def client_stats(self, size_t slot):
        """The counts of one client at one instant: matched = confirmed + in_flight + waiting + all dropped.

        `served` counts rows each time they are sent; `max_waiting` is the longest queue so far. `address` is that of
        the connection, "" if there is none; `last_seen` is the time of the last poll, Unix seconds (0: none).
        `last_drop` has, by reason, the journal position near which rows were last dropped (0: never). `mark`: see
        `client_marks`.
        """
        while True:
            id = self.client_id(slot)
            facts = self._client_stats(slot, id)
            if self.client_id(slot) == id:  # else the facts may mix two clients that used the block in turn
                return {"client_id": id, **facts}

    cdef dict _client_stats(self, size_t slot, uint64_t id):
        cdef ClientMark mark
        cdef CClientView v = self.c.view(slot)
        cdef CFloorDrops d = CFloorDrops.between(v.server.taken(), v.broker)
        cdef CServerLine* line = &self.c.client(slot).line
        cdef CAddressRecord address = self.c.client(slot).address.read(&mark.address)
        mark.id = id
        mark.broker, mark.server = v.broker_version, v.server_version
        mark.polled = polled = line.last_poll.get()
        mark.connected = line.connected.get()
        connected = mark.connected != 0
        return {
            "mark": <bytes>(<char*>&mark)[:sizeof(ClientMark)],
            "name": text_of(self.c.name(slot)),
            "connected": connected,
            "address": field_of(address.text, sizeof(address.text)) if connected else "",
            "last_seen": time.time() - (time.monotonic_ns() - polled) / 1e9 if polled else 0.0,
            "served": v.server.served,
            "matched": v.broker.matched(),
            "confirmed": v.server.confirmed,
            "in_flight": v.in_flight(),
            "next": v.server.lo if v.in_flight() else v.head(),
            "waiting": v.waiting(),
            "waiting_limited": v.waiting_limited(),
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
        """The last ten replies with rows, oldest first: (Unix seconds, frame of the first row, kind, rows).

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
