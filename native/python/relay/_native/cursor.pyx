"""Bytes from a server, read with bounds checks: Cursor."""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef class Cursor:
    """A position in bytes. Reading beyond their end raises `ValueError`. Integers are little-endian."""

    cdef readonly bytes data
    cdef public Py_ssize_t at
    cdef const uint8_t* begin
    cdef Py_ssize_t size

    def __init__(self, data):
        self.data = bytes(data)
        self.begin = <const uint8_t*><const char*>self.data
        self.size = len(self.data)
        self.at = 0

    def __len__(self):
        """The number of bytes left."""
        return self.size - self.at

    cdef const uint8_t* next(self, uint64_t count) except NULL:
        """The next `count` bytes, which the cursor passes."""
        cdef Py_ssize_t start = self.at
        if not 0 <= start <= self.size or count > <uint64_t>(self.size - start):
            raise ValueError(f"{count} bytes expected at {start}, but the data has {self.size - start}")
        self.at = start + <Py_ssize_t>count
        return self.begin + start

    cdef uint64_t number(self, int count) except? 0:
        """The unsigned integer of the next `count` bytes, at most 8."""
        cdef const uint8_t* found = self.next(count)
        cdef uint64_t value = 0
        cdef int at
        for at in range(count):
            value |= <uint64_t>found[at] << (8 * at)
        return value

    cdef bytes part(self, uint64_t count):
        cdef const uint8_t* found = self.next(count)
        return (<const char*>found)[:count]

    cdef uint64_t prefix(self) except? 0:
        cdef uint64_t first = self.number(1)
        if first < 0xfb:
            return first
        if first == 0xfb or first == 0xff:
            raise ValueError(f"{hex(first)} is not a length")
        return self.number(2 if first == 0xfc else 3 if first == 0xfd else 8)

    cdef uint64_t variable(self) except? 0:
        cdef uint64_t first = self.number(1)
        cdef int more = 0
        while more < 8 and first >> more & 1:
            more += 1
        if more == 8:
            return self.number(8)
        return first >> (more + 1) | self.number(more) << (7 - more)

    def take(self, count):
        """The next `count` bytes."""
        if count < 0:
            raise ValueError(f"{count} is not a number of bytes")
        return self.part(count)

    def rest(self):
        """All bytes left."""
        return self.part(self.size - self.at)

    def fields(self, layout):
        """The values of fields of fixed sizes, a `struct.Struct`."""
        cdef Py_ssize_t start = self.at
        self.next(layout.size)
        return layout.unpack_from(self.data, start)

    def integer(self, int count):
        """An unsigned integer of `count` bytes, at most 8."""
        if not 0 <= count <= 8:
            raise ValueError(f"an integer has no {count} bytes")
        return self.number(count)

    def length(self):
        """A length-encoded integer."""
        return self.prefix()

    def text(self):
        """A length-encoded string."""
        return self.part(self.prefix())

    def varlen(self):
        """An unsigned integer of mysql::serialization.

        The lowest bits of the first byte are a one for each byte that follows, then a zero. The number is above it.
        """
        return self.variable()

    def signed_varlen(self):
        """A signed integer of mysql::serialization: the lowest bit is the sign."""
        cdef uint64_t number = self.variable()
        cdef int64_t magnitude = <int64_t>(number >> 1)
        return ~magnitude if number & 1 else magnitude

    def short_text(self):
        """A string with its length in one byte before it."""
        return self.part(self.number(1))

    def terminated(self):
        """A string up to its zero byte; the cursor moves beyond that."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise ValueError(f"unterminated text at {self.at}")
        return self.take(end - self.at + 1)[:-1]
