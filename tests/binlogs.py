"""Binlog streams recorded from a server, and fed to an ingest."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from examples.dbserver import DatabaseServer
from relay._native import Attention, Ingest, JournalReader, JournalWriter
from relay.binlog import commands, facts, tablemap
from relay.binlog.connect import take_socket
from relay.journal import frames

SEGMENT = 1 << 20
_NON_BLOCKING = 1  # the server ends the stream at the end of the binlog
_FLAGS = slice(9, 11)  # of COM_BINLOG_DUMP, with its packet head


class Place(NamedTuple):
    file: str
    position: int


def place(server: DatabaseServer) -> Place:
    """Where the server's binlog ends now."""
    with closing(server.connect()) as connection:
        end = facts.binlog_end(connection, facts.facts(connection))
        return Place(end.file, end.position)


def record(server: DatabaseServer, start: Place) -> bytes:
    """The stream from a place to the end of the binlog, as it comes over the connection."""
    with closing(server.connect(ssl_disabled=True)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum"
            )
            cursor.execute("SET @mariadb_slave_capability = 4")
        request = bytearray(commands.binlog_dump(77, start.file, start.position))
        request[_FLAGS] = _NON_BLOCKING.to_bytes(2, "little")
        with closing(take_socket(connection)) as taken:
            taken.settimeout(20)
            taken.sendall(request)
            stream = bytearray()
            for payload in packets_from(taken.recv, stream):
                if payload[0] != 0:
                    break
            return bytes(stream)


def packets_from(receive: Callable[[int], bytes], into: bytearray) -> Iterator[bytes]:
    """Payloads of packets, all bytes also appended to `into`."""

    def exactly(count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = receive(count - len(data))
            assert more, "the server closed the connection"
            data += more
        into.extend(data)
        return bytes(data)

    while True:
        length = int.from_bytes(exactly(4)[:3], "little")
        yield exactly(length)


def decompress(algorithm: str, data: bytes, size: int) -> bytes:
    """What an ingest asks for; as in the reader."""
    if algorithm == "zlib":
        return zlib.decompressobj().decompress(data, size)
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)


@dataclass
class Fed:
    """An ingest on a journal in a folder, and what it asked. Tables are defined from their maps (FULL metadata or not)."""

    directory: Path
    writer: JournalWriter = field(init=False)
    ingest: Ingest = field(init=False)
    asked: list[Attention] = field(default_factory=list)
    answer: Callable[[Attention], bool] = lambda _: False  # true: answered here
    record_ddl: bool = True

    def __post_init__(self) -> None:
        self.open()

    def open(self, segment: int = SEGMENT) -> None:
        """As a new process would: recovers the journal."""
        self.writer = JournalWriter(self.directory, segment)
        self.ingest = Ingest(self.writer, self.directory, decompress)

    def begin(self, start: Place) -> None:
        if not self.writer.state().file:
            self.writer.source(start.position, start.file, "", "test")
        self.ingest.start(start.file, start.position)

    def feed(self, stream: bytes, chunk: int = 1 << 20) -> None:
        """Feeds the bytes and answers what is asked, to their end."""
        at = 0
        while at < len(stream):
            buffer = self.ingest.buffer()
            count = min(len(buffer), chunk, len(stream) - at)
            buffer[:count] = stream[at : at + count]
            at += count
            self.ingest.received(count)
            self.work()

    def work(self) -> None:
        while (asked := self.ingest.step()) is not None:
            self.asked.append(asked)
            if asked.asks in ("end", "error", "boundary"):
                return
            if not self.answer(asked):
                self.usual_answer(asked)

    def usual_answer(self, asked: Attention) -> None:
        match asked.asks:
            case "table":
                packed = msgspec.msgpack.encode(defined(asked.body))
                self.ingest.define(asked.table_id, packed, packed)
            case "query":
                self.ingest.ddl(self.record_ddl)
            case "partial":
                self.ingest.accept_partial(asked.table_id)
            case "unknown":
                self.ingest.skip()

    def frames(self) -> list[frames.Frame]:
        """All committed frames."""
        found = JournalReader(self.directory).frames(self.writer.first(), self.writer.committed())
        return [frames.decode(payload) for _, payload in found]

    def rows(self) -> list[tuple[str, int, int]]:
        """(table, kind, rows) of each committed ROWS frame."""
        tables, found = dict[int, str](), []
        for position, payload in JournalReader(self.directory).frames(self.writer.first(), self.writer.committed()):
            frame = frames.decode(payload)
            if isinstance(frame, frames.Table):
                tables[position] = msgspec.msgpack.decode(frame.definition, type=frames.Definition).table
            elif isinstance(frame, frames.Rows):
                found.append((tables[frame.table], frame.kind, frame.rows))
        return found


def defined(body: bytes) -> frames.Definition:
    """A definition with positional names, enough to walk rows."""
    return tablemap.provisional(tablemap.parse(body), {})
