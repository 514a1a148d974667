"""A client that sends PollMany to a server in the same process."""

from __future__ import annotations

import socket

import msgspec

from relay._native import Server, Session
from relay.protocol import classic
from tests.support.queue_line import Line


class ManyPoller:
    """A connection to a server of the queue's memory."""

    def __init__(self, line: Line, server: Server, id: int) -> None:
        slot, self.queue = line.client(id)
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        self._session = Session(server, 1 << 16)
        self._session.identify(id, slot, 7, 0, "192.0.2.1")
        self._id = id
        self._parser = classic.ReplyParser()  # verifies checksums
        self.confirmed = 0

    def poll(self, rows: int, most: int, format: classic.Format) -> bytes:
        """The reply to a PollMany that confirms the rows before it, `confirmed` of them."""
        payload = classic.encode_poll_many(classic.PollMany(rows, most, 0, self.confirmed, format))
        request = classic.encode_request(classic.Command.POLL_MANY, payload, client_id=self._id, token=7)
        self._theirs.sendall(request)
        self._session.exchange(self._ours.fileno())
        reply = self._theirs.recv(1 << 20)
        self._parser.feed(reply)
        assert self._parser.next(), "the socket did not take the reply whole"
        if reply[0] == classic.Result.OK:
            self.confirmed += int.from_bytes(reply[9:13], "little")
        return reply

    def poll_ids(self, rows: int, most: int = 0) -> list[int]:
        """The ids of the rows in such a reply: column `id`, of both images of an update."""
        reply = self.poll(rows, most, classic.Format.MSGPACK)
        count = int.from_bytes(reply[9:13], "little")
        decoded = msgspec.msgpack.decode(b"\xdd" + count.to_bytes(4, "big") + reply[13:])
        return [(row[7] or row[6])["id"] for row in decoded]

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()
