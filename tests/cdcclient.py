"""A client of the CDC protocol, written from its description alone: nothing of the relay's own code speaks here."""

from __future__ import annotations

import hashlib
import io
import json
import re
import socket
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import fastavro

USER, SECRET = "maxuser", "maxpwd"
USERS_LINE = "maxuser:5EDBD32E469DAE0CE10E6999C3899DEFCB9F12E0\n"
"""The line of a file of users that lets them in."""

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_TRIPLET = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)")
TRIPLET = ("domain", "server_id", "sequence")
HEAD = (*TRIPLET, "event_number", "timestamp", "event_type")

Row = dict[str, Any]


class Refused(Exception):
    """The server's answer was an error; its text is the whole line."""


class Reset(Exception):
    """The connection ended by a RST."""


class HalfLine(AssertionError):
    """The connection ended within a line, which only a process that was killed may do."""


class Line(NamedTuple):
    """A line of a JSON stream as it came, and what it says."""

    raw: bytes
    document: Row

    @property
    def is_schema(self) -> bool:
        return "namespace" in self.document


def credentials(user: str, password: str) -> bytes:
    """The first message: the name, a colon, the bytes of the digest, all of it in hex."""
    return (user.encode() + b":" + hashlib.sha1(password.encode()).digest()).hex().encode()


def triplet_of(row: Row) -> str:
    """A row's GTID as REQUEST-DATA takes it."""
    return "-".join(str(row[name]) for name in TRIPLET)


class CdcClient:
    """One connection. `end` is sent behind each command: nothing, LF or CRLF; `timeout` is for each answer."""

    def __init__(
        self, port: int, end: bytes = b"", timeout: float = 20, connection: socket.socket | None = None
    ) -> None:
        self.socket = connection or socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.settimeout(timeout)
        self.end = end
        self.received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def command(self, text: str) -> None:
        """Send a command."""
        self.say(text.encode() + self.end)

    def line(self) -> bytes:
        """The next line without its LF. Raises `EOFError` where the server has closed in between two lines, and
        `HalfLine` within one."""
        while (end := self.received.find(b"\n")) < 0:
            if not self.more():
                if self.received:
                    raise HalfLine(bytes(self.received))
                raise EOFError
        line = bytes(self.received[:end])
        del self.received[: end + 1]
        return line

    def more(self) -> bool:
        """Receive something; whether there was something."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError as error:
            raise Reset from error
        self.received += data
        return bool(data)

    def closed(self) -> bool:
        """Wait for the server's end; whether nothing came before it."""
        try:
            return not self.more()
        except Reset:
            return True

    def login(self, user: str = USER, password: str = SECRET) -> Self:
        self.say(credentials(user, password))
        return self._ok()

    def register(self, form: str = "JSON", uuid: str = "11ec2300-2e23-11e6-8308-0002a5d5c51b") -> Self:
        self.command(f"REGISTER UUID={uuid}, TYPE={form}")
        return self._ok()

    def request(self, name: str, gtid: str = "") -> Self:
        """Ask for a table; the stream, or an error, is what comes."""
        self.command(f"REQUEST-DATA {name} {gtid}".rstrip())
        return self

    def stream(self, name: str, gtid: str = "", form: str = "JSON") -> Self:
        """All from credentials to REQUEST-DATA."""
        return self.login().register(form).request(name, gtid)

    def last(self) -> Row:
        """The last transaction."""
        self.command("QUERY-LAST-TRANSACTION")
        return self._document()

    def transaction(self, gtid: str) -> Row:
        """What is known of a transaction."""
        self.command(f"QUERY-TRANSACTION {gtid}")
        return self._document()

    def lines(self) -> Iterator[Line]:
        """A stream of JSON, to its end."""
        while True:
            try:
                raw = self.line()
            except EOFError:
                return
            if raw.startswith(b"ERR"):
                raise Refused(raw.decode())
            yield Line(raw, json.loads(raw))

    def rows(self, count: int) -> list[Row]:
        """The next `count` rows of a stream of JSON, schemas left out; each has the fields of the schema before it."""
        return [line.document for line in self.take(count)]

    def take(self, count: int) -> list[Line]:
        """As `rows`, with what came as it was."""
        found: list[Line] = []
        for line in self.lines() if count else ():
            if not line.is_schema:
                found.append(line)
            if len(found) == count:
                break
        assert len(found) == count, f"{len(found)} of {count} rows before the stream ended"
        return found

    def records(self) -> Iterator[tuple[Row, Row]]:
        """A stream of Avro, to its end: each record, and the schema of the container that it is in.

        A container's header may stand where a block may begin.
        """
        schema: Row = {}
        sync = codec = b""
        while self._wants(1):
            if self.received[:1] in (_MAGIC[:1], b"E"):
                self._wants(4)
                if self.received.startswith(b"ERR"):
                    raise Refused(self.line().decode())
                schema, codec, sync = self._header()
                continue
            count, data = self._block(sync)
            assert codec in (b"null", b"deflate")
            container = io.BytesIO(_container(schema, codec, sync, count, data))
            records = list(fastavro.reader(container))
            assert len(records) == count
            for record in records:
                yield schema, record  # type: ignore[misc]

    def _header(self) -> tuple[Row, bytes, bytes]:
        self._take(4)
        meta: dict[bytes, bytes] = {}
        names: list[bytes] = []
        while count := self._long():
            if count < 0:
                count = -count
                self._long()
            for _ in range(count):
                name = self._take(self._long())
                meta[name] = self._take(self._long())
                names.append(name)
        assert names == [b"avro.codec", b"avro.schema"]
        return json.loads(meta[b"avro.schema"]), meta[b"avro.codec"], self._take(_SYNC_BYTES)

    def _block(self, sync: bytes) -> tuple[int, bytes]:
        count = self._long()
        data = self._take(self._long())
        assert self._take(_SYNC_BYTES) == sync
        return count, data

    def _long(self) -> int:
        value = shift = 0
        while True:
            [byte] = self._take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)

    def _take(self, size: int) -> bytes:
        assert self._wants(size), "the stream ends within a container"
        data = bytes(self.received[:size])
        del self.received[:size]
        return data

    def _wants(self, size: int) -> bool:
        while len(self.received) < size:
            if not self.more():
                assert not self.received
                return False
        return True

    def _ok(self) -> Self:
        line = self.line()
        if line != b"OK":
            raise Refused(line.decode())
        return self

    def _document(self) -> Row:
        line = self.line()
        document: Row = json.loads(line)
        assert list(document) == ["GTID", "events", "timestamp", "tables"], line
        return document

    def abort(self) -> None:
        """Be gone at once, as a client is whose machine lost its power."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def _container(schema: Row, codec: bytes, sync: bytes, count: int, data: bytes) -> bytes:
    """A container of one block."""
    text = json.dumps(schema).encode()
    meta = b"".join(_long(len(part)) + part for part in (b"avro.codec", codec, b"avro.schema", text))
    return _MAGIC + _long(2) + meta + _long(0) + sync + _long(count) + _long(len(data)) + data + sync


def _long(number: int) -> bytes:
    number <<= 1  # none here is negative
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
