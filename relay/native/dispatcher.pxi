# The broker's loop, as far as it needs no Python: frames are decided as they come, and servers are woken.

cdef enum:
    DISPATCHED_EVENTS = 80  # taken at a time: of all servers, and the wake-up


cdef class Dispatcher:
    """Has `broker` decide what is committed, and waits for more and for what is registered with an epoll descriptor.

    `wake` is the broker's eventfd, registered there by its edges: it is never read. `server_wakes` are the servers', by
    index. Raises OSError, and what `Broker.step` does.
    """

    cdef Broker broker
    cdef Arena arena
    cdef int epoll
    cdef int wake
    cdef vector[int] server_wakes
    cdef c_epoll_event events[DISPATCHED_EVENTS]

    def __cinit__(self, Broker broker not None, Arena arena not None, int epoll, int wake, server_wakes):
        self.broker = broker
        self.arena = arena
        self.epoll = epoll
        self.wake = wake
        self.server_wakes = server_wakes

    def run(self, double until, double patience, uint64_t step_bytes):
        """Decides about `step_bytes` of the journal at a time, nothing at 0, until the caller has to look.

        Returns the other descriptors that are ready; none, when the time of the monotonic clock has come and there is
        always more to decide, after `patience` seconds in which there was nothing, or when it was woken for nothing, a
        signal among that: for something that the caller knows.
        """
        cdef int n, reason
        cdef bint idle, woken, more
        cdef list ready = []
        while True:
            if step_bytes:
                self.decide(step_bytes)
            idle = not (step_bytes and self.must_go_on())
            with nogil:
                n = c_epoll_wait(self.epoll, self.events, DISPATCHED_EVENTS, <int>(patience * 1000) if idle else 0)
                reason = errno
            self.arena.broker_waiting = False
            if n < 0 and reason != EINTR:
                raise OSError(reason, os.strerror(reason))
            woken = False
            for i in range(n):
                if self.events[i].data.fd == self.wake:
                    woken = True
                else:
                    ready.append(self.events[i].data.fd)
            more = not idle or (step_bytes and woken and self.broker.pending())
            if ready or n < 0 or not more or time.monotonic() >= until:
                return ready

    cdef int decide(self, uint64_t step_bytes) except -1:
        cdef uint64_t wake = self.broker.c.get().step(step_bytes).wake
        for server in range(self.server_wakes.size()):
            if wake >> server & 1:
                c_eventfd_write(self.server_wakes[server], 1)
        return 0

    cdef bint must_go_on(self) except -1:
        """Whether there is more to decide; if not, whoever makes more wakes the broker from now on."""
        if self.arena.committed != self.arena.broker_scan:
            return True
        # Reader and servers look at the flag after they have made work; whoever comes second sees the other.
        self.arena.broker_waiting = True
        return self.broker.pending()
