# Serving polls without Python.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector

from relay._native.arena cimport Arena, CArena
from relay._native.base cimport Bytes, raise_queue_failure
from relay._native.columns cimport CColumnBatch
from relay._native.values cimport CRenderOptions

cdef extern from "base/output.hpp" namespace "relay":
    cdef cppclass COutput "relay::Output":
        size_t size()
        size_t room()
        const char* chars()
        void append(Bytes bytes) except +
        void clear()
        void release()
        void swap(COutput& other)

cdef extern from "serve/session.hpp" namespace "relay":
    cdef enum class ServeEventPosition "relay::EventPosition":
        position
        timestamped
        sequence

    cdef cppclass ServeOptions "relay::ServeOptions":
        CRenderOptions render
        ServeEventPosition event_position
        cbool at_most_once
        uint64_t max_repeats

    cdef cppclass ServeHandle "relay::ClientHandle":
        uint32_t client_id
        uint32_t slot

    cdef cppclass CServer "relay::Server":
        CServer(const CArena& arena, string journal_directory, ServeOptions options) except +
        cbool take_broker_wake()
        string take_damage()
        void stop_waiting(const ServeHandle& handle)
        void connect(const ServeHandle& handle, string_view address)
        void disconnect(const ServeHandle& handle)
        void skip_row(const ServeHandle& handle, uint64_t number) except +raise_queue_failure
        void release_before(uint64_t position) except +
        cbool encodes_arrow
        uint64_t max_reply

    cdef cppclass ServeWatch "relay::Watch":
        pass

    cdef enum class ServeWaitsFor "relay::Session::WaitsFor":
        no
        request
        rows
        columns

    cdef cppclass ServeRequest "relay::Session::Request":
        uint16_t command
        uint32_t version
        uint32_t client_id
        uint32_t token
        string payload

    cdef cppclass CSession "relay::Session":
        COutput out
        CSession(CServer& server, uint32_t max_payload) except +
        void feed(Bytes data) except +raise_queue_failure
        void proceed() except +raise_queue_failure
        void answer(Bytes reply) except +raise_queue_failure
        void poll_again() except +raise_queue_failure
        vector[shared_ptr[CColumnBatch]] take_columns() except +
        void answer_columns(const vector[Bytes]& streams) except +
        void refuse_columns(const string& text) except +
        void close()
        void identify(uint32_t client_id, uint32_t slot, uint32_t token, uint64_t key)
        void replace() except +raise_queue_failure
        cbool wake() except +raise_queue_failure
        ServeWatch watch()
        void sent() except +
        void expire() except +raise_queue_failure
        ServeWaitsFor waits_for()
        cbool closing()
        cbool identified()
        const ServeRequest& request()
        uint32_t wait_ms()
        uint64_t waits()
        const ServeHandle& handle()
        cbool wants_input()
        cbool has_backlog()
        cbool authorised()
        string take_backlog() except +

cdef enum:
    RECEIVE_BYTES = 65536


cdef class Server:
    cdef CServer* server
    cdef Arena arena
    cdef object encode  # encodes columns; None before `encode_with`
    cdef int broker_wake
    cdef COutput scratch  # buffer for replies that the client receives at once
    cdef uint8_t received[RECEIVE_BYTES]


cdef class Session:
    cdef CSession* session
    cdef Server server
    cdef size_t sent  # bytes of `out` that are sent
    cdef bint needed_caller  # at the end of the last call
    cdef readonly bint eof  # the client has closed its sending side
    cdef readonly bint lost  # the connection is broken
    cdef readonly uint64_t total  # bytes sent

    cpdef bint exchange(self, int fd) except -1
    cdef bint wake(self) except -1
    cdef bint go_on(self, int fd) except -1
    cpdef bint expire(self, int fd) except -1
    cdef void borrow(self)
    cdef void wake_broker(self)
    cdef bint settle(self, int fd) except -1
    cdef int encode_columns(self) except -1
    cdef bint flush(self, int fd)
