"""A server process: accepts clients, answers their polls from the queues it owns, and hands on the clients of others.

A client belongs to the server with the index `client id mod workers`; whichever server accepted its connection sends
the socket there once the client has authenticated. One epoll loop does it all; while requests are polls, native code
receives, answers and sends by itself (`Poller`).
"""

from __future__ import annotations

import array
import secrets
import select
import signal
import socket
import time
from itertools import count
from typing import Final

from relay import messages
from relay._native import Poller, Server, Session
from relay.config import Config
from relay.context import ServerContext
from relay.errors import RelayError, StopCode
from relay.messages import Handover, LeaveOut, Order
from relay.serving import arrow, timezone
from relay.serving.access import Access
from relay.serving.answers import Answers
from relay.serving.broker_link import BrokerLink
from relay.serving.deadlines import Deadlines
from relay.serving.door import Door
from relay.serving.peer import Peer
from relay.serving.refusals import Refusals
from relay.serving.room import MOST_EXTRA, Newcomers, Room
from relay.wire import classic
from relay.wire.classic import Identity, Result
from relay.wire.states import ADMIN_COMMANDS, State

BEAT_SECONDS: Final = 1.0
"""How often the loop turns at least."""

LINGER_SECONDS: Final = 2.0
"""How long a client may take to notice that its connection ends, so that it gets the reply that says why."""

STALL_SECONDS: Final = 60.0
"""How long a client may leave its replies unread before its connection is closed."""

STOP_SECONDS: Final = 2.0
"""How long replies in hand may take to leave when the server is told to stop."""

_HUNG_UP = select.EPOLLHUP | select.EPOLLERR
_PACKET = 1 << 20


def run(context: ServerContext) -> int:
    """Serves until told to stop; then replies in hand leave, and it returns 0."""
    timezone.set_process_zone(context.config.relay.time_zone)
    loop = _Loop(context)
    context.arena.mark_running(context.slot)
    try:
        loop.serve()
        loop.finish()
    finally:
        loop.close()
    return 0


class _Loop:
    """The epoll loop, and all connections of this process."""

    def __init__(self, context: ServerContext) -> None:
        assert context.broker is not None
        self._context = context
        self._log = context.log
        self._inbox = context.inboxes[context.index][0]
        relay = context.config.relay
        self._native = Server(
            context.arena,
            str(context.journal_dir),
            null_text=relay.null_text,
            utc=relay.time_zone == "UTC",
            event_position=relay.event_position,
            at_most_once=relay.delivery == "at-most-once",
            max_repeats=relay.max_repeats,
            broker_wake=context.broker_wake,
        )
        self._native.clear_connections(context.index, context.workers)
        self.now = time.monotonic()
        self._epoll = select.epoll()
        self._poller = Poller(self._epoll.fileno())
        self._peers: dict[int, Peer] = {}  # by descriptor
        self._holders: dict[int, Peer] = {}  # by client id
        self._waiting: dict[int, Peer] = {}  # for rows, by descriptor
        self._newcomers = Newcomers()
        self._deadlines = Deadlines(self._peers)
        self._numbers = count(1)
        self._access = Access(context.config)
        self._refusals = Refusals(context.log)
        self._door = Door(context, self._epoll, self._access, self._refusals, self._admit, self._may_accept)
        self._broker = BrokerLink(context.broker, self._ordered, lambda: bool(context.arena.committed))
        self._answers = Answers(context, self._broker, self, self._access, self._refusals)
        self._wakeup, wakeup = socket.socketpair()
        for end in (self._wakeup, wakeup):
            end.setblocking(False)
        self._wakeup_end = wakeup
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        # By its edges: each write wakes once, and nothing has to be read between it and the rows.
        self._epoll.register(context.wake, select.EPOLLIN | select.EPOLLET)
        for fd in (self._broker.fileno(), self._inbox.fileno(), self._wakeup.fileno()):
            self._epoll.register(fd, select.EPOLLIN)
        context.connections[context.index] = 0
        self._room = Room(context.connections, context.index, context.config)
        self._limit(context.config)
        context.apply = self._apply
        self._door.open()

    def _limit(self, config: Config) -> None:
        self._native.max_reply = config.relay.max_buffered_bytes
        self._max_payload = config.relay.max_request_bytes

    def _apply(self, config: Config) -> None:
        """Work with this configuration from now on; who is connected stays so. Raises `RelayError`."""
        self._door.apply(config)
        self._access.apply(config)
        self._room.apply(config)
        self._limit(config)
        self._answers.apply(config)

    def serve(self) -> None:
        """Serve until `context.stopping`."""
        beat_due = 0.0
        while not self._context.stopping:
            ready = self._poller.wait(min(beat_due, self._deadlines.first))
            self.now = time.monotonic()
            for fd, event, session, error in ready:
                if session is None:
                    self._other(fd)
                elif (peer := self._peers.get(fd)) is not None and peer.session is session:
                    self._go_on(peer, event, error)
            self._expire()
            if self.now >= beat_due:
                beat_due = self.now + BEAT_SECONDS
                self._beat()

    def _go_on(self, peer: Peer, event: int, error: Exception | None) -> None:
        """The peer's session has exchanged, or failed with an error, and needs somebody to look after it."""
        try:
            if error is not None:
                raise error
            self._attend(peer)
            if event & _HUNG_UP and not peer.interest & select.EPOLLIN and self.is_open(peer):
                self._drop(peer)
        except (RelayError, RuntimeError, MemoryError) as broken:
            self._broken(peer, broken)

    def finish(self) -> None:
        """Answer who waits, and give replies in hand and what the broker still does a little time."""
        self._door.shut()
        for peer in list(self._waiting.values()):
            peer.session.expire(peer.fd)
            self._attend(peer)
        until = self.now + STOP_SECONDS
        while (self._broker.busy or any(peer.session.unsent for peer in self._peers.values())) and self.now < until:
            events = self._epoll.poll(min(0.1, until - self.now))
            self.now = time.monotonic()
            for fd, _ in events:
                if fd == self._broker.fileno():
                    self._broker.receive()
                elif (slow := self._peers.get(fd)) is not None and slow.session.unsent:
                    slow.session.exchange(fd)
                    self._attend(slow)

    def close(self) -> None:
        """Close every connection."""
        signal.set_wakeup_fd(-1)
        for peer in list(self._peers.values()):
            self._drop(peer)
        self._door.close()
        self._refusals.close()
        self._wakeup.close()
        self._wakeup_end.close()
        self._epoll.close()

    # -- what the answers need --

    def answer(self, peer: Peer, reply: bytes) -> None:
        """Send the reply to the held request, and let the next ones come."""
        peer.asked = False
        peer.session.answer(peer.fd, reply)
        self._attend(peer)

    def refuse(self, peer: Peer, reply: bytes) -> None:
        """Send the reply and end the connection."""
        peer.asked = False
        peer.session.refuse(peer.fd, reply)
        self._attend(peer)

    def is_open(self, peer: Peer) -> bool:
        """Whether the connection still exists."""
        return self._peers.get(peer.fd) is peer

    def identified(self, peer: Peer, client_id: int, slot: int) -> None:
        """The peer has proved to be that client: bind it here, or send it to the server that owns the client."""
        self._let_go(peer)
        peer.client_id, peer.slot = client_id, slot
        owner = client_id % self._context.workers
        if owner == self._context.index:
            self._bind(peer, b"", b"")
        else:
            self._hand_over(peer, owner)

    def proven(self, peer: Peer) -> None:
        """The peer has given an admin command that was taken: it may stay."""
        self._newcomers.known(peer)

    def serve_columns(self, peer: Peer) -> None:
        """Answer the held poll for columns, and from now on each without asking here."""
        self._native.encode_with(arrow.encode)
        peer.asked = False
        peer.session.poll_again(peer.fd)
        self._attend(peer)

    # -- the life of a connection --

    def _add(self, sock: socket.socket, address: str) -> Peer:
        peer = Peer(sock, Session(self._native, self._max_payload), address, next(self._numbers))
        peer.interest = select.EPOLLIN
        self._epoll.register(peer.fd, peer.interest)
        self._poller.attach(peer.fd, peer.session)
        self._peers[peer.fd] = peer
        self._publish_count()
        return peer

    def _publish_count(self) -> None:
        self._room.publish(len(self._peers) - self._newcomers.extra, self._descriptors)

    def _bind(self, peer: Peer, received: bytes, unsent: bytes) -> None:
        """Give the peer the client's queue; a connection that had it before is told at its next request."""
        self._newcomers.known(peer)
        former = self._holders.get(peer.client_id)
        if former is not None:
            self._log("client_taken_over", client=peer.name, peer=peer.address, former=former.address)
            self._replace(former)
        self._holders[peer.client_id] = peer
        peer.state = State.IDENTIFIED
        token = secrets.randbits(32)
        peer.session.identify(peer.client_id, peer.slot, token, peer.key, peer.address)
        identity = classic.encode_identity(Identity(peer.key, token, peer.client_id))
        reply = classic.encode_reply(Result.OK, identity)
        peer.asked = False
        peer.session.resume(peer.fd, received, unsent, reply)
        self._attend(peer)

    def _replace(self, peer: Peer) -> None:
        peer.state = State.REPLACED
        self._holders.pop(peer.client_id, None)
        peer.session.replace(peer.fd)
        self._attend(peer)

    def _let_go(self, peer: Peer) -> None:
        """The peer no longer holds a client."""
        if self._holders.get(peer.client_id) is peer:
            del self._holders[peer.client_id]
            peer.session.release()

    def _drop(self, peer: Peer) -> None:
        self._let_go(peer)
        self._waiting.pop(peer.fd, None)
        self._newcomers.gone(peer)
        del self._peers[peer.fd]
        self._poller.detach(peer.fd)
        self._epoll.unregister(peer.fd)  # closing is not enough: the socket may live on in another server
        peer.sock.close()
        self._publish_count()

    def _broken(self, peer: Peer, error: Exception) -> None:
        self._log("connection_failed", client=peer.name, peer=peer.address, error=error)
        if self.is_open(peer):
            self._drop(peer)

    def _ordered(self, order: Order) -> None:
        if isinstance(order, LeaveOut):
            self._native.leave_out(order.client_id, order.slot, order.number)
            return
        peer = self._holders.get(order.client_id)
        if peer is not None:
            self._log("client_kicked", client=peer.name, peer=peer.address, reason=order.reason)
            peer.session.release()  # nobody takes its place: the client is away from now on
            self._replace(peer)

    def _attend(self, peer: Peer) -> None:
        """Look after a connection that does not just wait for a request."""
        session = peer.session
        if peer.busy:
            return
        peer.busy = True
        while self.is_open(peer) and session.waits_for_answer and not peer.asked:
            peer.asked = True
            if (full := self._newcomers.refusal(peer)) and peer.session.command not in ADMIN_COMMANDS:
                self._turn_away(peer, full)
            else:
                self._answers.handle(peer)
        peer.busy = False
        if not self.is_open(peer):
            return
        if session.finished:
            self._drop(peer)
            return
        if session.waits_for_rows:
            self._waiting[peer.fd] = peer
            self._time(peer, "rows", session.wait_seconds, session.waits)
        else:
            self._waiting.pop(peer.fd, None)
            if session.unsent:
                self._time(peer, "unsent", STALL_SECONDS, session.total)
            elif session.closing:
                self._say_goodbye(peer)
            else:
                peer.timed = ""
        interest = (select.EPOLLIN if session.wants_input else 0) | (select.EPOLLOUT if session.unsent else 0)
        if interest != peer.interest:
            peer.interest = interest
            self._epoll.modify(peer.fd, interest)

    def _say_goodbye(self, peer: Peer) -> None:
        """Everything is sent: end our side, and read on for a while, lest what we sent be lost with the connection."""
        if peer.goodbye:
            return
        peer.goodbye = True
        try:
            peer.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(peer)
            return
        self._time(peer, "goodbye", LINGER_SECONDS, 0)

    # -- deadlines --

    def _time(self, peer: Peer, about: str, seconds: float, mark: int) -> None:
        self._deadlines.set(peer, about, self.now + seconds, mark)

    def _expire(self) -> None:
        for peer, about in self._deadlines.over(self.now):
            if about == "rows":
                peer.session.expire(peer.fd)
                self._attend(peer)
            elif about == "unsent" and peer.session.total != peer.mark:
                self._attend(peer)
            else:
                if about == "unsent":
                    self._log("client_stalled", client=peer.name, peer=peer.address, unsent=peer.session.unsent)
                self._drop(peer)

    def _beat(self) -> None:
        self._context.beat()
        self._broker.tick(self.now)
        self._answers.tick()
        self._refusals.tick()
        self._native.release_before(self._context.arena.first)
        self._tell_damage()
        for peer in self._newcomers.late(self.now):
            self._refusals("login_late", peer=peer.address)
            self._drop(peer)
        self._door.tick(self.now)
        self._publish_count()

    def _tell_damage(self) -> None:
        """A damaged journal keeps some clients' rows from them: a named stop, while all others are served."""
        damage = self._native.take_damage()
        if not damage or self._context.arena.stop() is not None:
            return
        error = RelayError(StopCode.JOURNAL_CORRUPT, "serve rows", damage)
        self._context.arena.set_stop(str(error.code), str(error), error.hint)
        self._log("rows_unreadable", code=error.code, error=error, hint=error.hint)

    # -- everything that is not a connection --

    def _other(self, fd: int) -> None:
        if fd == self._context.wake:
            self._wake()
            self._context.take_config()
            self._answers.tick()
        elif fd == self._broker.fileno():
            self._broker.receive()
        elif fd == self._inbox.fileno():
            self._take_over()
        elif fd == self._wakeup.fileno():
            self._wakeup.recv(4096)
        else:
            self._door.handle(fd)

    def _wake(self) -> None:
        """The broker has put rows into queues that are waited for."""
        for peer in list(self._waiting.values()):
            try:
                if peer.session.wake(peer.fd):
                    self._attend(peer)
            except (RelayError, RuntimeError, MemoryError) as error:
                self._broken(peer, error)

    @property
    def _descriptors(self) -> int:
        return len(self._peers) + self._door.descriptors - self._room.each * self._newcomers.extra  # those are reserved

    def _may_accept(self) -> bool:
        return not self._room.is_elsewhere(self._descriptors)

    def _admit(self, sock: socket.socket, address: str) -> None:
        full = self._room.full(self._descriptors)
        if full and self._newcomers.extra >= MOST_EXTRA:
            self._refusals("connection_refused", client="", peer=address, reason=full)
            sock.close()  # there is room only for some who take their time to read why
            return
        peer = self._add(sock, address)
        self._newcomers.add(peer, self.now, full)
        self._publish_count()
        if full and not (self._access.has_admin and self._access.may_administrate(address)):
            self._turn_away(peer, full)

    def _turn_away(self, peer: Peer, full: str, unsent: bytes = b"") -> None:
        """There is no room for the peer."""
        self._refusals("connection_refused", client=peer.name, peer=peer.address, reason=full)
        self.refuse(peer, unsent + classic.encode_error(full))

    # -- clients of other servers --

    def _hand_over(self, peer: Peer, owner: int) -> None:
        received, unsent = peer.session.take()
        packet = messages.encode(
            Handover(peer.client_id, peer.slot, peer.name, peer.key, peer.address, received, unsent)
        )
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [peer.fd]))]
        try:
            self._context.inboxes[owner][1].sendmsg([packet], rights)
        except OSError as error:
            self._log("hand_over_failed", client=peer.name, peer=peer.address, server=owner, error=error)
        self._drop(peer)

    def _take_over(self) -> None:
        """Clients of ours that other servers have accepted."""
        while True:
            try:
                packet, ancillary, _, _ = self._inbox.recvmsg(_PACKET, socket.CMSG_SPACE(array.array("i").itemsize))
            except BlockingIOError:
                return
            handover = messages.decode_handover(packet)
            descriptors = array.array("i")
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(data)
            if not descriptors:
                self._log("hand_over_failed", client=handover.name, peer=handover.peer, error="no descriptor received")
                continue
            full = self._room.exhausted(self._descriptors)
            peer = self._add(socket.socket(fileno=descriptors[0]), handover.peer)
            peer.name, peer.key = handover.name, handover.key
            if full:
                self._newcomers.add(peer, self.now, full)
                self._turn_away(peer, full, handover.unsent)
                continue
            peer.client_id, peer.slot = handover.client_id, handover.slot
            self._bind(peer, handover.received, handover.unsent)
