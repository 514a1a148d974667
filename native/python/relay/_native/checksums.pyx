"""Checksums of binlog events and of the classic protocol."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint32_t

from relay._native.base cimport Bytes, raw

cdef extern from "base/crc.hpp" namespace "relay":
    uint32_t c_crc32 "relay::crc32"(Bytes data, uint32_t crc)
    uint32_t c_crc32c "relay::crc32c"(Bytes data, uint32_t crc)

cdef extern from "base/checksum.hpp" namespace "relay":
    uint32_t c_byte_sum "relay::byte_sum"(Bytes data) nogil


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
