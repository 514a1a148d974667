"""The clients' queues: Broker, its Dispatcher, and ClientQueue, with which tests read queues."""

import os

from libc.errno cimport EINTR, errno
from libc.stdint cimport uint32_t, uint64_t
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from relay._native.arena cimport IN_FLIGHT_RANGES, Arena, CArena, CRange
from relay._native.base cimport encoded, raise_queue_failure, raw, text_of, view
from relay._native.system cimport c_epoll_event, c_epoll_wait, c_eventfd_write, monotonic

cdef extern from "queue/queue.hpp" namespace "relay":
    cdef cppclass CPeek "relay::Peek":
        uint64_t number, rows
        size_t ranges
        uint64_t waiting()

    cdef cppclass CQueueServer "relay::QueueServer":
        CQueueServer(const CArena& arena, size_t slot)
        CPeek peek(CRange* out, size_t max_ranges, uint64_t max_rows) except +raise_queue_failure
        void publish(const CPeek& peek, const CRange* ranges, size_t count, uint64_t rows,
                     bint at_most_once) except +raise_queue_failure
        void skip(const CPeek& peek, uint64_t frame) except +raise_queue_failure
        uint64_t confirm(uint64_t through)
        uint64_t forfeit(uint64_t through)
        uint64_t in_flight(CRange* out, size_t* count)
        bint wait() except +raise_queue_failure
        void stop_waiting()
        bint broker_must_wake()

cdef enum:
    DISPATCHED_EVENTS = 80  # events of one epoll_wait: those of all servers, and the wake-up
    PAUSE_MILLISECONDS = 1  # without work: long enough for the last row to leave the relay


cdef vector[CFilter] native_filters(filters) except *:
    cdef vector[CFilter] out
    cdef CFilter f
    for schema, table, kinds, discard, limit, since, until in filters:
        f.schema = encoded(schema)
        f.table = encoded(table)
        f.kinds, f.discard, f.limit, f.since, f.until = kinds, discard, limit, since, until
        out.push_back(f)
    return out


cdef class Broker:
    """Decides which committed rows go to which client; one object, in the broker process.

    Raises QueueError and JournalError. A successor continues after `set_filters` with the same filters. The constructor
    removes the clients of an arena that belongs to another generation of the journal; they must be added again, each
    with its checkpoint.
    """

    def __init__(self, Arena arena, journal_dir, allocate):
        """`allocate(offset, size)` allocates the memory of a part of the arena before its use, or raises."""
        self.arena = arena
        self.allocate = allocate
        self.frames.reset(new CJournalFrames(encoded(str(journal_dir))))
        self.c.reset(new CBroker(arena.c[0], self.frames.get()[0], self.frames.get().generation()))

    @property
    def refuse_unproven(self):
        """Whether `step` raises (schema_unproven) at rows that a filter matches and whose definition is unproven."""
        return self.c.get().refuse_unproven

    @refuse_unproven.setter
    def refuse_unproven(self, bint v):
        self.c.get().refuse_unproven = v

    def step(self, uint64_t max_bytes):
        """Decides committed frames, about `max_bytes` of the journal; returns the indexes of the servers to wake."""
        cdef uint64_t wake = self.c.get().step(max_bytes).wake
        return [i for i in range(64) if wake >> i & 1] if wake else []

    def pending(self):
        """Whether `step` has work. If it is False after `broker_waiting` was set, the broker may sleep."""
        return self.c.get().pending()

    def add_client(self, uint64_t id, str name, filters=(), bytes checkpoint=b"", uint64_t position=0):
        """Adds a client and returns its slot. Servers see it only with its filters and the queue of the checkpoint.

        `position` is that of the last stored checkpoint, of any clients. Raises QueueError and adds nothing if there is
        no block or no memory.
        """
        cdef bytes n = encoded(name)
        cdef size_t slot = self.c.get().add_client(id, view(n))
        try:
            self.set_filters(slot, filters)
            if checkpoint:
                self._restore(slot, checkpoint, position)
            self.c.get().admit(slot)
        except BaseException:
            self.c.get().remove_client(slot)
            raise
        return slot

    cdef _restore(self, size_t slot, bytes packed, uint64_t position):
        cdef CCheckpoint checkpoint = CCheckpoint.unpack(raw(packed))
        self.c.get().bring_up_to_date(slot, position, &checkpoint)
        self._allocate(self.c.get().plan_restore(slot, checkpoint))
        self.c.get().restore(slot, checkpoint)

    def flaw(self, bytes checkpoint, uint64_t position=0):
        """Why a checkpoint cannot be one of a client of this journal; "" if it can. `position`: see `add_client`."""
        return text_of(self.c.get().flaw(raw(checkpoint), position))

    def remove_client(self, size_t slot):
        """Removes the client. Its block becomes free when its server has released it."""
        self.c.get().remove_client(slot)

    def set_filters(self, size_t slot, filters):
        """Replaces all filters of a client: (schema, table, kinds, discard, limit, since, until) each.

        A filter holds for frames with since <= position < until (2**64 - 1: open end). An ended filter must stay in the
        list while `until` is above `decided(slot)`. Raises QueueError and changes nothing if there is no memory for a
        limit.
        """
        cdef vector[CFilter] native = native_filters(filters)
        self._allocate(self.c.get().plan_list(slot, native, 0))
        self.c.get().set_filters(slot, native)

    cdef _allocate(self, CExtent extent):
        if extent.length:
            self.allocate(extent.offset, extent.length)

    def flush(self, size_t slot):
        """Drops all waiting rows and returns their number."""
        return self.c.get().flush(slot)

    def seek(self, size_t slot, uint64_t position):
        """Drops the waiting rows and queues again what the client's filters match from a frame's position on."""
        self.c.get().seek(slot, position)

    def oldest(self, size_t slot):
        """The lowest frame of the client's rows: in flight, waiting, or not decided yet."""
        return self.c.get().needed(slot)

    def cut(self, uint64_t position):
        """Drops all rows in frames before a position."""
        self.c.get().cut(position)

    def checkpoint(self):
        """Returns (position, [(client id, packed), ...]) as of the last call that found enough flushed, or None.

        None also means that nothing has changed since the last checkpoint that was `stored`. A checkpoint contains all
        clients that changed since then. The others are unchanged, and everything before `position` is decided for them.
        Until `stored`, returns the same or a newer checkpoint.
        """
        cdef const CSnapshot* found = self.c.get().snapshot(self.arena.flushed)
        if found == NULL:
            return None
        cdef size_t i
        return found.position, [
            (found.clients[i].id, <bytes>found.clients[i].packed) for i in range(found.clients.size())
        ]

    def stored(self):
        """Records that the last result of `checkpoint` is on disk."""
        self.c.get().stored()

    def decided(self, size_t slot):
        """The position below which frames are not matched again for the client, not even after a cold start."""
        return self.c.get().decided(slot)

    def needed(self):
        """The lowest journal position that a client needs, also after a cold start. Unmaps the segments below it."""
        cdef uint64_t lowest = self.c.get().stored_needed()
        if not lowest:
            return self.arena.needed
        self.frames.get().release_before(lowest)
        return lowest


cdef class ClientQueue:
    """The server's side of one client's queue. Belongs to one process. Sequences of rows begin at 1."""

    cdef unique_ptr[CQueueServer] c

    def __init__(self, Arena arena, size_t slot):
        arena._check(slot)
        self.c.reset(new CQueueServer(arena.c[0], slot))

    cdef _ranges(self, CRange* ranges, size_t n):
        return [(ranges[i].frame, ranges[i].first, ranges[i].rows) for i in range(n)]

    def peek(self, uint64_t max_rows=2**63):
        """Returns (sequence of the first waiting row, [(frame, first row, rows), ...]); changes nothing."""
        cdef vector[CRange] ranges = vector[CRange](4096)
        cdef CPeek p = self.c.get().peek(ranges.data(), ranges.size(), max_rows)
        return p.number + 1, self._ranges(ranges.data(), p.ranges)

    def take(self, uint64_t max_rows, bint at_most_once=False):
        """Takes rows in flight and returns them in the form of `peek`."""
        cdef vector[CRange] ranges = vector[CRange](IN_FLIGHT_RANGES)
        cdef CPeek p = self.c.get().peek(ranges.data(), ranges.size(), max_rows)
        if p.rows:
            self.c.get().publish(p, ranges.data(), p.ranges, p.rows, at_most_once)
        return p.number + 1, self._ranges(ranges.data(), p.ranges)

    def skip(self):
        """Skips the first waiting row and counts it as undecodable."""
        cdef CRange first
        cdef CPeek p = self.c.get().peek(&first, 1, 1)
        self.c.get().skip(p, first.frame)

    def in_flight(self):
        """Returns the rows in flight, in the form of `peek`."""
        cdef vector[CRange] ranges = vector[CRange](IN_FLIGHT_RANGES)
        cdef size_t n = 0
        cdef uint64_t number = self.c.get().in_flight(ranges.data(), &n)
        return number + 1, self._ranges(ranges.data(), n)

    def confirm(self, uint64_t through):
        """Confirms the rows in flight up to a sequence and returns their number."""
        return self.c.get().confirm(through)

    def forfeit(self, uint64_t through):
        """Drops the rows in flight up to a sequence, counted as dropped by retention."""
        return self.c.get().forfeit(through)

    def wait(self):
        """Requests a wake-up; True if there are rows already."""
        return self.c.get().wait()

    def stop_waiting(self):
        """Cancels the request for a wake-up."""
        self.c.get().stop_waiting()

    def broker_must_wake(self):
        """Whether the broker sleeps although the ring has free slots for rows that are not in a slot yet."""
        return self.c.get().broker_must_wake()


cdef class Dispatcher:
    """Runs `broker` over committed frames, and waits for more frames and for the descriptors of an epoll set.

    `wake` is the broker's eventfd, and `ahead` one that wakes it before there is work. Both are registered
    edge-triggered and never read. After a wake-up by `ahead` this object writes `servers_ahead`, which wakes all
    servers: the reader has a row to process meanwhile, and wakes only the broker. `server_wakes` are the eventfds of
    the servers, by index. Raises OSError, and the errors of `Broker.step`.
    """

    cdef Broker broker
    cdef Arena arena
    cdef int epoll
    cdef int wake, ahead, servers_ahead
    cdef vector[int] server_wakes
    cdef c_epoll_event events[DISPATCHED_EVENTS]

    def __cinit__(self, Broker broker not None, Arena arena not None, int epoll, int wake, int ahead, int servers_ahead,
                  server_wakes):
        self.broker = broker
        self.arena = arena
        self.epoll = epoll
        self.wake = wake
        self.ahead = ahead
        self.servers_ahead = servers_ahead
        self.server_wakes = server_wakes

    def run(self, double due, double latest, double patience, uint64_t step_bytes):
        """Decides about `step_bytes` of the journal at a time (0: nothing), until the caller must act.

        Returns the other descriptors that are ready. The list is empty from `due` on (monotonic clock) after
        a millisecond without work, at `latest` if there is still more to decide, after `patience` seconds without work,
        after a signal, and after a wake-up without committed frames, which is for the caller. Whatever ends it, the
        frames that were committed by then are decided first, up to `step_bytes`: no row waits for what the caller does
        next.
        """
        cdef int n, reason, fd, milliseconds
        cdef bint idle, woken, more, early
        cdef list ready = []
        broker, words = self.broker.c.get(), &self.arena.c.control().broker
        while True:
            idle = not (step_bytes and self.has_work())
            milliseconds = 0 if not idle else PAUSE_MILLISECONDS if monotonic() >= due else <int>(patience * 1000)
            woken = early = False
            with nogil:  # until the servers are woken: the interpreter's code would have to come into the caches first
                n = c_epoll_wait(self.epoll, self.events, DISPATCHED_EVENTS, milliseconds)
                reason = errno
                words.waiting.set(False)
                for i in range(n):
                    fd = self.events[i].data.fd
                    woken = woken or fd == self.wake
                    early = early or n == 1 and fd == self.ahead
                if early:
                    c_eventfd_write(self.servers_ahead, 1)
                more = early or not idle or (step_bytes and woken and broker.pending())
                if step_bytes and (n >= 0 or reason == EINTR):
                    self.wake_servers(broker.step(step_bytes).wake)
            if n < 0 and reason != EINTR:
                raise OSError(reason, os.strerror(reason))
            for i in range(n):
                fd = self.events[i].data.fd
                if fd != self.wake and fd != self.ahead:
                    ready.append(fd)
            if ready or n < 0 or not more or monotonic() >= latest:
                return ready

    cdef void wake_servers(self, uint64_t which) noexcept nogil:
        cdef size_t server
        for server in range(self.server_wakes.size()):
            if which >> server & 1:
                c_eventfd_write(self.server_wakes[server], 1)

    cdef bint has_work(self) except -1:
        """Whether there is more to decide. If not, the processes that add work wake the broker from now on."""
        words = &self.arena.c.control()
        if words.reader.committed.get() != words.broker.scan.get():
            return True
        # Reader and servers read the flag after they have added work. The later side sees the store of the other.
        words.broker.waiting.set(True)
        return self.broker.c.get().pending()
