"""Many clients in one thread: each polls changes of a schema's tables, and reconnects when it is cut off."""

from __future__ import annotations

import random
import selectors
import socket
import struct
import threading
import time
from typing import Final

import msgspec

from relay.client import Row
from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, Discard, Format, Result, TableFilter
from tests.support.relay_process import SECRET
from tests.support.waiting import patience, until
from tests.support.workload import Change

RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing is a reset, and leaves no TIME_WAIT
_WAIT_MS: Final = 1000
_BACK_SECONDS: Final = 0.2
_rows: Final = msgspec.msgpack.Decoder(list[Row]).decode


def address(number: int) -> str:
    """One of many loopback addresses."""
    return f"127.1.{number // 250 % 250}.{number % 250 + 1}"


class Member:
    """One client, as an ordeal looks at it. Of each row it keeps what it is and its number."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source  # the address that it comes from
        self.times: list[float] = []
        self.rows: list[tuple[int, str, str, object]] = []
        self.repeated: list[float] = []
        self.attached = False
        self.sock: socket.socket | None = None
        self.back = 0.0  # when it connects again
        self.step = Command.AUTH
        self.identity = classic.Identity(0, 0, 0)
        self.replies = classic.ReplyParser()

    def wants(self, change: Change) -> bool:
        return True

    def check(self, wanted: list[Change]) -> None:
        """It has exactly these, in order."""
        got = [row[1:] for row in self.rows]
        should = [(change.kind, change.table, (change.after or change.before or {})["id"]) for change in wanted]
        assert got == should, f"{self.name}: {len(got)} rows of {len(should)}, or in another order"

    def stop(self) -> None:
        """The herd is stopped as one."""

    def take(self, row: Row) -> None:
        """A row came."""
        if self.rows and row.sequence <= self.rows[-1][0]:
            self.repeated.append(time.monotonic())
            return
        assert not self.rows or row.sequence == self.rows[-1][0] + 1, f"{self.name}: a row is missing"
        self.rows.append((row.sequence, row.kind, row.table, (row.after or row.before or {})["id"]))
        self.times.append(time.monotonic())


class Herd:
    """`count` members named `name-N` that read `schema`, in a `with` block; they are attached when it begins."""

    def __init__(self, port: int, name: str, count: int, schema: str) -> None:
        self.members = [Member(f"{name}-{number}", address(number)) for number in range(count)]
        self._port, self._schema = port, schema
        self._selector = selectors.DefaultSelector()
        self._left: list[socket.socket] = []  # nobody reads them, and nobody closes them
        self._orders: list[str] = []
        self._dice = random.Random(count)
        self._stop = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Herd:
        self._thread.start()
        until(lambda: self._error or all(member.attached for member in self.members), 120, "they do not attach")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._thread.join(patience(30))
        for sock in self._left:
            sock.close()
        if self._error:
            raise self._error

    def reconnect_all(self) -> None:
        """All lose their connections, and come back at once."""
        self._do("reset")

    def abandon_all(self) -> None:
        """All come back over new connections; the old ones stay as they are, as when a network goes away."""
        self._do("abandon")

    def _do(self, order: str) -> None:
        self._orders.append(order)
        until(lambda: not self._orders or self._error, 60)

    def _run(self) -> None:
        try:
            while not self._stop:
                self._turn()
        except BaseException as error:  # told to the thread that ends the herd
            self._error = error
        for member in self.members:
            if member.sock is not None:
                member.sock.close()

    def _turn(self) -> None:
        now = time.monotonic()
        for order in self._orders:
            for member in self.members:
                self._leave(member, keep=order == "abandon", pause=0.0)
        self._orders.clear()
        for member in self.members:
            if member.sock is None and member.back <= now:
                self._connect(member)
        for key, _ in self._selector.select(0.05):
            member = key.data
            try:
                data = member.sock.recv(1 << 18)
                if not data:
                    raise ConnectionResetError
                member.replies.feed(data)
                while (reply := member.replies.next()) is not None:
                    self._answered(member, reply)
            except OSError:
                self._leave(member, keep=False, pause=self._dice.uniform(0, _BACK_SECONDS))

    def _connect(self, member: Member) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        try:
            sock.settimeout(patience(10))
            sock.bind((member.source, 0))
            sock.connect(("127.0.0.1", self._port))
        except OSError:
            sock.close()
            member.back = time.monotonic() + self._dice.uniform(0, _BACK_SECONDS)
            return
        member.sock, member.replies, member.step = sock, classic.ReplyParser(), Command.AUTH
        self._selector.register(sock, selectors.EVENT_READ, member)
        self._send(member, classic.encode_auth(classic_keys.fnv1a64(SECRET.encode()), member.name))

    def _leave(self, member: Member, *, keep: bool, pause: float) -> None:
        if member.sock is None:
            return
        self._selector.unregister(member.sock)
        if keep:
            self._left.append(member.sock)
        else:
            member.sock.close()
        member.sock, member.back = None, time.monotonic() + pause

    def _answered(self, member: Member, reply: classic.Reply) -> None:
        if reply.result == Result.DISCONNECTED:
            raise ConnectionResetError
        assert reply.result == Result.OK, f"{member.name}: {reply.text}"
        if member.step == Command.AUTH:
            member.identity = classic.parse_identity(reply.payload)
            member.step = Command.ADD_FILTER
            wanted = TableFilter(classic.ALL_KINDS, Discard.NEWEST, 0, self._schema, "*")
            self._send(member, classic.encode_filter(wanted))
            return
        member.attached = True
        if member.step == Command.POLL_MANY:
            count = int.from_bytes(reply.payload[:4], "little")
            for row in _rows(b"\xdd" + count.to_bytes(4, "big") + reply.payload[4:]):
                member.take(row)
        member.step = Command.POLL_MANY
        confirmed = member.rows[-1][0] if member.rows else 0
        self._send(member, classic.encode_poll_many(classic.PollMany(1000, 0, _WAIT_MS, confirmed, Format.MSGPACK)))

    def _send(self, member: Member, payload: bytes) -> None:
        assert member.sock is not None
        identity = member.identity
        request = classic.encode_request(member.step, payload, client_id=identity.client_id, token=identity.token)
        member.sock.sendall(request)
