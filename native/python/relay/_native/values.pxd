# Definitions of tables, rows events and values in the core. There is no module `values` at run time.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from relay._native.base cimport Bytes, raw, shown

cdef extern from "values/definition.hpp" namespace "relay":
    cdef cppclass CDefinition "relay::Definition":
        string schema
        string table
        @staticmethod
        shared_ptr[const CDefinition] parse(Bytes packed, string* error) except +

cdef extern from "values/rows.hpp" namespace "relay":
    cdef enum class CRowKind "relay::RowKind"(uint8_t):
        pass

    cdef cppclass CRowsBody "relay::RowsBody":
        const uint8_t* before
        const uint8_t* after
        Bytes images
        @staticmethod
        cbool parse(Bytes body, CRowKind kind, CRowsBody* out)

    cdef cppclass CWalk "relay::Walk":
        uint32_t rows
        cbool ok

    const uint8_t* skip_image(const CDefinition& definition, const uint8_t* present, const uint8_t* p,
                              const uint8_t* end)
    CWalk c_walk_rows "relay::walk_rows"(const CDefinition& definition, const CRowsBody& body)
    cbool c_copy_without "relay::copy_without"(const CDefinition& definition, CRowKind kind,
                                               const CRowsBody& body, const vector[cbool]& keep, string* out)

cdef extern from "values/payload.hpp" namespace "relay":
    cdef cppclass CRenderOptions "relay::RenderOptions":
        string null_text
        cbool utc

    cdef cppclass CRow "relay::Row":
        const CDefinition* definition
        CRowKind kind
        const uint8_t* before_present
        const uint8_t* after_present
        Bytes before
        Bytes after
        uint64_t position


cdef inline shared_ptr[const CDefinition] parsed_definition(bytes packed) except *:
    cdef string error
    cdef shared_ptr[const CDefinition] parsed = CDefinition.parse(raw(packed), &error)
    if parsed.get() == NULL:
        raise ValueError(shown(error))
    return parsed
