"""The part of the reader's loop that needs no Python: receives from the source, fills the journal, wakes the broker."""

import os

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint64_t
from libcpp cimport bool as cbool

from relay._native.arena cimport Arena, CArena
from relay._native.ingest cimport CAttention, CRoom, Ingest
from relay._native.system cimport POLLIN, c_eventfd_write, c_poll, c_pollfd, c_recv, monotonic

from relay.base.errors import RelayError

cdef enum:
    RECEIVED_BYTES = 1 << 20  # least space for a receive

cdef uint64_t MAX_DUMP_POSITION = 0xffffffff  # COM_BINLOG_DUMP has 32 bits for a position


cdef class Intake:
    """Receives one stream and passes it to `ingest`, until the caller must act.

    `fd` is a blocking socket with a receive time limit (SO_RCVTIMEO). If it is negative, `receive(buffer)` is called
    instead; it returns the number of bytes that it put there, 0 if none came in time. `broker_wake` is the broker's
    eventfd. `ahead` is its second one, which this object writes when bytes come after `pause` seconds: broker and
    servers then wake up while this object processes the bytes, and not after each other. After a pause their code and
    data are in no cache.
    """

    cdef Ingest ingest
    cdef Arena arena
    cdef int fd
    cdef object receive
    cdef int broker_wake, ahead
    cdef double pause
    cdef uint64_t reported  # committed position at the last wake-up of the broker
    cdef double quiet_since  # `heard` when `run` last returned because no bytes came
    cdef readonly double heard
    """When the last bytes came, or when this object was made; monotonic seconds."""

    def __cinit__(self, Ingest ingest not None, Arena arena not None, int fd, receive, int broker_wake, int ahead, *,
                  double pause=0.001):
        self.ingest = ingest
        self.arena = arena
        self.fd = fd
        self.receive = receive
        self.broker_wake = broker_wake
        self.ahead = ahead
        self.pause = pause
        self.heard = monotonic()

    def run(self, double due, double latest, once, wait=True, double quiet_until=0):
        """Receives and processes the stream. Without `wait` it processes what has come.

        Returns an Attention that needs a reply, or None: from `due` on (monotonic clock) after a receive that no other
        bytes follow within `pause`, from `latest` on after any receive, after a receive without bytes in its time limit
        (at or after `quiet_until`, if it has returned so since the last bytes), when a drain or a pause is requested,
        when the position in the file is beyond 4 GiB, after a signal, and, with `once`, after one receive. Raises
        OSError if the connection failed or was closed, and the errors of `Ingest.step`.
        """
        cdef Py_ssize_t n = 0
        attention = self.process(False, &n)
        while attention is None and wait:
            attention = self.process(True, &n)
            if attention is not None or once or n < 0 or self.must_end():
                break
            if n > 0 and self.heard >= due and (self.heard >= latest or not self.more_comes()):
                break
            if n == 0 and (self.quiet_since != self.heard or self.fd < 0 or monotonic() >= quiet_until):
                self.quiet_since = self.heard
                break
        return attention

    cdef bint must_end(self):
        words = &self.arena.c.control().supervisor
        return words.draining.get() != 0 or words.paused.get() != 0 or self.ingest.c.position() > MAX_DUMP_POSITION

    cdef bint more_comes(self):
        """Whether bytes come within `pause`. Until then the other processes have the cores for the last row."""
        cdef c_pollfd source
        cdef int n = 0
        if self.fd >= 0:
            source.fd = self.fd
            source.events = POLLIN
            with nogil:
                n = c_poll(&source, 1, <int>(self.pause * 1000))
        return n > 0

    cdef object process(self, bint receive, Py_ssize_t* received):
        """Receives if asked, and processes what has come. `received`: the bytes, 0 after the time limit, -1 after a
        signal.

        From the receive to the broker's wake-up this runs without the interpreter, whose code would have to be fetched
        into the caches first.
        """
        cdef CRoom room
        cdef CAttention asked
        cdef cbool asks = False
        cdef Py_ssize_t n = 0
        cdef int reason = 0
        cdef bint by_socket = receive and self.fd >= 0
        ingest, writer, arena = self.ingest.c, self.ingest.writer.c, self.arena.c
        if by_socket:
            room = ingest.room(RECEIVED_BYTES)
        elif receive:
            n = self.receive(self.ingest.buffer(RECEIVED_BYTES))
        received[0] = 0
        self.ingest.inflating = None
        try:
            with nogil:
                if by_socket:
                    n = c_recv(self.fd, room.data, room.size, 0)
                    reason = errno
                if n > 0:
                    self.came()
                    ingest.received(<size_t>n)
                if n > 0 or not receive:
                    asks = ingest.step(&asked)
                    self.wake_broker(writer.committed(), arena)
        except RelayError as error:
            raise self.ingest.explained(error)
        if by_socket and n == 0:
            raise ConnectionError("the source closed the connection")
        if n < 0 and reason not in (EAGAIN, EINTR):
            raise OSError(reason, os.strerror(reason))
        received[0] = max(n, -1 if reason == EINTR else 0)
        return self.ingest.attention(asked) if asks else None

    cdef void came(self) noexcept nogil:
        """Notes that bytes have come, and wakes the broker ahead after a pause."""
        cdef double heard = monotonic()
        if heard - self.heard > self.pause:
            c_eventfd_write(self.ahead, 1)
        self.heard = heard

    cdef void wake_broker(self, uint64_t committed, CArena* arena) noexcept nogil:
        """Wakes the broker if it sleeps and `committed` has moved."""
        if committed == self.reported:
            return
        self.reported = committed
        if arena.broker_sleeps():
            c_eventfd_write(self.broker_wake, 1)
