"""A client of the classic protocol that checks what it is told, and the rows of its replies."""

from __future__ import annotations

import socket
import struct
from functools import partial
from typing import Any

import msgspec

from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, PollMany, Reply, Result, TableFilter
from tests.support.waiting import patience, until

SECRET = "a-secret"
KEY = classic_keys.fnv1a64(SECRET.encode())
SECONDS = 20.0  # for a reply
PONG = Reply(Result.OK, b"PONG\0")


class Client:
    """A plain client of the classic protocol, written from docs/protocol.md alone.

    `source`: the address to connect from.
    """

    def __init__(self, port: int, source: str = "") -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), patience(SECONDS), (source, 0))
        self.client_id = self.token = 0
        self._replies = classic.ReplyParser()

    def close(self) -> None:
        """Closes the connection."""
        self.sock.close()

    def send(self, command: int, payload: bytes = b"", **ids: int) -> None:
        """Sends a request, by default with the connection's own ids."""
        ids = {"client_id": self.client_id, "token": self.token, **ids}
        self.sock.sendall(classic.encode_request(command, payload, **ids))

    def receive(self) -> Reply:
        """The next reply."""
        while (reply := self._replies.next()) is None:
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError("the relay closed the connection")
            self._replies.feed(data)
        return reply

    def ask(self, command: int, payload: bytes = b"", **ids: int) -> Reply:
        """Sends a request and receives its reply."""
        self.send(command, payload, **ids)
        return self.receive()

    def wait_for_rows(self) -> None:
        """Sends a PollMany that waits for an hour, and returns when the server has it."""
        request = partial(classic.encode_request, client_id=self.client_id, token=self.token)
        self.sock.sendall(request(Command.PING) + request(*many(wait=3600)))
        assert self.receive().result == Result.OK

    def closed(self) -> bool:
        """Whether the relay closes the connection without sending more."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def authenticate(self, name: str, key: int = KEY) -> Reply:
        """Authenticates; on success, the ids are used from now on."""
        reply = self.ask(Command.AUTH, classic.encode_auth(key, name))
        if reply.result == Result.OK:
            _, self.token, self.client_id = classic.parse_identity(reply.payload)
        return reply

    def add_filter(self, schema: str, table: str, kinds: int = 7, limit: int = 0, discard: int = 2) -> Reply:
        """Adds a filter."""
        return self.ask(Command.ADD_FILTER, classic.encode_filter(TableFilter(kinds, discard, limit, schema, table)))

    def poll(self, seconds: float = SECONDS) -> dict[str, Any]:
        """The next row; polls until there is one."""

        def replied() -> Reply | None:
            reply = self.ask(Command.POLL)
            return None if reply.result == Result.EMPTY else reply

        reply: Reply = until(replied, seconds, "no row came", 0.002)
        assert reply.result == Result.OK, reply
        return parse_row(reply.payload)

    def ids(self, count: int) -> list[int]:
        """The ids of the next rows."""
        return [self.poll()["id"] for _ in range(count)]

    def poll_many(
        self, rows: int = 1000, confirmed: int = 0, wait: float = patience(SECONDS), form: int = 1, max_bytes: int = 0
    ) -> list[list[Any]]:
        """Rows by PollMany, in format 1."""
        reply = self.ask(*many(rows, confirmed, wait, form, max_bytes))
        assert reply.result == Result.OK, reply
        return parse_many(reply.payload)


def many(
    rows: int = 1000, confirmed: int = 0, wait: float = 0.0, form: int = 1, max_bytes: int = 0
) -> tuple[int, bytes]:
    """Command and payload of PollMany."""
    return Command.POLL_MANY, classic.encode_poll_many(PollMany(rows, max_bytes, int(wait * 1000), confirmed, form))


def parse_many(payload: bytes) -> list[list[Any]]:
    """The rows of a PollMany reply in format 1."""
    count = struct.unpack_from("<I", payload)[0]
    rows: list[list[Any]] = msgspec.msgpack.decode(b"\xdd" + struct.pack(">I", count) + payload[4:])
    return rows


def parse_string(payload: bytes, at: int) -> tuple[str, int]:
    """A string of the protocol, and the offset after it."""
    (size,) = struct.unpack_from("<I", payload, at)
    assert payload[at + 3 + size] == 0
    return payload[at + 4 : at + 3 + size].decode(), at + 4 + size


def parse_row(payload: bytes, version: int = 1, at: int = 0) -> dict[str, Any]:
    """Parses a row as Poll (1) or PollV2 (2) returns it.

    `after` and `before` hold texts by column; `end` is where it ends.
    """
    row: dict[str, Any] = {}
    row["kind"], row["position"], row["queue_size"] = struct.unpack_from("<BQI", payload, at)
    at += 13
    if version == 2:
        row["instance"], row["schema_id"] = struct.unpack_from("<II", payload, at)
        at += 8
    row["schema"], at = parse_string(payload, at)
    if version == 2:
        (row["table_id"],) = struct.unpack_from("<I", payload, at)
        at += 4
    row["table"], at = parse_string(payload, at)
    (columns,) = struct.unpack_from("<I", payload, at)
    at += 4
    row["before"], row["after"], row["names"] = {}, {}, {}
    for _ in range(columns):
        name_id = 0
        if version == 2:
            (name_id,) = struct.unpack_from("<I", payload, at)
            at += 4
        name, at = parse_string(payload, at)
        row["names"][name] = name_id
        row["before"][name], at = parse_string(payload, at)
        row["after"][name], at = parse_string(payload, at)
    row["end"] = at
    row["id"] = int(row["after"].get("id") or row["before"]["id"])
    return row
