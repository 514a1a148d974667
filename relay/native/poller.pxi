# The servers' event loop, as far as it needs no Python: sessions whose requests are polls go on by themselves.

from cpython.ref cimport PyObject
from libc.time cimport time_t
from posix.time cimport CLOCK_MONOTONIC, itimerspec
from posix.unistd cimport close as c_close

cdef extern from "<sys/epoll.h>" nogil:
    enum: EPOLLIN, EPOLLET, EPOLL_CTL_ADD
    ctypedef union c_epoll_data "epoll_data_t":
        int fd
    cdef struct c_epoll_event "epoll_event":
        uint32_t events
        c_epoll_data data
    int c_epoll_wait "epoll_wait"(int, c_epoll_event*, int, int)
    int c_epoll_ctl "epoll_ctl"(int, int, int, c_epoll_event*)

cdef extern from "<sys/timerfd.h>" nogil:
    enum: TFD_CLOEXEC, TFD_NONBLOCK, TFD_TIMER_ABSTIME
    int c_timerfd_create "timerfd_create"(int, int)
    int c_timerfd_settime "timerfd_settime"(int, int, const itimerspec*, itimerspec*)

cdef enum:
    POLLED_EVENTS = 256  # taken at a time; those beyond come first the next time


cdef class Poller:
    """Waits for what is registered with an epoll descriptor, and has sessions exchange when their sockets are ready.

    Its time limit is a timer among the descriptors: one that is set with each wait costs each wait a timer. Raises
    OSError.
    """

    cdef int epoll
    cdef int timer
    cdef double due  # what the timer is set to, below 0 if it is not
    cdef dict attached  # sessions by descriptor
    cdef vector[PyObject*] sessions  # the same
    cdef c_epoll_event events[POLLED_EVENTS]

    def __cinit__(self, int epoll):
        cdef c_epoll_event event
        self.epoll = epoll
        self.due = -1
        self.attached = {}
        self.timer = c_timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)
        event.events = <uint32_t>EPOLLIN | <uint32_t>EPOLLET  # told once, and never read
        event.data.fd = self.timer
        if self.timer < 0 or c_epoll_ctl(epoll, EPOLL_CTL_ADD, self.timer, &event) < 0:
            raise OSError(errno, "timerfd")

    def __dealloc__(self):
        if self.timer >= 0:
            c_close(self.timer)

    def attach(self, int fd, Session session not None):
        """From now on the session exchanges when its socket `fd` is ready."""
        if <size_t>fd >= self.sessions.size():
            self.sessions.resize(<size_t>fd + 1, NULL)
        self.attached[fd] = session
        self.sessions[fd] = <PyObject*>session

    def detach(self, int fd):
        """The session of that socket is no longer served here."""
        self.sessions[fd] = NULL
        del self.attached[fd]

    def wait(self, double until):
        """Wait for what the caller has to look after, until that time of the monotonic clock at the latest.

        Returns a list of (descriptor, epoll events, session, error). `session`: its connection has to be looked at, as
        after `Session.exchange`, or has failed with that error; None for descriptors of no session. A signal ends the
        waiting, too.
        """
        cdef int n, reason, fd
        cdef bint over = False
        cdef Session session
        cdef list ready = []
        if until != self.due:
            self.arm(until)
        while not (ready or over):
            with nogil:
                n = c_epoll_wait(self.epoll, self.events, POLLED_EVENTS, -1)
                reason = errno
            if n < 0:
                if reason == EINTR:
                    break
                raise OSError(reason, "epoll_wait")
            for i in range(n):
                fd = self.events[i].data.fd
                if fd == self.timer:
                    self.due = -1
                    over = True
                elif <size_t>fd < self.sessions.size() and self.sessions[fd] != NULL:
                    session = <Session>self.sessions[fd]
                    try:
                        if session.exchange(fd):
                            ready.append((fd, self.events[i].events, session, None))
                    except (RelayError, RuntimeError, MemoryError) as error:
                        ready.append((fd, self.events[i].events, session, error))
                else:
                    ready.append((fd, self.events[i].events, None, None))
        return ready

    cdef int arm(self, double until) except -1:
        cdef itimerspec at
        at.it_interval.tv_sec = at.it_interval.tv_nsec = 0
        at.it_value.tv_sec = <time_t>until
        at.it_value.tv_nsec = max(<long>((until - <double>at.it_value.tv_sec) * 1e9), 1)  # 0 would be never
        if c_timerfd_settime(self.timer, TFD_TIMER_ABSTIME, &at, NULL) < 0:
            raise OSError(errno, "timerfd_settime")
        self.due = until
        return 0
