# The servers' hot path: sessions that answer polls without Python.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

cdef extern from "checksum.hpp" namespace "relay":
    cdef cppclass CBytes "relay::Bytes":
        CBytes(const void* data, size_t size)

    uint32_t c_byte_sum "relay::byte_sum"(CBytes data) nogil


def byte_sum(data):
    """Sum of all bytes of a buffer modulo 2**32: what the classic protocol's checksums are made of."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef uint32_t total = c_byte_sum(CBytes(view.buf, <size_t>view.len))
    PyBuffer_Release(&view)
    return total
