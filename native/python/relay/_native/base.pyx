"""What the other modules build on: exceptions, checksums, TextPage, and the scheduling policy."""

import os

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport errno
from libc.stdint cimport uint32_t
from libcpp.string cimport string
from libcpp.string_view cimport string_view

from relay.base.errors import ErrorCode, RelayError, StopCode

cdef extern from "base/failure.hpp" namespace "relay":
    cdef cppclass CFailure "relay::Failure":
        string code
        string operation
        string where
        string cause
        string hint
    CFailure current_failure()

cdef extern from "base/crc.hpp" namespace "relay":
    uint32_t c_crc32 "relay::crc32"(Bytes data, uint32_t crc)
    uint32_t c_crc32c "relay::crc32c"(Bytes data, uint32_t crc)

cdef extern from "base/checksum.hpp" namespace "relay":
    uint32_t c_byte_sum "relay::byte_sum"(Bytes data) nogil

cdef extern from "base/text_page.hpp" namespace "relay":
    cdef cppclass CTextPage "relay::TextPage":
        @staticmethod
        size_t size_for(size_t capacity)
        CTextPage(void* memory, size_t capacity)
        size_t capacity()
        void write(string_view text)
        string read()

# The system calls: the C library musl has functions for these, but they always fail.
cdef extern from *:
    """
    #include <sched.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    static int relay_scheduling_policy() { return static_cast<int>(syscall(SYS_sched_getscheduler, 0)); }

    static int relay_set_scheduling_policy(int policy) {
      const sched_param no_priority = {};
      return static_cast<int>(syscall(SYS_sched_setscheduler, 0, policy, &no_priority));
    }
    """
    int c_scheduling_policy "relay_scheduling_policy"()
    int c_set_scheduling_policy "relay_set_scheduling_policy"(int policy)


class JournalError(RelayError):
    """A failure of the journal: `code` is one of disk_full, journal_lost, journal_corrupt, unexpected."""


cdef int raise_failure() except *:
    cdef CFailure failure = current_failure()
    code, operation, where, cause, hint = (
        part.decode("utf-8", "replace")
        for part in (failure.code, failure.operation, failure.where, failure.cause, failure.hint)
    )
    if not code:
        raise RuntimeError(cause)
    known = StopCode(code) if code in StopCode.__members__.values() else ErrorCode(code)
    kind = RelayError if where else JournalError
    raise kind(known, operation, cause, position=where, hint=hint)


class QueueError(RelayError):
    """A client's queue cannot be made, enlarged or read."""

    def __init__(self, cause):
        super().__init__(ErrorCode.ENVIRONMENT, "client queue", cause, hint="see MaxClients and QueueMemory in [Relay]")


cdef int raise_queue_failure() except *:
    cdef CFailure failure = current_failure()
    if failure.code.empty():
        raise QueueError(failure.cause.decode("utf-8", "replace"))
    return raise_failure()


def crc32(bytes data, uint32_t crc=0):
    """The CRC-32 of zlib, continued from `crc`."""
    return c_crc32(raw(data), crc)


def crc32c(bytes data, uint32_t crc=0):
    """The CRC-32C (Castagnoli), continued from `crc`."""
    return c_crc32c(raw(data), crc)


def byte_sum(data):
    """The sum of all bytes of a buffer modulo 2**32, from which the classic protocol makes its checksums."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef uint32_t total = c_byte_sum(Bytes(view.buf, <size_t>view.len))
    PyBuffer_Release(&view)
    return total


cdef class TextPage:
    """A text in a writable buffer of `size(capacity)` zeroed bytes, aligned to 8. One process writes it."""

    cdef Py_buffer view
    cdef bint viewed
    cdef CTextPage* c

    def __cinit__(self, memory, size_t capacity):
        PyObject_GetBuffer(memory, &self.view, PyBUF_WRITABLE)
        self.viewed = True
        if <size_t>self.view.len < CTextPage.size_for(capacity):
            raise QueueError(f"{self.view.len} bytes of shared memory are too few")
        self.c = new CTextPage(self.view.buf, capacity)

    def __dealloc__(self):
        del self.c
        if self.viewed:
            PyBuffer_Release(&self.view)

    @staticmethod
    def size(size_t capacity):
        """The size of the buffer of a page."""
        return CTextPage.size_for(capacity)

    def write(self, bytes text):
        """Shows `text`, from one instant on. Raises ValueError if it does not fit."""
        if <size_t>len(text) > self.c.capacity():
            raise ValueError(f"{len(text)} bytes for a status page of {self.c.capacity()}")
        self.c.write(view(text))

    def read(self):
        """The text that was shown last."""
        return self.c.read()


def scheduling_policy():
    """The policy: one of os.SCHED_*."""
    return c_scheduling_policy()


def set_scheduling_policy(int policy):
    """Sets a policy without priorities: one of os.SCHED_OTHER, SCHED_BATCH and SCHED_IDLE. Raises OSError."""
    if c_set_scheduling_policy(policy) != 0:
        raise OSError(errno, os.strerror(errno))
