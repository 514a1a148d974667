# Rows as columns.

from libc.stdint cimport uint64_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from relay._native.values cimport CDefinition, CRow

cdef extern from "formats/arrow_abi.hpp":
    ctypedef struct ArrowSchema:
        void (*release)(ArrowSchema*) noexcept

    ctypedef struct ArrowArray:
        void (*release)(ArrowArray*) noexcept

cdef extern from "formats/columns.hpp" namespace "relay":
    cdef enum class ColumnsAdded "relay::ColumnBatch::Added":
        yes

    cdef cppclass CColumnBatch "relay::ColumnBatch":
        CColumnBatch(shared_ptr[const CDefinition] definition) except +
        ColumnsAdded add(const CRow& row, uint64_t sequence, string* error) except +
        const CDefinition& definition()
        size_t rows()
        size_t stream_bytes()
        vector[string] sides()
        @staticmethod
        void give(const shared_ptr[CColumnBatch]& batch, ArrowSchema* schema, ArrowArray* array) except +

cdef class Columns:
    cdef shared_ptr[CColumnBatch] batch
    cdef bint given
