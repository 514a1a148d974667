# The servers' hot path: sessions that receive, answer polls and send without Python.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string as cstring

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_DONTWAIT, MSG_NOSIGNAL
    ssize_t c_recv "recv"(int, void*, size_t, int)
    ssize_t c_send "send"(int, const void*, size_t, int)

cdef extern from "<sys/eventfd.h>" nogil:
    int c_eventfd_write "eventfd_write"(int, uint64_t)

cdef extern from "checksum.hpp" namespace "relay":
    cdef cppclass ServeBytes "relay::Bytes":
        ServeBytes()
        ServeBytes(const void*, size_t)

    uint32_t c_byte_sum "relay::byte_sum"(ServeBytes data) nogil

cdef extern from "session.hpp" namespace "relay":
    cdef cppclass ServeArena "relay::Arena":
        pass

    cdef enum class ServeEventPosition "relay::EventPosition":
        position
        timestamped
        sequence

    cdef cppclass ServeRender "relay::RenderOptions":
        cstring null_text
        cbool utc

    cdef cppclass ServeOptions "relay::ServeOptions":
        ServeRender render
        ServeEventPosition event_position
        cbool at_most_once
        uint64_t max_repeats

    cdef cppclass ServeHold "relay::Hold":
        uint32_t client_id
        uint32_t slot
        uint32_t client_id
        uint32_t slot

    cdef cppclass CServer "relay::Server":
        CServer(const ServeArena& arena, cstring journal_directory, ServeOptions options) except +
        cbool take_broker_wake()
        cstring take_damage()
        void stop_waiting(const ServeHold& hold)
        void connect(const ServeHold& hold, string_view address)
        void disconnect(const ServeHold& hold)
        void clear_connections(uint64_t index, uint64_t workers)
        void leave_out(const ServeHold& hold, uint64_t number) except +raise_queue_failure
        void release_before(uint64_t position) except +
        cbool encodes_arrow
        uint64_t max_reply

    cdef enum class ServeHeld "relay::Session::Held":
        no
        request
        rows
        columns

    cdef cppclass ServeRequest "relay::Session::Request":
        uint16_t command
        uint32_t version
        uint32_t client_id
        uint32_t token
        cstring payload

    cdef cppclass CSession "relay::Session":
        cstring out
        CSession(CServer& server, uint32_t max_payload) except +
        void feed(ServeBytes data) except +
        void proceed() except +
        void answer(ServeBytes reply) except +
        void poll_again() except +
        vector[shared_ptr[CColumnBatch]] take_columns() except +
        void answer_columns(const vector[ServeBytes]& streams) except +
        void refuse_columns(const cstring& text) except +
        void close()
        void identify(uint32_t client_id, uint32_t slot, uint32_t token, uint64_t key)
        void replace() except +
        cbool wake() except +
        void sent() except +
        void expire() except +
        ServeHeld held()
        cbool closing()
        cbool identified()
        const ServeRequest& request()
        uint32_t wait_ms()
        uint64_t waits()
        const ServeHold& hold()
        cbool wants_input()
        cbool has_backlog()
        cbool authorised()
        cstring take_backlog() except +

cdef enum:
    RECEIVE_BYTES = 65536
    KEPT_CAPACITY = 4 << 20


def byte_sum(data):
    """Sum of all bytes of a buffer modulo 2**32: what the classic protocol's checksums are made of."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef uint32_t total = c_byte_sum(ServeBytes(view.buf, <size_t>view.len))
    PyBuffer_Release(&view)
    return total


cdef class Server:
    """Turns what waits in the queues of this process's clients into replies.

    `event_position` is one of position, timestamped and sequence; `broker_wake` is the broker's eventfd. TIMESTAMP
    values are in the process's time zone unless `utc`.
    """

    cdef CServer* server
    cdef Arena arena
    cdef object encode  # of columns, None until `encode_with`
    cdef int broker_wake
    cdef cstring scratch  # replies are built here as long as clients take them at once
    cdef uint8_t received[RECEIVE_BYTES]

    def __cinit__(self, Arena arena not None, str journal, *, str null_text="NULL", bint utc=True,
                  str event_position="position", bint at_most_once=False, uint64_t max_repeats=0,
                  int broker_wake=-1):
        cdef ServeOptions options
        options.render.null_text = null_text.encode()
        options.render.utc = utc
        options.event_position = ServeEventPosition.position
        if event_position == "timestamped":
            options.event_position = ServeEventPosition.timestamped
        elif event_position == "sequence":
            options.event_position = ServeEventPosition.sequence
        options.at_most_once = at_most_once
        options.max_repeats = max_repeats
        self.arena = arena
        self.broker_wake = broker_wake
        self.server = new CServer((<ServeArena*>arena.c)[0], journal.encode(), options)

    def __dealloc__(self):
        del self.server

    @property
    def max_reply(self):
        """Bytes that the payload of a reply may have; may be changed."""
        return self.server.max_reply

    @max_reply.setter
    def max_reply(self, uint64_t size):
        self.server.max_reply = size

    def encode_with(self, encode not None):
        """From now on answer PollMany in format 2, with the streams that `encode` makes of a list of `Columns`.

        It returns their Arrow IPC streams as a list of buffers, or raises `RelayError`: then the request is refused.
        """
        self.encode = encode
        self.server.encodes_arrow = True

    def clear_connections(self, uint64_t index, uint64_t workers):
        """The clients whose id mod `workers` is `index` have lost their connections with a former process."""
        self.server.clear_connections(index, workers)

    def leave_out(self, uint32_t client_id, uint32_t slot, uint64_t number):
        """Leave out row `number` of the client, if it is the one that it would be handed out next."""
        cdef ServeHold hold
        hold.client_id = client_id
        hold.slot = slot
        self.server.leave_out(hold, number)

    def release_before(self, uint64_t position):
        """Let go of mapped journal segments that end at or before the journal position."""
        self.server.release_before(position)

    def take_damage(self):
        """What was found damaged in the journal since the last call, in words; "" if nothing was."""
        return text_of(self.server.take_damage())


cdef class Session:
    """One connection. All methods that take its socket's descriptor also send what is to be sent.

    They return whether the caller has to look at the connection: it is held, wants to be closed, has something unsent,
    or was in such a state before the call.
    """

    cdef CSession* session
    cdef Server server
    cdef size_t sent  # of `out`
    cdef bint attended
    cdef readonly bint eof  # the client sends nothing more
    cdef readonly bint lost  # the connection is broken
    cdef readonly uint64_t total  # bytes sent

    def __cinit__(self, Server server not None, uint32_t max_payload):
        self.server = server
        self.session = new CSession(server.server[0], max_payload)

    def __dealloc__(self):
        del self.session

    @property
    def waits_for_answer(self):
        """Whether a request waits for `answer`."""
        return self.session.held() == ServeHeld.request

    @property
    def waits_for_rows(self):
        """Whether a request waits for `wake` or `expire`."""
        return self.session.held() == ServeHeld.rows

    @property
    def wait_seconds(self):
        """How long the request that waits for rows is to wait."""
        return self.session.wait_ms() / 1000

    @property
    def waits(self):
        """How many requests have waited for rows; tells one from the next."""
        return self.session.waits()

    @property
    def wants_input(self):
        """Whether there is room for what the client may send."""
        return not self.eof and not self.lost and (self.session.closing() or self.session.wants_input())

    @property
    def unsent(self):
        """Bytes that the client has not taken yet."""
        return self.session.out.size() - self.sent

    @property
    def closing(self):
        """Whether the connection is to be closed when everything is sent."""
        return self.session.closing()

    @property
    def finished(self):
        """Whether nothing can happen on this connection any more."""
        if self.lost:
            return True
        return self.eof and self.session.held() != ServeHeld.request and self.session.out.size() == 0

    @property
    def command(self):
        """Number of the held request's command."""
        return self.session.request().command

    @property
    def credentials(self):
        """ClientID and ClientToken of the held request."""
        return self.session.request().client_id, self.session.request().token

    @property
    def payload(self):
        """Payload of the held request."""
        return <bytes>self.session.request().payload

    @property
    def authorised(self):
        """Whether the held request carries the connection's own ClientID and ClientToken."""
        return self.session.authorised()

    cpdef bint exchange(self, int fd) except -1:
        """Receive what is there, once, and answer it."""
        cdef ssize_t n
        if self.session.out.size() > 0:
            self.flush(fd)
        if not self.eof and not self.lost and (self.session.closing() or self.session.wants_input()):
            n = c_recv(fd, self.server.received, RECEIVE_BYTES, MSG_DONTWAIT)
            if n > 0:
                self.borrow()
                self.session.feed(ServeBytes(self.server.received, <size_t>n))
            elif n == 0:
                self.eof = True
            elif errno != EAGAIN and errno != EINTR:
                self.lost = True
        return self.settle(fd)

    def answer(self, int fd, bytes reply not None):
        """Answer the held request with a whole reply, and go on with those after it."""
        self.session.answer(ServeBytes(<const char*>reply, <size_t>len(reply)))
        self.session.proceed()
        return self.settle(fd)

    def poll_again(self, int fd):
        """Answer the held PollMany after all: the server has got what it needs for its format."""
        self.session.poll_again()
        self.session.proceed()
        return self.settle(fd)

    def refuse(self, int fd, bytes reply not None):
        """Send a whole reply, the last one of this connection."""
        self.session.answer(ServeBytes(<const char*>reply, <size_t>len(reply)))
        self.session.close()
        return self.settle(fd)

    def wake(self, int fd):
        """Answer the request that waits for rows, if there are some."""
        self.borrow()
        if self.session.wake():
            self.session.proceed()
        return self.settle(fd)

    def expire(self, int fd):
        """Answer the request that waits for rows with none."""
        self.session.expire()
        self.session.proceed()
        return self.settle(fd)

    def identify(self, uint32_t client_id, uint32_t slot, uint32_t token, uint64_t key, str address not None):
        """Serve the queue of this client from now on; `address` is the peer's."""
        cdef bytes peer = address.encode()
        self.session.identify(client_id, slot, token, key)
        self.server.server.connect(self.session.hold(), view(peer))

    def replace(self, int fd):
        """Take the identity away: the next request is held, one that waits for rows is answered with 0xF0 and closed."""
        self.session.replace()
        return self.settle(fd)

    def release(self):
        """Give the client back, because the connection ends."""
        if self.session.identified():
            self.server.server.stop_waiting(self.session.hold())
            self.server.server.disconnect(self.session.hold())

    def take(self):
        """What was received but not looked at, and what was not sent: the connection goes on elsewhere."""
        unsent = (<bytes>self.session.out)[self.sent:]
        self.session.out.clear()
        self.sent = 0
        return <bytes>self.session.take_backlog(), unsent

    def resume(self, int fd, bytes received not None, bytes unsent not None, bytes reply not None):
        """Go on with what `take` gave elsewhere; `reply` answers the request that was held there."""
        self.session.out.append(<const char*>unsent, <size_t>len(unsent))
        self.session.answer(ServeBytes(<const char*>reply, <size_t>len(reply)))
        self.session.feed(ServeBytes(<const char*>received, <size_t>len(received)))
        return self.settle(fd)

    cdef void borrow(self):
        if self.session.out.size() == 0:
            self.session.out.swap(self.server.scratch)

    cdef bint settle(self, int fd) except -1:
        """Send, and go on with requests that arrived already, as far as the client takes the replies."""
        cdef bint plain
        while True:
            if self.session.held() == ServeHeld.columns:
                self.encode_columns()
            if self.session.out.size() > 0 and not self.flush(fd):
                break
            if self.eof and self.session.held() == ServeHeld.rows:
                self.session.expire()  # who sends no more is not worth waiting for, but may still read
                continue
            if self.session.closing() or self.session.held() != ServeHeld.no or not self.session.has_backlog():
                break
            self.borrow()
            self.session.proceed()
        if self.server.server.take_broker_wake() and self.server.broker_wake >= 0:
            c_eventfd_write(self.server.broker_wake, 1)
        plain = (self.session.out.size() == 0 and self.session.held() == ServeHeld.no and not self.session.closing()
                 and not self.eof and not self.lost)
        attend = self.attended or not plain
        self.attended = not plain
        return attend

    cdef int encode_columns(self) except -1:
        """Answer the held PollMany with the streams of its columns."""
        cdef vector[shared_ptr[CColumnBatch]] taken = self.session.take_columns()
        cdef vector[ServeBytes] streams
        cdef const uint8_t[::1] stream
        cdef Columns columns
        batches = []
        for i in range(taken.size()):
            columns = Columns.__new__(Columns)
            columns.batch.swap(taken[i])
            batches.append(columns)
        try:
            encoded = self.server.encode(batches)
        except RelayError as error:
            self.session.refuse_columns(str(error).encode("utf-8", "replace"))
            return 0
        batches = columns = None  # their memory goes before the reply takes as much again
        for each in encoded:
            stream = memoryview(each).cast("B")
            streams.push_back(ServeBytes(&stream[0], <size_t>stream.shape[0]))
        self.session.answer_columns(streams)
        return 0

    cdef bint flush(self, int fd):
        """Send `out`; whether all of it is gone."""
        cdef ssize_t n
        while self.sent < self.session.out.size():
            if self.lost:
                break
            n = c_send(fd, self.session.out.data() + self.sent, self.session.out.size() - self.sent,
                       MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0 and errno == EINTR:
                continue
            if n < 0:
                if errno == EAGAIN:
                    return False
                self.lost = True
                break
            self.sent += <size_t>n
            self.total += <uint64_t>n
        if not self.lost:
            self.session.sent()
        self.sent = 0
        self.session.out.clear()
        if self.session.out.capacity() > self.server.scratch.capacity():
            self.session.out.swap(self.server.scratch)
        if self.session.out.capacity() > 15:
            self.drop(self.session.out)
        if self.server.scratch.capacity() > KEPT_CAPACITY:
            self.drop(self.server.scratch)
        return True

    cdef void drop(self, cstring& text):
        cdef cstring empty
        text.swap(empty)
