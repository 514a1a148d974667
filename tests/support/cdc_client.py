"""A client of the CDC protocol, written from its description alone, without code of the relay."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import fastavro

from tests.support.waiting import patience

USER, SECRET = "maxuser", "maxpwd"
USERS_LINE = "maxuser:5EDBD32E469DAE0CE10E6999C3899DEFCB9F12E0\n"
"""The line in a file of users for this user."""

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
TRIPLET = ("domain", "server_id", "sequence")
HEAD = (*TRIPLET, "event_number", "timestamp", "event_type")

Row = dict[str, Any]


class Refused(Exception):
    """The server replied with an error; its text is the whole line."""


class Reset(Exception):
    """The connection was reset."""


class HalfLine(AssertionError):
    """The connection ended within a line, which may only happen if a process is killed."""


class Line(NamedTuple):
    """A line of a JSON stream, raw and parsed."""

    raw: bytes
    document: Row

    @property
    def is_schema(self) -> bool:
        return "namespace" in self.document


def credentials(user: str, password: str) -> bytes:
    """The first message: the name, a colon, the bytes of the digest, all in hexadecimal digits."""
    return (user.encode() + b":" + hashlib.sha1(password.encode()).digest()).hex().encode()


def triplet_of(row: Row) -> str:
    """A row's GTID in the form of REQUEST-DATA."""
    return "-".join(str(row[name]) for name in TRIPLET)


class CdcClient:
    """One connection. `end` is sent after each command: nothing, LF or CRLF. A reply may take `patience(timeout)`."""

    def __init__(
        self, port: int, end: bytes = b"", timeout: float = 20, connection: socket.socket | None = None
    ) -> None:
        self.socket = connection or socket.create_connection(("127.0.0.1", port), patience(timeout))
        self.socket.settimeout(patience(timeout))
        self.end = end
        self.received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, data: bytes) -> None:
        """Sends raw bytes."""
        self.socket.sendall(data)

    def command(self, text: str) -> None:
        """Sends a command."""
        self.say(text.encode() + self.end)

    def line(self) -> bytes:
        """The next line without its LF.

        Raises `EOFError` if the server closed between two lines, and `HalfLine` within one.
        """
        while (end := self.received.find(b"\n")) < 0:
            if not self.more():
                if self.received:
                    raise HalfLine(bytes(self.received))
                raise EOFError
        line = bytes(self.received[:end])
        del self.received[: end + 1]
        return line

    def more(self) -> bool:
        """Receives bytes; returns whether there were any."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError as error:
            raise Reset from error
        self.received += data
        return bool(data)

    def closed(self) -> bool:
        """Waits until the server closes; returns whether nothing came before."""
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
        """Requests a table; the stream or an error follows."""
        self.command(f"REQUEST-DATA {name} {gtid}".rstrip())
        return self

    def stream(self, name: str, gtid: str = "", form: str = "JSON") -> Self:
        """Sends everything from credentials to REQUEST-DATA."""
        return self.login().register(form).request(name, gtid)

    def begun(self) -> Self:
        """Waits for the beginning of the requested stream, which comes once the table exists."""
        while self.received or self.more():
            if not self.received.startswith(b"E"):
                return self
            assert self.line().startswith(b"ERR NO-FILE")
        raise AssertionError("the server has closed")

    def last(self) -> Row:
        """Queries the last transaction."""
        self.command("QUERY-LAST-TRANSACTION")
        return self._document()

    def transaction(self, gtid: str) -> Row:
        """Queries a transaction."""
        self.command(f"QUERY-TRANSACTION {gtid}")
        return self._document()

    def lines(self) -> Iterator[Line]:
        """A JSON stream, to its end."""
        while True:
            try:
                raw = self.line()
            except EOFError:
                return
            if raw.startswith(b"ERR"):
                raise Refused(raw.decode())
            yield Line(raw, json.loads(raw))

    def rows(self, count: int) -> list[Row]:
        """The next `count` rows of a JSON stream, without schemas. Each has the fields of the last schema."""
        return [line.document for line in self.take(count)]

    def take(self, count: int) -> list[Line]:
        """As `rows`, with the raw lines."""
        found: list[Line] = []
        for line in self.lines() if count else ():
            if not line.is_schema:
                found.append(line)
            if len(found) == count:
                break
        assert len(found) == count, f"{len(found)} of {count} rows before the stream ended"
        return found

    def records(self) -> Iterator[tuple[Row, Row]]:
        """An Avro stream, to its end: each record, and the schema of its container.

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
        """Drops the connection at once, like a client whose host lost power."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def _container(schema: Row, codec: bytes, sync: bytes, count: int, data: bytes) -> bytes:
    """A container of one block."""
    text = json.dumps(schema).encode()
    meta = b"".join(_long(len(part)) + part for part in (b"avro.codec", codec, b"avro.schema", text))
    return _MAGIC + _long(2) + meta + _long(0) + sync + _long(count) + _long(len(data)) + data + sync


def _long(number: int) -> bytes:
    number <<= 1  # numbers here are not negative
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
