"""Packets of MySQL's protocol, from the bytes of a connection: Packets."""

from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t

from relay._native.base cimport Bytes

cdef extern from "<cstdint>":
    size_t SIZE_MAX

cdef extern from "binlog/packets.hpp" namespace "relay":
    cdef enum class CFront "relay::PacketBuffer::Front"(uint8_t):
        packet
        incomplete
        too_large

    cdef struct CPacketRoom "relay::PacketBuffer::Room":
        uint8_t* data
        size_t size

    cdef cppclass CPacketBuffer "relay::PacketBuffer":
        CPacketBuffer(size_t max_payload)
        CPacketRoom room(size_t least) except +
        void filled(size_t n)
        CFront front(Bytes* payload)
        void pop()


cdef class Packets:
    """Splits received bytes into packets, and joins those of 16 MiB and more. Packets have any size."""

    cdef CPacketBuffer* c

    def __cinit__(self):
        self.c = new CPacketBuffer(SIZE_MAX)

    def __dealloc__(self):
        del self.c

    def buffer(self):
        """A writable view to receive into, valid until the next call of a method; `received` must follow."""
        cdef CPacketRoom room = self.c.room(1)
        return PyMemoryView_FromMemory(<char*>room.data, <Py_ssize_t>room.size, PyBUF_WRITE)

    def received(self, size_t count):
        """Adds `count` bytes from the buffer."""
        self.c.filled(count)

    def next(self):
        """The next packet's payload; None if it is incomplete."""
        cdef Bytes payload
        if self.c.front(&payload) != CFront.packet:
            return None
        packet = (<const char*>payload.data)[:payload.size]
        self.c.pop()
        return packet
