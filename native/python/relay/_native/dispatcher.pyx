"""The part of the broker's loop that needs no Python: decides committed frames and wakes servers."""

import os
import time

from libc.errno cimport EINTR, errno
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

from relay._native.arena cimport Arena
from relay._native.queue cimport Broker
from relay._native.system cimport c_epoll_event, c_epoll_wait, c_eventfd_write

cdef enum:
    DISPATCHED_EVENTS = 80  # events of one epoll_wait: those of all servers, and the wake-up


cdef class Dispatcher:
    """Runs `broker` over committed frames, and waits for more frames and for the descriptors of an epoll set.

    `wake` is the broker's eventfd, and `ahead` one that wakes it before there is work. Both are registered
    edge-triggered and never read. `server_wakes` are the eventfds of the servers, by index. Raises OSError, and the
    errors of `Broker.step`.
    """

    cdef Broker broker
    cdef Arena arena
    cdef int epoll
    cdef int wake, ahead
    cdef vector[int] server_wakes
    cdef c_epoll_event events[DISPATCHED_EVENTS]

    def __cinit__(self, Broker broker not None, Arena arena not None, int epoll, int wake, int ahead, server_wakes):
        self.broker = broker
        self.arena = arena
        self.epoll = epoll
        self.wake = wake
        self.ahead = ahead
        self.server_wakes = server_wakes

    def run(self, double until, double patience, uint64_t step_bytes):
        """Decides about `step_bytes` of the journal at a time (0: nothing), until the caller must act.

        Returns the other descriptors that are ready. The list is empty at `until` (monotonic clock) if there is still
        more to decide, after `patience` seconds without work, after a signal, and after a wake-up without committed
        frames, which is for the caller. Whatever ends it, the frames that were committed by then are decided first, up
        to `step_bytes`: no row waits for what the caller does next.
        """
        cdef int n, reason
        cdef bint idle, woken, more, early
        cdef list ready = []
        while True:
            idle = not (step_bytes and self.has_work())
            with nogil:
                n = c_epoll_wait(self.epoll, self.events, DISPATCHED_EVENTS, <int>(patience * 1000) if idle else 0)
                reason = errno
            self.arena.broker_waiting = False
            if n < 0 and reason != EINTR:
                raise OSError(reason, os.strerror(reason))
            woken = early = False
            for i in range(n):
                if self.events[i].data.fd == self.wake:
                    woken = True
                elif self.events[i].data.fd == self.ahead:
                    early = n == 1
                else:
                    ready.append(self.events[i].data.fd)
            more = early or not idle or (step_bytes and woken and self.broker.pending())
            if step_bytes:
                self.decide(step_bytes)
            if ready or n < 0 or not more or time.monotonic() >= until:
                return ready

    cdef int decide(self, uint64_t step_bytes) except -1:
        cdef uint64_t wake = self.broker.c.get().step(step_bytes).wake
        for server in range(self.server_wakes.size()):
            if wake >> server & 1:
                c_eventfd_write(self.server_wakes[server], 1)
        return 0

    cdef bint has_work(self) except -1:
        """Whether there is more to decide. If not, the processes that add work wake the broker from now on."""
        if self.arena.committed != self.arena.broker_scan:
            return True
        # Reader and servers read the flag after they have added work. The later side sees the store of the other.
        self.arena.broker_waiting = True
        return self.broker.pending()
