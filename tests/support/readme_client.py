"""A client written only from the README of the original relay, whose layouts it takes literally.

That README says that the reply to Authenticate holds ClientID and ClientToken, but in fact the key comes first. So such
a client sends the two halves of the key as its id and token, and this relay accepts them (docs/protocol.md).
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from tests.support.waiting import patience

PING, AUTHENTICATE, ADD_FILTER, POLL = 1, 2, 3, 4
VERSION = 0x00010020


def fnv1a(secret: str) -> int:
    value = 0xCBF29CE484222325
    for byte in secret.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def text(value: str) -> bytes:
    data = value.encode() + b"\0"
    return struct.pack("<I", len(data)) + data


@dataclass
class Event:
    kind: int
    position: int
    queue_size: int
    schema: str
    table: str
    columns: list[tuple[str, str, str]]  # name, before, after


class ReadmeClient:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), patience(10))
        self._stream = self._socket.makefile("rb")
        self._id = self._token = 0
        assert self._command(PING)[0] == 0

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def authenticate(self, secret: str, name: str) -> None:
        result, reply = self._command(AUTHENTICATE, struct.pack("<QII", fnv1a(secret), 0, 0) + text(name))
        assert result == 0
        self._id, self._token = struct.unpack_from("<II", reply)

    def add_filter(self, kinds: int, discard: int, limit: int, schema: str, table: str) -> None:
        result, reply = self._command(
            ADD_FILTER, struct.pack("<BBI", kinds, discard, limit) + text(schema) + text(table)
        )
        assert result == 0, reply

    def poll(self) -> Event | None:
        result, reply = self._command(POLL)
        if result == 0xFC:
            return None
        assert result == 0, reply
        kind, position, queue_size = struct.unpack_from("<BQI", reply)
        at = 13

        def string() -> str:
            nonlocal at
            (size,) = struct.unpack_from("<I", reply, at)
            value = reply[at + 4 : at + 3 + size]
            at += 4 + size
            return value.decode("utf-8", "surrogateescape")

        schema, table = string(), string()
        (count,) = struct.unpack_from("<I", reply, at)
        at += 4
        columns = [(string(), string(), string()) for _ in range(count)]
        assert at == len(reply)
        return Event(kind, position, queue_size, schema, table, columns)

    def _command(self, command: int, payload: bytes = b"") -> tuple[int, bytes]:
        checksum = command + len(payload) + VERSION + self._id + self._token + sum(payload)
        header = (command, 0, len(payload), VERSION, self._id, self._token, checksum % 2**32, 0, 0)
        self._socket.sendall(struct.pack("<HHIIIIIII", *header) + payload)
        result, size, wanted = struct.unpack("<BII", self._read(9))
        reply = self._read(size)
        assert (result + size + sum(reply)) % 2**32 == wanted
        return result, reply

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionResetError("the relay closed the connection")
        return data
