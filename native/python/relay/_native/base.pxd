# Bytes, text and exceptions between Python and the core.

from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memset
from libcpp.string cimport string
from libcpp.string_view cimport string_view

cdef extern from "<cstring>" nogil:
    size_t strnlen(const char* text, size_t size)

cdef extern from "base/bytes.hpp" namespace "relay":
    cdef cppclass Bytes "relay::Bytes":
        const uint8_t* data
        size_t size
        Bytes()
        Bytes(const void* data, size_t size)
        const uint8_t* end()


cdef inline Bytes raw(bytes data):
    return Bytes(<const char*>data, <size_t>len(data))


cdef inline string_view view(bytes data):
    return string_view(<const char*>data, <size_t>len(data))


cdef inline bytes encoded(str text):
    return text.encode("utf-8", "surrogateescape")


cdef inline str text_of(string s):
    return s.decode("utf-8", "surrogateescape")


cdef inline str shown(string s):
    return s.decode("utf-8", "replace")


# A text in a field of fixed size: cut to fit, and ended by a zero byte.
cdef inline void put_field(char* field, size_t size, str text) noexcept:
    cdef bytes packed = text.encode("utf-8", "replace")[: size - 1]
    memset(field, 0, size)
    memcpy(field, <const char*>packed, len(packed))


cdef inline str field_of(const char* field, size_t size):
    return field[:strnlen(field, size)].decode("utf-8", "ignore")


cdef int raise_failure() except *
cdef int raise_queue_failure() except *
