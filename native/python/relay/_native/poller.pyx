"""The part of the servers' event loop that needs no Python: serves the sessions whose requests are polls."""

from cpython.ref cimport PyObject
from libc.errno cimport EINTR, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.time cimport time_t
from libcpp.vector cimport vector
from posix.time cimport CLOCK_MONOTONIC, itimerspec
from posix.unistd cimport close as c_close

from relay._native.serve cimport ServeWaitsFor, ServeWatch, Session
from relay._native.system cimport (
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLLET, EPOLLIN, c_epoll_ctl, c_epoll_event, c_epoll_wait, monotonic,
)

from relay.base.errors import RelayError

cdef extern from "<sys/timerfd.h>" nogil:
    enum: TFD_CLOEXEC, TFD_NONBLOCK, TFD_TIMER_ABSTIME
    int c_timerfd_create "timerfd_create"(int, int)
    int c_timerfd_settime "timerfd_settime"(int, int, const itimerspec*, itimerspec*)

cdef extern from "serve/row_waits.hpp" nogil:
    cdef cppclass RowWaits "relay::RowWaits":
        void begin(int fd, uint64_t wait, double until, const ServeWatch& watch) except +
        void end(int fd)
        void forget(int fd)
        size_t size()
        int next(size_t* place)
        double first()
        int pop(double now) except +

cdef enum:
    POLLED_EVENTS = 256  # events of one epoll_wait; the next call returns the others first


cdef class Poller:
    """Waits for the descriptors of an epoll set, and calls `exchange` of sessions whose sockets are ready.

    `wake` is the server's eventfd: the broker writes it when sessions that wait for rows may have got some. `ahead`
    is written before the rows are there, and is in the set while sessions wait. Both are registered edge-triggered and
    never read. The time limit is a timer in the epoll set, because a timeout of epoll_wait would set up a timer for
    each call. Raises OSError.
    """

    cdef int epoll
    cdef int wake, ahead
    cdef bint is_ahead_listed
    cdef int timer
    cdef double due  # time of the timer; negative: not set
    cdef dict attached  # sessions by descriptor
    cdef vector[PyObject*] sessions  # the same, for fast access
    cdef RowWaits waits  # of the sessions that wait for rows
    cdef c_epoll_event events[POLLED_EVENTS]

    def __cinit__(self, int epoll, int wake, int ahead):
        cdef c_epoll_event event
        self.epoll = epoll
        self.wake = wake
        self.ahead = ahead
        self.due = -1
        self.attached = {}
        self.timer = c_timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)
        event.events = <uint32_t>EPOLLIN | <uint32_t>EPOLLET  # reported once, and never read
        event.data.fd = self.timer
        if self.timer < 0 or c_epoll_ctl(epoll, EPOLL_CTL_ADD, self.timer, &event) < 0:
            raise OSError(errno, "timerfd")
        event.data.fd = wake
        if c_epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event) < 0:
            raise OSError(errno, "eventfd")

    def __dealloc__(self):
        if self.timer >= 0:
            c_close(self.timer)

    def attach(self, int fd, Session session not None):
        """Serves the session from now on whenever its socket `fd` is ready."""
        if <size_t>fd >= self.sessions.size():
            self.sessions.resize(<size_t>fd + 1, NULL)
        self.attached[fd] = session
        self.sessions[fd] = <PyObject*>session

    def detach(self, int fd):
        """Stops serving the session of that socket."""
        self.sessions[fd] = NULL
        self.waits.forget(fd)
        del self.attached[fd]

    def expect_rows(self, int fd):
        """Answers the request of that socket's session, which waits for rows: with rows, or when its time is over.

        The poller knows of requests that it has received itself.
        """
        self.expect(fd, <Session>self.sessions[fd])

    def wait(self, double until):
        """Waits for something that the caller must handle, at most until `until` (monotonic clock).

        Returns a list of (descriptor, epoll events, session, error). The session has exchanged data or got rows, and
        needs the caller; or it raised the error. The session is None for other descriptors. The wake-up is among them
        if it brought rows to nobody: it is for the caller. A signal also ends the wait.
        """
        cdef int n, reason, fd
        cdef bint over = False, woken
        cdef double earliest
        cdef Session session
        cdef list ready = []
        while not (ready or over):
            earliest = min(until, self.waits.first())
            if earliest != self.due:
                self.arm(earliest)
            with nogil:
                n = c_epoll_wait(self.epoll, self.events, POLLED_EVENTS, -1)
                reason = errno
            if n < 0:
                if reason == EINTR:
                    break
                raise OSError(reason, "epoll_wait")
            woken = False
            for i in range(n):
                fd = self.events[i].data.fd
                if fd == self.wake:
                    woken = True
                elif fd == self.ahead:
                    if self.waits.size() == 0:
                        self.list_ahead(False)
                    else:
                        self.wake_waiting(ready)
                elif fd == self.timer:
                    self.due = -1
                    self.expire_waits(ready)
                    over = monotonic() >= until
                elif <size_t>fd < self.sessions.size() and self.sessions[fd] != NULL:
                    session = <Session>self.sessions[fd]
                    try:
                        if session.exchange(fd):
                            ready.append((fd, self.events[i].events, session, None))
                        if session.session.waits_for() == ServeWaitsFor.rows:
                            self.expect(fd, session)
                    except (RelayError, RuntimeError, MemoryError) as error:
                        ready.append((fd, self.events[i].events, session, error))
                else:
                    ready.append((fd, self.events[i].events, None, None))
            if woken and not self.wake_waiting(ready):
                ready.append((self.wake, <int>EPOLLIN, None, None))
        return ready

    cdef int expect(self, int fd, Session session) except -1:
        cdef double until = monotonic() + session.session.wait_ms() * 1e-3
        self.waits.begin(fd, session.session.waits(), until, session.session.watch())
        if not self.is_ahead_listed:
            self.list_ahead(True)
        return 0

    cdef size_t wake_waiting(self, list ready) except? 0:
        """Answers the requests that waited for rows and have some now; returns how many."""
        cdef size_t place = 0, answered = 0
        cdef int fd = self.waits.next(&place)
        cdef Session session
        while fd >= 0:
            session = <Session>self.sessions[fd]
            if session.session.waits_for() != ServeWaitsFor.rows:
                self.waits.end(fd)
            else:
                try:
                    if not session.wake():
                        self.expect(fd, session)
                        place += 1
                        fd = self.waits.next(&place)
                        continue
                    self.waits.end(fd)
                    if session.go_on(fd):
                        ready.append((fd, 0, session, None))
                    if session.session.waits_for() == ServeWaitsFor.rows:  # the client has sent its next request already
                        self.expect(fd, session)
                except (RelayError, RuntimeError, MemoryError) as error:
                    self.waits.end(fd)
                    ready.append((fd, 0, session, error))
                answered += 1
            fd = self.waits.next(&place)
        return answered

    cdef int expire_waits(self, list ready) except -1:
        """Answers the requests whose time is over without rows."""
        cdef double now = monotonic()
        cdef Session session
        cdef int fd = self.waits.pop(now)
        while fd >= 0:
            session = <Session>self.sessions[fd]
            if session.session.waits_for() == ServeWaitsFor.rows:
                self.waits.end(fd)
                try:
                    if session.expire(fd):
                        ready.append((fd, 0, session, None))
                    if session.session.waits_for() == ServeWaitsFor.rows:
                        self.expect(fd, session)
                except (RelayError, RuntimeError, MemoryError) as error:
                    ready.append((fd, 0, session, error))
            fd = self.waits.pop(now)
        return 0

    cdef int list_ahead(self, bint listed) except -1:
        cdef c_epoll_event event
        event.events = <uint32_t>EPOLLIN | <uint32_t>EPOLLET
        event.data.fd = self.ahead
        if c_epoll_ctl(self.epoll, EPOLL_CTL_ADD if listed else EPOLL_CTL_DEL, self.ahead, &event) < 0:
            raise OSError(errno, "epoll_ctl")
        self.is_ahead_listed = listed
        return 0

    cdef int arm(self, double until) except -1:
        cdef itimerspec at
        at.it_interval.tv_sec = at.it_interval.tv_nsec = 0
        at.it_value.tv_sec = <time_t>until
        at.it_value.tv_nsec = max(<long>((until - <double>at.it_value.tv_sec) * 1e9), 1)  # 0 would disarm the timer
        if c_timerfd_settime(self.timer, TFD_TIMER_ABSTIME, &at, NULL) < 0:
            raise OSError(errno, "timerfd_settime")
        self.due = until
        return 0
