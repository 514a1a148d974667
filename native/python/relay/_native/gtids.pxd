# Sets of GTIDs.

from libc.stdint cimport uint64_t
from libcpp cimport bool as cbool
from libcpp.optional cimport optional
from libcpp.string cimport string
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector

from relay._native.base cimport Bytes

cdef extern from "base/gtid.hpp" namespace "relay":
    cdef cppclass CGtid "relay::Gtid":
        CGtid()
        string text()
        @staticmethod
        optional[CGtid] parse(string_view text, string* error)
        cbool mariadb
        uint64_t number

    cdef cppclass CGtidRun "relay::GtidSet::Run":
        CGtid first
        uint64_t last

    cdef cppclass CGtidSet "relay::GtidSet":
        CGtidSet()
        @staticmethod
        optional[CGtidSet] parse(string_view text, string* error)
        @staticmethod
        optional[CGtidSet] decode(Bytes packed)
        string text()
        string encode()
        cbool empty()
        cbool mariadb()
        void add(const CGtid& gtid)
        void remove(const CGtid& gtid)
        cbool contains(const CGtid& gtid)
        cbool subset_of(const CGtidSet& other)
        void unite(const CGtidSet& other)
        void subtract(const CGtidSet& other)
        void intersect(const CGtidSet& other)
        vector[CGtidRun] runs()


cdef CGtid parse_gtid(str text) except *


cdef class GtidSet:
    cdef CGtidSet c

    cdef GtidSet copied(self, GtidSet other)
