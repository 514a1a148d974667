"""The part of the reader's loop that needs no Python: receives from the source, fills the journal, wakes the broker."""

import os
import time

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint64_t

from relay._native.arena cimport Arena
from relay._native.ingest cimport CRoom, Ingest
from relay._native.system cimport c_eventfd_write, c_recv

cdef enum:
    RECEIVED_BYTES = 1 << 20  # least space for a receive

cdef double PAUSE = 0.001
"""Seconds without bytes after which broker and servers are woken ahead: code and data are in no cache by then."""

cdef uint64_t MAX_DUMP_POSITION = 0xffffffff  # COM_BINLOG_DUMP has 32 bits for a position


cdef class Intake:
    """Receives one stream and passes it to `ingest`, until the caller must act.

    `fd` is a blocking socket with a receive time limit (SO_RCVTIMEO). If it is negative, `receive(buffer)` is called
    instead; it returns the number of bytes that it put there, 0 if none came in time. `broker_wake` is the broker's
    eventfd. `ahead` is one that wakes broker and servers: this writes it when bytes come after a pause, so that these
    processes wake up while it processes the bytes, and not after each other.
    """

    cdef Ingest ingest
    cdef Arena arena
    cdef int fd
    cdef object receive
    cdef int broker_wake, ahead
    cdef uint64_t reported  # committed position at the last wake-up of the broker
    cdef readonly double heard
    """When the last bytes came, or when this object was made; monotonic seconds."""

    def __cinit__(self, Ingest ingest not None, Arena arena not None, int fd, receive, int broker_wake, int ahead):
        self.ingest = ingest
        self.arena = arena
        self.fd = fd
        self.receive = receive
        self.broker_wake = broker_wake
        self.ahead = ahead
        self.heard = time.monotonic()

    def run(self, double until, once, wait=True):
        """Receives and processes the stream. Without `wait` it processes what has come.

        Returns an Attention that needs a reply, or None: after a receive at or after `until` (monotonic clock), after a
        receive without bytes in its time limit, when a drain or a pause is requested, when the position in the file is
        beyond 4 GiB, after a signal, and, with `once`, after one receive. Raises OSError if the connection failed or
        was closed, and the errors of `Ingest.step`.
        """
        cdef Py_ssize_t n = 0
        cdef double heard
        while True:
            attention = self.ingest.step()
            self.wake_broker()
            if attention is not None:
                return attention
            if not wait or n and (once or self.heard >= until or self.must_end()):
                return None
            n = self.take()
            if n == 0:
                return None
            heard = time.monotonic()
            if heard - self.heard > PAUSE:
                c_eventfd_write(self.ahead, 1)
            self.heard = heard
            self.ingest.c.received(<size_t>n)

    cdef bint must_end(self):
        words = &self.arena.c.control().supervisor
        return words.draining.get() != 0 or words.paused.get() != 0 or self.ingest.c.position() > MAX_DUMP_POSITION

    cdef Py_ssize_t take(self) except -1:
        """Receives; returns the number of bytes, 0 after the time limit or a signal."""
        cdef CRoom room
        cdef Py_ssize_t n
        cdef int reason
        if self.fd < 0:
            return self.receive(self.ingest.buffer(RECEIVED_BYTES))
        room = self.ingest.c.room(RECEIVED_BYTES)
        with nogil:
            n = c_recv(self.fd, room.data, room.size, 0)
            reason = errno
        if n == 0:
            raise ConnectionError("the source closed the connection")
        if n < 0 and reason not in (EAGAIN, EINTR):
            raise OSError(reason, os.strerror(reason))
        return max(n, 0)

    cdef void wake_broker(self):
        """Wakes the broker if it sleeps and `committed` has moved."""
        cdef uint64_t committed = self.ingest.writer.c.committed()
        if committed == self.reported:
            return
        self.reported = committed
        if self.arena.broker_waiting:
            c_eventfd_write(self.broker_wake, 1)
