# The reader's loop, as far as it needs no Python: from the source's socket into the journal, and the broker is woken.

from posix.time cimport nanosleep, timespec

cdef enum:
    RECEIVED_BYTES = 1 << 20  # room for this many at least
    MUCH = 64 << 10  # of a receive that is no wake-up for a trifle: a source that sends as much is not held up

cdef uint64_t FAR = 0xffffffff  # positions beyond are none that COM_BINLOG_DUMP can ask for


cdef class Intake:
    """Receives one stream and has `ingest` work through it, until somebody has to look.

    `fd` is a blocking socket that receives with a time limit (SO_RCVTIMEO). Below 0, `receive(buffer)` is asked instead,
    which gives the number of bytes that it has put there, 0 if none came in time. `broker_wake` is the broker's eventfd.
    """

    cdef Ingest ingest
    cdef Arena arena
    cdef int fd
    cdef object receive
    cdef int broker_wake
    cdef uint64_t told  # how far the journal was committed when the broker was told last
    cdef readonly double heard
    """When something came last, or this began; monotonic seconds."""

    def __cinit__(self, Ingest ingest not None, Arena arena not None, int fd, receive, int broker_wake):
        self.ingest = ingest
        self.arena = arena
        self.fd = fd
        self.receive = receive
        self.broker_wake = broker_wake
        self.heard = time.monotonic()

    @property
    def transactions(self):
        """That the arena has counted so far."""
        return self.arena.c.control().counters.transactions

    def run(self, double until, double pause, once):
        """Takes what comes, after each receive of little a pause of so many seconds.

        Returns an Attention, which the caller answers; or None, when the time of the monotonic clock has come and
        something with it, when nothing came for as long as a receive waits, a drain or a pause is asked for, the file is
        longer than 4 GiB, or, with `once`, after one receive. Signals end it, too. Raises OSError for a connection that
        failed or was closed, else as `Ingest.step` does.
        """
        cdef Py_ssize_t n = 0
        while True:
            attention = self.ingest.step()
            self.tell_broker()
            if attention is not None:
                return attention
            if n and (once or self.heard >= until or self.must_end()):
                return None
            if 0 < n < MUCH and not pass_time(pause):
                return None
            n = self.take()
            if n == 0:
                return None
            self.ingest.c.received(<size_t>n)
            self.heard = time.monotonic()

    cdef bint must_end(self):
        words = &self.arena.c.control().supervisor
        return words.draining.get() != 0 or words.paused.get() != 0 or self.ingest.c.position() > FAR

    cdef Py_ssize_t take(self) except -1:
        """Bytes received, 0 if none came in time or a signal did."""
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

    cdef void tell_broker(self):
        """Wake the broker, if it sleeps and there is more for it."""
        cdef uint64_t committed = self.ingest.writer.c.committed()
        if committed == self.told:
            return
        self.told = committed
        if self.arena.broker_waiting:
            c_eventfd_write(self.broker_wake, 1)


cdef bint pass_time(double seconds):
    """Sleep; false if a signal ended it."""
    cdef timespec span
    cdef int failed
    if seconds <= 0:
        return True
    span.tv_sec = <time_t>seconds
    span.tv_nsec = <long>((seconds - <double>span.tv_sec) * 1e9)
    with nogil:
        failed = nanosleep(&span, NULL)
    return not failed
