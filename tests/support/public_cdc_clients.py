"""Imitations of the public clients of MaxScale's CDC protocol: how each of them sends, receives and reads.

None of it is their code. Each reproduces what was observed of the client: how it splits what it sends, what it takes
for a reply, how it parses a line, and the message with which it gives up.
"""

from __future__ import annotations

import hashlib
import json
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from tests.support.waiting import patience

Row = dict[str, Any]


class GivesUp(Exception):
    """The client ends with this message."""


class PublicClient(ABC):
    """What they have in common: no command has a line end. `schemas` are those received, as the client knows them."""

    UUID: ClassVar[str] = "asdf"

    def __init__(self, port: int, timeout: float = 20) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), patience(timeout))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.schemas: list[Row] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def follow(self, user: str, password: str, table: str, gtid: str = "", form: str = "JSON") -> Iterator[Row]:
        """Logs in, registers and requests; then yields the rows, to the end. Raises `GivesUp`."""
        self.login(user, password)
        self.register(form)
        self.socket.sendall(f"REQUEST-DATA {table} {gtid}".rstrip().encode())
        return self.rows()

    def login(self, user: str, password: str) -> None:
        self.socket.sendall((user.encode() + b":").hex().encode() + self.digits(password))
        self.answered("Authentication failed")

    def register(self, form: str) -> None:
        self.socket.sendall(f"REGISTER UUID={self.UUID}, TYPE={form}".encode())
        self.answered("Registration failed")

    def digits(self, password: str) -> bytes:
        return hashlib.sha1(password.encode()).hexdigest().encode()

    @abstractmethod
    def answered(self, failure: str) -> None:
        """Reads the reply to a command. Raises `GivesUp` if the client does not know it."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """The rows of the stream, to its end, which is `GivesUp` for some."""

    def receive(self, size: int = 4096) -> bytes:
        """One recv; empty at the server's FIN. A RST ends every one of them."""
        try:
            return self.socket.recv(size)
        except ConnectionResetError as error:
            raise GivesUp("[Errno 104] Connection reset by peer") from error


class CdcPy(PublicClient):
    """cdc.py of MaxScale: one recv per reply; `err` in any case is an error; everything else is passed through.

    `passed` is what it has printed; its rows are those parsed from these lines.
    """

    UUID = "XXX-YYY_YYY"

    def __init__(self, port: int, timeout: float = 20) -> None:
        super().__init__(port, timeout)
        self.passed = b""

    def answered(self, failure: str) -> None:
        answer = self.receive(1024)
        if b"err" in answer.lower() or not answer:
            raise GivesUp(f"{failure}: {answer!r}")

    def rows(self) -> Iterator[Row]:
        read = 0
        while chunk := self.receive():
            if not self.passed and b"err" in chunk.lower():
                raise GivesUp(f"Failed to request data: {chunk!r}")
            self.passed += chunk
            while (end := self.passed.find(b"\n", read)) >= 0:
                line, read = self.passed[read:end], end + 1
                if not line:
                    continue
                try:
                    document = json.loads(line)
                except ValueError as error:
                    raise GivesUp(f"no JSON: {line!r}") from error
                if "namespace" in document:
                    self.schemas.append(document)
                else:
                    yield document
        raise GivesUp("spins: the server has closed by a FIN")


class CdcLastTransaction(CdcPy):
    """cdc_last_transaction.py of MaxScale: one recv of 1024 bytes is the reply."""

    def last(self) -> Row:
        self.socket.sendall(b"QUERY-LAST-TRANSACTION")
        found: Row = json.loads(self.receive(1024))
        return found


class CppConnector(PublicClient):
    """The C++ connector: one recv per reply, which must begin with `OK` and LF; each row has every field."""

    UUID = "CDC_CONNECTOR-1.0.0"

    def answered(self, failure: str) -> None:
        answer = self.receive(1024)
        if not answer.startswith(b"OK\n"):
            raise GivesUp(f"{failure}: {answer.decode().strip()}")

    def rows(self) -> Iterator[Row]:
        keys: list[str] = []
        for line in self._lines():
            if line.startswith(b"ERR"):
                raise GivesUp(f"Server responded with an error: {line.decode()}")
            try:
                document = json.loads(line, parse_int=_of_64_bits)
            except ValueError as error:
                raise GivesUp(f"Failed to parse JSON: {line!r}") from error
            if "fields" in document:
                keys = [field["name"] for field in document["fields"]]
                self.schemas.append(document)
                continue
            if missing := [key for key in keys if key not in document]:
                raise GivesUp(f"No value for key found: {missing[0]}")
            yield {key: document[key] for key in keys}
        raise GivesUp("Request timed out")

    def _lines(self) -> Iterator[bytes]:
        kept = b""
        while chunk := self.receive():
            *lines, kept = (kept + chunk).split(b"\n")
            yield from lines


class Adapter(CppConnector):
    """The ColumnStore adapter, based on that connector: it continues at the triplet and event that it has stored."""

    stored: tuple[str, int] | None = None

    def resume(self, user: str, password: str, table: str, stored: tuple[str, int]) -> Iterator[Row]:
        """The rows from the stored one on, including that one."""
        gtid, event_number = stored
        skipping = True
        for row in self.follow(user, password, table, gtid):
            if skipping and row["event_number"] < event_number:
                continue
            assert not skipping or gtid == triplet(row), f"{gtid} is to be {triplet(row)}"
            skipping = False
            yield row


class Gomaxscale(PublicClient):
    """gomaxscale: objects end where their braces balance, even in strings; the first bytes say what an object is."""

    def answered(self, failure: str) -> None:
        answer = self.receive(1024)
        if b"err" in answer.lower() or not answer:
            raise GivesUp(f"{failure}: {answer!r}")

    def rows(self) -> Iterator[Row]:
        self.logged: list[str] = []
        for event in self._objects():
            if event.startswith(b'{"domain":'):
                yield json.loads(event)
            elif event.startswith(b'{"namespace":'):
                self.schemas.append(json.loads(event))
            else:
                self.logged.append(f"unknown event: {event!r}")

    def _objects(self) -> Iterator[bytes]:
        event, depth, begun = bytearray(), 0, False
        while chunk := self.receive():
            if not begun and chunk.startswith(b"ERR"):
                raise GivesUp(chunk.decode())
            begun = True
            for byte in chunk:
                depth += (byte == 0x7B) - (byte == 0x7D)
                if depth or event:
                    event.append(byte)
                if event and not depth:
                    yield bytes(event)
                    event.clear()


class Connectfit(PublicClient):
    """connectfit: lines of at most 1 MiB, replies within `patience` seconds; everything that is not a row is a DDL."""

    LONGEST: ClassVar[int] = 1 << 20

    def __init__(self, port: int, timeout: float = 20, patience: float = 5) -> None:
        super().__init__(port, timeout)
        self.timeout, self.patience = timeout, patience
        self.logged: list[str] = []
        self._kept = b""

    def answered(self, failure: str) -> None:
        self.socket.settimeout(patience(self.patience))
        try:
            line = self._line()
        except TimeoutError as error:
            raise GivesUp("i/o timeout") from error
        finally:
            self.socket.settimeout(patience(self.timeout))
        self._kept = b""  # each reply has its own reader
        if line is None or line.startswith(b"ERR"):
            raise GivesUp(f"{failure}: {line!r}")

    def rows(self) -> Iterator[Row]:
        while (line := self._line()) is not None:
            if line.startswith(b"ERR"):
                self.logged.append(line.decode())  # and waits for the table
            elif line.startswith(b'{"domain":'):
                row = json.loads(line)
                yield {name: value for name, value in row.items() if name not in ("table_name", "table_schema")}
            else:
                try:
                    ddl = json.loads(line)
                except ValueError as error:
                    raise GivesUp(f"unexpected end of JSON input: {line!r}") from error
                self.schemas.append({name: ddl.get(name, "") for name in ("table", "database", "version", "fields")})

    def _line(self) -> bytes | None:
        while (end := self._kept.find(b"\n")) < 0 and len(self._kept) <= self.LONGEST:
            chunk = self.receive(1 << 16)
            if not chunk:
                return None
            self._kept += chunk
        if end < 0 or end > self.LONGEST:
            raise GivesUp("bufio.Scanner: token too long")
        line, self._kept = self._kept[:end], self._kept[end + 1 :]
        return line


class Bborbe(PublicClient):
    """bborbe: the name in one write and the digest in another; one recv per reply; `stored` is where it continues."""

    PAUSE: ClassVar[float] = 0.1
    """Seconds between the two: longer than any gap that ends a command."""

    stored = ""

    def login(self, user: str, password: str) -> None:
        self.socket.sendall((user.encode() + b":").hex().encode())
        time.sleep(self.PAUSE)
        self.socket.sendall(self.digits(password))
        self.answered("login failed")

    def answered(self, failure: str) -> None:
        answer = self.receive(1024)
        if not answer.startswith(b"OK"):
            raise GivesUp("login failed" if failure == "login failed" else "register failed")

    def rows(self) -> Iterator[Row]:
        kept = b""
        while chunk := self.receive():
            *lines, kept = (kept + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b"ERR"):
                    raise GivesUp(line.decode())
                document = json.loads(line)
                # It reads a schema like a row: all fields are zero.
                self.stored = triplet(document)
                if "namespace" in document:
                    self.schemas.append(document)
                else:
                    yield document


class NodeRelay(PublicClient):
    """The Node relay: any line is the reply to what was sent before it."""

    UUID = "1e5b0c46-9c1c-4d5b-8f5e-0a3f6f6c1a11"

    def __init__(self, port: int, timeout: float = 20, patience: float = 5) -> None:
        super().__init__(port, timeout)
        self.timeout, self.patience = timeout, patience
        self._kept = b""

    def answered(self, failure: str) -> None:
        self.socket.settimeout(patience(self.patience))
        try:
            line = next(self._lines(), None)
        except TimeoutError as error:
            raise GivesUp("waits for a line for ever") from error
        finally:
            self.socket.settimeout(patience(self.timeout))
        if line is None or line.upper().startswith(b"ERR"):
            raise GivesUp(f"{failure}: {line!r}")

    def rows(self) -> Iterator[Row]:
        for line in self._lines():
            if line.startswith(b"ERR"):
                raise GivesUp(line.decode())
            try:
                document = json.loads(line)
            except ValueError as error:
                raise GivesUp(f"SyntaxError: {line!r}") from error
            if "namespace" in document:
                self.schemas.append(document)
            else:
                yield document

    def _lines(self) -> Iterator[bytes]:
        while True:
            while b"\n" in self._kept:
                line, _, self._kept = self._kept.partition(b"\n")
                yield line
            chunk = self.receive()
            if not chunk:
                return
            self._kept += chunk


CLIENTS: tuple[type[PublicClient], ...] = (CdcPy, CppConnector, Gomaxscale, Connectfit, Bborbe, NodeRelay)
"""All clients that read tables."""


def _of_64_bits(digits: str) -> int:
    if not -(2**63) <= int(digits) < 2**63:
        raise ValueError("too big integer")
    return int(digits)


def triplet(row: Row) -> str:
    """The GTID of a row, zeros if it has none."""
    return "-".join(str(row.get(name, 0)) for name in ("domain", "server_id", "sequence"))
