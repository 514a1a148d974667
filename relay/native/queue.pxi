# The clients' queues: Broker, and ClientQueue, which tests look into queues with.

include "arena.pxi"

from libcpp.memory cimport unique_ptr

cdef extern from "broker.hpp" namespace "relay":
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
        CCheckpoint unpack(RawBytes packed) except +raise_queue_failure

    cdef cppclass CStep "relay::Broker::Step":
        uint64_t rows, wake, position

    cdef cppclass CExtent "relay::Broker::Extent":
        uint64_t offset, length

    cdef cppclass CBroker "relay::Broker":
        CBroker(const CArena& arena, CJournalFrames& frames, uint64_t generation) except +raise_queue_failure
        uint64_t position()
        size_t add_client(uint64_t id, string_view name) except +raise_queue_failure
        void remove_client(size_t slot) except +raise_queue_failure
        CExtent plan_ring(size_t slot, const vector[CFilter]& filters, uint64_t slots) except +raise_queue_failure
        void set_filters(size_t slot, vector[CFilter] filters) except +raise_queue_failure
        CStep step(uint64_t max_bytes) except +raise_queue_failure
        bint pending()
        uint64_t flush(size_t slot) except +raise_queue_failure
        void seek(size_t slot, uint64_t position) except +raise_queue_failure
        void cut(uint64_t position) except +raise_queue_failure
        uint64_t needed(size_t slot) except +raise_queue_failure
        const CSnapshot* snapshot(uint64_t flushed) except +raise_queue_failure
        void stored()
        uint64_t decided(size_t slot) except +raise_queue_failure
        uint64_t stored_needed()
        CExtent plan_restore(size_t slot, const CCheckpoint& checkpoint) except +raise_queue_failure
        void restore(size_t slot, const CCheckpoint& checkpoint, uint64_t position) except +raise_queue_failure
        bint refuse_unproven

cdef extern from "journal_frames.hpp" namespace "relay":
    cdef cppclass CJournalFrames "relay::JournalFrames":
        CJournalFrames(string directory) except +raise_queue_failure
        uint64_t generation() except +raise_queue_failure
        void release_before(uint64_t position) except +raise_queue_failure

cdef extern from "queue.hpp" namespace "relay":
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


cdef vector[CFilter] native_filters(filters) except *:
    cdef vector[CFilter] out
    cdef CFilter f
    for schema, table, kinds, discard, limit, since, until in filters:
        f.schema = schema.encode("utf-8", "surrogateescape")
        f.table = table.encode("utf-8", "surrogateescape")
        f.kinds, f.discard, f.limit, f.since, f.until = kinds, discard, limit, since, until
        out.push_back(f)
    return out


cdef class Broker:
    """Decides which committed rows go to which client; one, in the broker process. Raises QueueError and JournalError.

    A successor is given the same filters again (`set_filters`) and goes on. Clients of an arena that belongs to another
    generation of the journal, or whose first broker never took a step, are gone from the arena: their `restore` is due.
    """

    cdef unique_ptr[CJournalFrames] frames
    cdef unique_ptr[CBroker] c
    cdef Arena arena
    cdef object allocate

    def __init__(self, Arena arena, journal_dir, allocate):
        """`allocate(offset, size)` makes a part of the arena real before it is used, or raises."""
        self.arena = arena
        self.allocate = allocate
        self.frames.reset(new CJournalFrames(str(journal_dir).encode("utf-8", "surrogateescape")))
        self.c.reset(new CBroker(arena.c[0], self.frames.get()[0], self.frames.get().generation()))

    @property
    def refuse_unproven(self):
        """Whether `step` raises (schema_unproven) at rows that somebody asked for if their definition is not proven."""
        return self.c.get().refuse_unproven

    @refuse_unproven.setter
    def refuse_unproven(self, bint v):
        self.c.get().refuse_unproven = v

    def step(self, uint64_t max_bytes):
        """Decides committed frames, about `max_bytes` of the journal; the indexes of servers to be woken."""
        cdef uint64_t wake = self.c.get().step(max_bytes).wake
        return [i for i in range(64) if wake >> i & 1] if wake else []

    cpdef bint pending(self) except *:
        """Whether `step` has something to do; False is safe to sleep on once `broker_waiting` is set."""
        return self.c.get().pending()

    def add_client(self, uint64_t id, str name):
        """The slot of a new client with an empty queue."""
        cdef bytes n = name.encode("utf-8", "surrogateescape")
        return self.c.get().add_client(id, view(n))

    def remove_client(self, size_t slot):
        """The client is forgotten; its server has let go of it."""
        self.c.get().remove_client(slot)

    def set_filters(self, size_t slot, filters):
        """Replaces all filters of a client: (schema, table, kinds, discard, limit, since, until) each.

        A filter holds for frames with since <= position < until (2**64 - 1: open end). One that ended stays in the list
        while `until` is above `decided(slot)`. QueueError, and nothing changed, if there is no memory for a limit.
        """
        cdef vector[CFilter] native = native_filters(filters)
        self._allocate(self.c.get().plan_ring(slot, native, 0))
        self.c.get().set_filters(slot, native)

    cdef _allocate(self, CExtent extent):
        if extent.length:
            self.allocate(extent.offset, extent.length)

    def flush(self, size_t slot):
        """Drops all rows that wait; how many."""
        return self.c.get().flush(slot)

    def seek(self, size_t slot, uint64_t position):
        """Drops what waits and queues again what the client's filters match from a frame's position on."""
        self.c.get().seek(slot, position)

    def oldest(self, size_t slot):
        """The lowest frame of what is in flight, what waits, and what is not decided yet."""
        return self.c.get().needed(slot)

    def cut(self, uint64_t position):
        """Drops the rows that need frames before a position."""
        self.c.get().cut(position)

    def checkpoint(self):
        """(position, [(client id, packed), ...]) as of the last call at which the journal was flushed far enough, or None.

        All clients that changed since the last one that was `stored`. The others stand where they stood, and nothing is
        left to be decided for them before `position`. What was returned is returned again, or newer, until `stored`.
        """
        cdef const CSnapshot* found = self.c.get().snapshot(self.arena.flushed)
        if found == NULL:
            return None
        cdef size_t i
        return found.position, [(found.clients[i].id, <bytes>found.clients[i].packed) for i in range(found.clients.size())]

    def stored(self):
        """What `checkpoint` has just returned is on disk."""
        self.c.get().stored()

    def restore(self, size_t slot, bytes packed, uint64_t position):
        """Gives a client that was just added the queue of a checkpoint, after `set_filters`.

        `position` is that of the last checkpoint that was stored, of whichever clients.
        """
        if not packed:
            return
        cdef CCheckpoint checkpoint = CCheckpoint.unpack(raw(packed))
        self._allocate(self.c.get().plan_restore(slot, checkpoint))
        self.c.get().restore(slot, checkpoint, position)

    def decided(self, size_t slot):
        """Frames below this position will not be matched again for the client, not even after a cold start."""
        return self.c.get().decided(slot)

    def needed(self):
        """The lowest journal position that anybody needs, also after a cold start; unmaps what is below."""
        cdef uint64_t lowest = self.c.get().stored_needed()
        if not lowest:
            return self.arena.needed
        self.frames.get().release_before(lowest)
        return lowest


cdef class ClientQueue:
    """The server's side of one client's queue; rows have sequences from 1 on. Belongs to one process."""

    cdef unique_ptr[CQueueServer] c

    def __init__(self, Arena arena, size_t slot):
        arena._check(slot)
        self.c.reset(new CQueueServer(arena.c[0], slot))

    cdef _ranges(self, CRange* ranges, size_t n):
        return [(ranges[i].frame, ranges[i].first, ranges[i].rows) for i in range(n)]

    def peek(self, uint64_t max_rows=2**63):
        """(sequence of the first row that waits, [(frame, first row, rows), ...]); changes nothing."""
        cdef vector[CRange] ranges = vector[CRange](4096)
        cdef CPeek p = self.c.get().peek(ranges.data(), ranges.size(), max_rows)
        return p.number + 1, self._ranges(ranges.data(), p.ranges)

    def take(self, uint64_t max_rows, bint at_most_once=False):
        """Takes rows in flight; as `peek`."""
        cdef vector[CRange] ranges = vector[CRange](IN_FLIGHT_RANGES)
        cdef CPeek p = self.c.get().peek(ranges.data(), ranges.size(), max_rows)
        if p.rows:
            self.c.get().publish(p, ranges.data(), p.ranges, p.rows, at_most_once)
        return p.number + 1, self._ranges(ranges.data(), p.ranges)

    def skip(self):
        """Counts the first row that waits as undecodable."""
        cdef CRange first
        cdef CPeek p = self.c.get().peek(&first, 1, 1)
        self.c.get().skip(p, first.frame)

    def in_flight(self):
        """As `peek`, of what is in flight."""
        cdef vector[CRange] ranges = vector[CRange](IN_FLIGHT_RANGES)
        cdef size_t n = 0
        cdef uint64_t number = self.c.get().in_flight(ranges.data(), &n)
        return number + 1, self._ranges(ranges.data(), n)

    def confirm(self, uint64_t through):
        """Confirms what is in flight up to a sequence; how many rows that were."""
        return self.c.get().confirm(through)

    def forfeit(self, uint64_t through):
        """Counts what is in flight up to a sequence as cut off by retention."""
        return self.c.get().forfeit(through)

    def wait(self):
        """Asks to be woken; True if rows have come already."""
        return self.c.get().wait()

    def stop_waiting(self):
        """Takes that back."""
        self.c.get().stop_waiting()

    def broker_must_wake(self):
        """Whether the broker sleeps although this ring has room for rows that are due."""
        return self.c.get().broker_must_wake()
