"""Sessions that receive, answer polls and send without Python: Server, Session."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t, uint64_t
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from relay._native.arena cimport Arena, CArena
from relay._native.base cimport Bytes, raw, text_of, view
from relay._native.columns cimport CColumnBatch, Columns
from relay._native.system cimport MSG_DONTWAIT, MSG_NOSIGNAL, c_eventfd_write, c_recv, c_send

from relay.base.errors import RelayError

cdef extern from "queue/queue.hpp" namespace "relay":
    void c_clear_connections "relay::clear_connections"(const CArena& arena, uint64_t worker)
    void c_release_forgotten "relay::release_forgotten"(const CArena& arena, uint64_t worker)


cdef class Server:
    """Makes replies of the waiting rows in the queues of this process's clients.

    `event_position` is position, timestamped or sequence; `broker_wake` is the broker's eventfd. TIMESTAMP values are
    in the time zone of the process unless `utc`.
    """

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
        self.server = new CServer(arena.c[0], journal.encode(), options)

    def __dealloc__(self):
        del self.server

    @property
    def max_reply(self):
        """The largest size of a reply's payload, in bytes; may be changed."""
        return self.server.max_reply

    @max_reply.setter
    def max_reply(self, uint64_t size):
        self.server.max_reply = size

    def encode_with(self, encode not None):
        """Enables PollMany in format 2. `encode` turns a list of `Columns` into Arrow IPC streams.

        It returns a list of buffers, or raises `RelayError`: then the request is refused.
        """
        self.encode = encode
        self.server.encodes_arrow = True

    def clear_connections(self, uint64_t worker):
        """Ends the connections that clients of this worker had with a former process."""
        c_clear_connections(self.arena.c[0], worker)

    def release_forgotten(self, uint64_t worker):
        """Releases the blocks of forgotten clients that have not polled since."""
        c_release_forgotten(self.arena.c[0], worker)

    def skip_row(self, uint32_t client_id, uint32_t slot, uint64_t number):
        """Skips row `number` of the client, if it is the next row to be sent."""
        cdef ServeHandle handle
        handle.client_id = client_id
        handle.slot = slot
        self.server.skip_row(handle, number)

    def release_before(self, uint64_t position):
        """Unmaps journal segments that end at or before a journal position."""
        self.server.release_before(position)

    def take_damage(self):
        """Describes the damage found in the journal since the last call; "" if there is none."""
        return text_of(self.server.take_damage())


cdef class Session:
    """One connection. All methods that take the descriptor of its socket also send the output.

    They return whether the caller must act on the connection: a request is pending, the connection is to be closed or has
    ended, there are unsent bytes, no more are to be received, or one of these was true before the call.
    """

    def __cinit__(self, Server server not None, uint32_t max_payload):
        self.server = server
        self.session = new CSession(server.server[0], max_payload)

    def __dealloc__(self):
        del self.session

    @property
    def waits_for_answer(self):
        """Whether a request waits for `answer`."""
        return self.session.waits_for() == ServeWaitsFor.request

    @property
    def waits_for_rows(self):
        """Whether a request waits for `wake` or `expire`."""
        return self.session.waits_for() == ServeWaitsFor.rows

    @property
    def wants_input(self):
        """Whether the session accepts more bytes of the client."""
        return not self.eof and not self.lost and (self.session.closing() or self.session.wants_input())

    @property
    def unsent(self):
        """The number of bytes that are not sent yet."""
        return self.session.out.size() - self.sent

    @property
    def closing(self):
        """Whether the connection must be closed when everything is sent."""
        return self.session.closing()

    @property
    def finished(self):
        """Whether the connection has ended, and no reply is pending or unsent."""
        if self.lost:
            return True
        return self.eof and self.session.waits_for() != ServeWaitsFor.request and self.session.out.size() == 0

    @property
    def command(self):
        """The number of the pending request's command."""
        return self.session.request().command

    @property
    def credentials(self):
        """The ClientID and the ClientToken of the pending request."""
        return self.session.request().client_id, self.session.request().token

    @property
    def payload(self):
        """The payload of the pending request."""
        return <bytes>self.session.request().payload

    @property
    def authorised(self):
        """Whether the pending request carries the connection's own ClientID and ClientToken."""
        return self.session.authorised()

    cpdef bint exchange(self, int fd) except -1:
        """Receives once and answers the requests."""
        cdef ssize_t n
        if self.session.out.size() > 0:
            self.flush(fd)
        if not self.eof and not self.lost and (self.session.closing() or self.session.wants_input()):
            n = c_recv(fd, self.server.received, RECEIVE_BYTES, MSG_DONTWAIT)
            if n > 0:
                self.borrow()
                self.session.feed(Bytes(self.server.received, <size_t>n))
            elif n == 0:
                self.eof = True
            elif errno != EAGAIN and errno != EINTR:
                self.lost = True
        return self.settle(fd)

    def answer(self, int fd, bytes reply not None):
        """Answers the pending request with a complete reply, and continues with the next requests."""
        self.session.answer(raw(reply))
        return self.go_on(fd)

    def poll_again(self, int fd):
        """Answers the pending PollMany, after `encode_with` has enabled its format."""
        self.session.poll_again()
        return self.go_on(fd)

    def refuse(self, int fd, bytes reply not None):
        """Sends a complete reply, the last one of this connection."""
        self.session.answer(raw(reply))
        self.session.close()
        return self.settle(fd)

    cdef bint wake(self) except -1:
        """Makes the reply to the request that waits for rows, if there are rows. False if it still waits."""
        self.borrow()
        if not self.session.wake():
            if self.session.out.size() == 0:
                self.session.out.swap(self.server.scratch)  # what `borrow` took
            self.wake_broker()  # rows that nobody can read may have been passed over
            return False
        return True

    cdef bint go_on(self, int fd) except -1:
        """Sends the reply, and continues with the next requests."""
        self.session.proceed()
        return self.settle(fd)

    cpdef bint expire(self, int fd) except -1:
        """Answers the request that waits for rows without rows."""
        self.session.expire()
        return self.go_on(fd)

    def identify(self, uint32_t client_id, uint32_t slot, uint32_t token, uint64_t key, str address not None):
        """Serves the queue of this client from now on; `address` is that of the connection."""
        cdef bytes text = address.encode()
        self.session.identify(client_id, slot, token, key)
        self.server.server.connect(self.session.handle(), view(text))

    def replace(self, int fd):
        """Removes the identity. The next request is pending; one that waits for rows gets 0xF0, the last reply."""
        self.session.replace()
        return self.settle(fd)

    def release(self):
        """Releases the client, because the connection ends."""
        if self.session.identified():
            self.server.server.stop_waiting(self.session.handle())
            self.server.server.disconnect(self.session.handle())

    def take(self):
        """Removes and returns (unprocessed input, unsent output), to move the connection to another process."""
        unsent = self.session.out.chars()[self.sent:self.session.out.size()] if self.unsent else b""
        self.session.out.release()
        self.sent = 0
        return <bytes>self.session.take_backlog(), unsent

    def resume(self, int fd, bytes received not None, bytes unsent not None, bytes reply not None):
        """Continues with what `take` returned in another process; `reply` answers the request pending there."""
        self.session.out.append(raw(unsent))
        self.session.answer(raw(reply))
        self.session.feed(raw(received))
        return self.settle(fd)

    cdef void borrow(self):
        if self.session.out.size() == 0:
            self.session.out.swap(self.server.scratch)

    cdef void wake_broker(self):
        """Wakes the broker if a full ring has room again."""
        if self.server.server.take_broker_wake() and self.server.broker_wake >= 0:
            c_eventfd_write(self.server.broker_wake, 1)

    cdef bint settle(self, int fd) except -1:
        """Sends, and continues with requests already received, as long as the client receives the replies."""
        cdef bint needs_caller
        while True:
            if self.session.waits_for() == ServeWaitsFor.columns:
                self.encode_columns()
            if self.session.out.size() > 0 and not self.flush(fd):
                break
            if self.eof and self.session.waits_for() == ServeWaitsFor.rows:
                self.session.expire()  # the client sends nothing more, but may still read
                continue
            if self.session.closing() or self.session.waits_for() != ServeWaitsFor.no or not self.session.has_backlog():
                break
            self.borrow()
            self.session.proceed()
        self.wake_broker()
        needs_caller = (
            self.session.waits_for() == ServeWaitsFor.request or self.session.out.size() > 0
            or not self.session.wants_input() or self.eof or self.lost
        )
        result = self.needed_caller or needs_caller
        self.needed_caller = needs_caller
        return result

    cdef int encode_columns(self) except -1:
        """Answers the pending PollMany with the encoded streams of its columns."""
        cdef vector[shared_ptr[CColumnBatch]] taken = self.session.take_columns()
        cdef vector[Bytes] streams
        cdef vector[Py_buffer] views
        cdef Py_buffer view
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
        batches = columns = None  # free their memory before the reply takes as much
        try:
            for each in encoded:
                PyObject_GetBuffer(each, &view, PyBUF_SIMPLE)
                views.push_back(view)
                streams.push_back(Bytes(view.buf, <size_t>view.len))
            self.session.answer_columns(streams)
        finally:
            for i in range(views.size()):
                PyBuffer_Release(&views[i])
        return 0

    cdef bint flush(self, int fd):
        """Sends `out`; returns false if the client cannot receive more now."""
        cdef ssize_t n
        while self.sent < self.session.out.size():
            if self.lost:
                break
            n = c_send(fd, self.session.out.chars() + self.sent, self.session.out.size() - self.sent,
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
        if self.session.out.room() > self.server.scratch.room():
            self.session.out.swap(self.server.scratch)
        self.session.out.release()
        self.server.scratch.clear()
        return True
