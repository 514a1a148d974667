"""The connections of a server process: their replies, their clients, and their ends."""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections.abc import Callable
from itertools import count
from typing import Final

from relay._native import Poller, Server, Session
from relay.base.errors import RelayError
from relay.net.access import Access
from relay.net.rejections import RejectionLog
from relay.protocol import classic
from relay.protocol.classic import Identity, Result
from relay.protocol.classic_states import ADMIN_COMMANDS, State
from relay.runtime.context import ServerContext
from relay.serving import arrow
from relay.serving.admission import MOST_EXTRA, Admission, Newcomers
from relay.serving.connection import Connection
from relay.serving.deadlines import Deadlines

LINGER_SECONDS: Final = 2.0
"""The time that a client has to read the last reply, with the reason, before its connection is closed."""

STALL_SECONDS: Final = 60.0
"""The time for which a client may leave its replies unread before its connection is closed."""

_HUNG_UP = select.EPOLLHUP | select.EPOLLERR
_FAILURES = (RelayError, RuntimeError, MemoryError)


class Connections:
    """All connections, by descriptor; those with a client also by its id.

    `handle` answers the request that a connection holds. `other_descriptors` returns the number of descriptors that
    belong to no connection yet.
    """

    def __init__(
        self,
        context: ServerContext,
        native: Server,
        epoll: select.epoll,
        poller: Poller,
        access: Access,
        rejections: RejectionLog,
        handle: Callable[[Connection], None],
        other_descriptors: Callable[[], int],
    ) -> None:
        self.now = time.monotonic()
        self.max_payload = context.config.relay.max_request_bytes
        self._log = context.log
        self._native = native
        self._epoll = epoll
        self._poller = poller
        self._access = access
        self._rejections = rejections
        self._handle = handle
        self._other_descriptors = other_descriptors
        self._all: dict[int, Connection] = {}  # by descriptor
        self._holders: dict[int, Connection] = {}  # by client id
        self.local = 0  # connections of the admin socket
        self._newcomers = Newcomers()
        self.deadlines = Deadlines(self._all)
        self._numbers = count(1)
        context.connections[context.index] = 0
        self.admission = Admission(context.connections, context.index, context.config)

    # -- opening and closing --

    def admit(self, sock: socket.socket, address: str) -> None:
        """Add an accepted connection, or reject it if the limits are reached."""
        reason = self.admission.reason_to_reject(self._descriptors)
        if reason and self._newcomers.extra >= MOST_EXTRA:
            self._rejections("connection_refused", client="", peer=address, reason=reason)
            sock.close()  # only MOST_EXTRA connections beyond the limits are kept open to read the reason
            return
        connection = self._add(sock, address)
        self._newcomers.add(connection, self.now, reason)
        self._publish_count()
        if reason and not (self._access.has_admin and self._access.may_administrate(address)):
            self._reject(connection, reason)

    def admit_local(self, sock: socket.socket, address: str) -> None:
        """Add a connection of the admin socket; it does not count towards MaxConnections."""
        self.local += 1
        self._newcomers.add(self._add(sock, address, local=True), self.now)

    def may_accept(self) -> bool:
        """Whether to accept clients. False if only other processes have descriptors left."""
        return not self.admission.others_have_descriptors(self._descriptors)

    def is_open(self, connection: Connection) -> bool:
        """Whether the connection still exists."""
        return self._all.get(connection.fd) is connection

    def drop(self, connection: Connection) -> None:
        """Close the connection."""
        self.release(connection)
        self._newcomers.closed(connection)
        del self._all[connection.fd]
        self.local -= connection.local
        self._poller.detach(connection.fd)
        self._epoll.unregister(connection.fd)  # closing is not enough: another server may have the socket too
        connection.sock.close()
        self._publish_count()

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._all.values()):
            self.drop(connection)

    def tick(self) -> None:
        """Close connections that did not log in in time. Call it about once a second."""
        for connection in self._newcomers.pop_late(self.now):
            self._rejections("login_late", peer=connection.address)
            self.drop(connection)
        self._publish_count()

    def _add(self, sock: socket.socket, address: str, local: bool = False) -> Connection:
        session = Session(self._native, self.max_payload)
        connection = Connection(sock, session, address, next(self._numbers), local)
        connection.interest = select.EPOLLIN
        self._epoll.register(connection.fd, connection.interest)
        self._poller.attach(connection.fd, connection.session)
        self._all[connection.fd] = connection
        self._publish_count()
        return connection

    def _publish_count(self) -> None:
        self.admission.publish(len(self._all) - self._newcomers.extra - self.local, self._descriptors)

    @property
    def _descriptors(self) -> int:
        reserved = self.admission.descriptors_each * self._newcomers.extra + self.local
        return len(self._all) + self._other_descriptors() - reserved

    def _reject(self, connection: Connection, reason: str, unsent: bytes = b"") -> None:
        """Reject a connection that cannot be admitted."""
        self._rejections("connection_refused", client=connection.name, peer=connection.address, reason=reason)
        self.refuse(connection, unsent + classic.encode_error(reason))

    def _fail(self, connection: Connection, error: Exception) -> None:
        self._log("connection_failed", client=connection.name, peer=connection.address, error=error)
        if self.is_open(connection):
            self.drop(connection)

    # -- replies --

    def answer(self, connection: Connection, reply: bytes) -> None:
        """Send the reply to the pending request, and continue with the next ones."""
        connection.answering = False
        connection.session.answer(connection.fd, reply)
        self._attend(connection)

    def refuse(self, connection: Connection, reply: bytes) -> None:
        """Send the reply and end the connection."""
        connection.answering = False
        connection.session.refuse(connection.fd, reply)
        self._attend(connection)

    def serve_columns(self, connection: Connection) -> None:
        """Answer the pending poll for columns. From now on the session answers such polls by itself."""
        self._native.encode_with(arrow.encode)
        connection.answering = False
        connection.session.poll_again(connection.fd)
        self._attend(connection)

    def handle_ready(self, fd: int, event: int, session: Session, error: Exception | None) -> None:
        """Handle a descriptor whose session has exchanged data and needs attention, or has failed with an error."""
        connection = self._all.get(fd)
        if connection is None or connection.session is not session:
            return
        try:
            if error is not None:
                raise error
            self._attend(connection)
            if event & _HUNG_UP and not connection.interest & select.EPOLLIN and self.is_open(connection):
                self.drop(connection)
        except _FAILURES as failure:
            self._fail(connection, failure)

    def finish(self) -> None:
        """Answer all polls that wait for rows."""
        for connection in list(self._all.values()):
            if connection.session.waits_for_rows:
                connection.session.expire(connection.fd)
                self._attend(connection)

    def flush(self, fd: int) -> None:
        """Send more of the unsent replies, if the descriptor belongs to a connection."""
        connection = self._all.get(fd)
        if connection is not None and connection.session.unsent:
            connection.session.exchange(fd)
            self._attend(connection)

    @property
    def unsent(self) -> bool:
        """Whether there are unsent replies."""
        return any(connection.session.unsent for connection in self._all.values())

    def _attend(self, connection: Connection) -> None:
        """Handle a connection that does more than wait for a request."""
        session = connection.session
        if connection.attending:
            return
        connection.attending = True
        while self.is_open(connection) and session.waits_for_answer and not connection.answering:
            connection.answering = True
            if (reason := self._newcomers.reason_to_reject(connection)) and session.command not in ADMIN_COMMANDS:
                self._reject(connection, reason)
            else:
                self._handle(connection)
        connection.attending = False
        if not self.is_open(connection):
            return
        if session.finished:
            self.drop(connection)
            return
        if session.waits_for_rows:
            self._poller.expect_rows(connection.fd)
        if session.unsent:
            self._set_deadline(connection, "unsent", STALL_SECONDS, session.total)
        elif session.closing:
            self._shut_down(connection)
        else:
            connection.deadline_kind = ""
        interest = (select.EPOLLIN if session.wants_input else 0) | (select.EPOLLOUT if session.unsent else 0)
        if interest != connection.interest:
            connection.interest = interest
            self._epoll.modify(connection.fd, interest)

    def _shut_down(self, connection: Connection) -> None:
        """Shut down our side when everything is sent, and read on for a while: an early close could lose sent data."""
        if connection.shut_down:
            return
        connection.shut_down = True
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.drop(connection)
            return
        self._set_deadline(connection, "goodbye", LINGER_SECONDS, 0)

    # -- clients --

    def identified(self, connection: Connection) -> None:
        """Keep the connection: it has logged in, or has given an admin command that was accepted."""
        self._newcomers.identified(connection)

    def bind(self, connection: Connection, received: bytes = b"", unsent: bytes = b"") -> None:
        """Give the connection its client's queue. The connection that had it before ends at its next request.

        A login that its sender has given up may come late, behind the sender's next one: it takes nothing over.
        """
        self.identified(connection)
        former = self._holders.get(connection.client_id)
        if former is not None:
            if connection.given_up and not former.given_up:
                self._reject(connection, "the client has closed this connection, and has another one", unsent)
                return
            self._log("client_taken_over", client=connection.name, peer=connection.address, former=former.address)
            self._replace(former)
        self._holders[connection.client_id] = connection
        connection.state = State.IDENTIFIED
        token = secrets.randbits(32)
        connection.session.identify(connection.client_id, connection.slot, token, connection.key, connection.address)
        identity = classic.encode_identity(Identity(connection.key, token, connection.client_id))
        connection.answering = False
        reply = classic.encode_reply(Result.OK, identity)
        connection.session.resume(connection.fd, received, unsent, reply)
        self._attend(connection)

    def take_over(self, sock: socket.socket, address: str, name: str, key: int, unsent: bytes) -> Connection | None:
        """Add a client's connection that another server has accepted. None, and rejected, if no descriptor is left."""
        reason = self.admission.reason_without_descriptor(self._descriptors)
        connection = self._add(sock, address)
        connection.name, connection.key = name, key
        if not reason:
            return connection
        self._newcomers.add(connection, self.now, reason)
        self._reject(connection, reason, unsent)
        return None

    def release(self, connection: Connection) -> None:
        """Take the client from the connection."""
        if self._holders.get(connection.client_id) is connection:
            del self._holders[connection.client_id]
            connection.session.release()

    def kick(self, client_id: int, reason: str) -> None:
        """End the connection of a client, if it has one here."""
        connection = self._holders.get(client_id)
        if connection is not None:
            self._log("client_kicked", client=connection.name, peer=connection.address, reason=reason)
            connection.session.release()  # no other connection replaces it: the client is disconnected from now on
            self._replace(connection)

    def _replace(self, connection: Connection) -> None:
        connection.state = State.REPLACED
        self._holders.pop(connection.client_id, None)
        connection.session.replace(connection.fd)
        self._attend(connection)

    # -- deadlines --

    def expire(self) -> None:
        """Act on deadlines that are over."""
        for connection, kind in self.deadlines.pop_due(self.now):
            if kind == "unsent" and connection.session.total != connection.counted:
                self._attend(connection)
            else:
                if kind == "unsent":
                    unsent = connection.session.unsent
                    self._log("client_stalled", client=connection.name, peer=connection.address, unsent=unsent)
                self.drop(connection)

    def _set_deadline(self, connection: Connection, kind: str, seconds: float, counted: int) -> None:
        self.deadlines.set(connection, kind, self.now + seconds, counted)
