# System calls of the loops. There is no module `system` at run time.

from libc.stdint cimport uint32_t, uint64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_DONTWAIT, MSG_NOSIGNAL
    ssize_t c_recv "recv"(int, void*, size_t, int)
    ssize_t c_send "send"(int, const void*, size_t, int)

cdef extern from "<poll.h>" nogil:
    enum: POLLIN
    cdef struct c_pollfd "pollfd":
        int fd
        short events
    int c_poll "poll"(c_pollfd*, unsigned long, int)

cdef extern from "<sys/eventfd.h>" nogil:
    int c_eventfd_write "eventfd_write"(int, uint64_t)

cdef extern from "<sys/epoll.h>" nogil:
    enum: EPOLLIN, EPOLLET, EPOLL_CTL_ADD, EPOLL_CTL_DEL
    ctypedef union c_epoll_data "epoll_data_t":
        int fd
    cdef struct c_epoll_event "epoll_event":
        uint32_t events
        c_epoll_data data
    int c_epoll_wait "epoll_wait"(int, c_epoll_event*, int, int)
    int c_epoll_ctl "epoll_ctl"(int, int, int, c_epoll_event*)


# Seconds of the clock of time.monotonic().
cdef inline double monotonic() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double>now.tv_sec + <double>now.tv_nsec * 1e-9
