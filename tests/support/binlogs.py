"""Records binlog streams from a server, and feeds them to an ingest."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from examples.dbserver import DatabaseServer
from relay._native import Attention, GtidSet, Ingest, JournalReader, JournalWriter
from relay.binlog.events import table_maps
from relay.binlog.events.compression import zstd_parts
from relay.journal import frames
from relay.source import commands, facts
from relay.source.connect import take_socket
from tests.support.waiting import patience

_NON_BLOCKING = 1  # the server ends the stream at the end of the binlog
_LONGEST_PACKET = 0xFFFFFF  # and continues in the next
_FLAGS = {0x12: 9, 0x1E: 5}  # offsets in COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID, with the packet header
_SERVER_ID = 77


class StreamPosition(NamedTuple):
    file: str
    position: int


def place(server: DatabaseServer) -> StreamPosition:
    """The current end of the server's binlog."""
    with closing(server.connect()) as connection:
        end = facts.binlog_end(connection, facts.query_facts(connection))
        return StreamPosition(end.file, end.position)


def record(server: DatabaseServer, start: StreamPosition) -> bytes:
    """The stream from a binlog position to the end of the binlog, as received."""
    return _dumped(server, commands.binlog_dump(_SERVER_ID, start.file, start.position))


def record_by_gtid(server: DatabaseServer, gtid_set: str) -> bytes:
    """The stream of what follows a GTID set."""
    if server.name == "mysql97":
        return _dumped(server, commands.binlog_dump_gtid(_SERVER_ID, GtidSet(gtid_set).encode()))
    return _dumped(server, commands.binlog_dump(_SERVER_ID, "", 4), f"SET @slave_connect_state = '{gtid_set}'")


def _dumped(server: DatabaseServer, command: bytes, *settings: str) -> bytes:
    checksum = "@@global.binlog_checksum"
    usual = (
        f"SET @master_binlog_checksum = {checksum}, @source_binlog_checksum = {checksum}",
        "SET @mariadb_slave_capability = 4",
    )
    with closing(server.connect()) as connection:
        with connection.cursor() as cursor:
            for setting in (*usual, *settings):
                cursor.execute(setting)
        request = bytearray(command)
        request[_FLAGS[request[4]]] |= _NON_BLOCKING
        with closing(take_socket(connection)) as taken:
            taken.settimeout(patience(20))
            taken.sendall(request)
            stream = bytearray()
            continues = False
            for payload in packets_from(taken.recv, stream):
                if not continues and payload[0] != 0:
                    break
                continues = len(payload) == _LONGEST_PACKET
            return bytes(stream)


def packets_from(receive: Callable[[int], bytes], into: bytearray) -> Iterator[bytes]:
    """Yields payloads of packets, and appends all bytes to `into`."""

    def exactly(count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = receive(min(count - len(data), 1 << 18))
            assert more, "the server closed the connection"
            data += more
        into.extend(data)
        return bytes(data)

    while True:
        length = int.from_bytes(exactly(4)[:3], "little")
        yield exactly(length)


@dataclass
class Fed:
    """An ingest on a journal in a folder, and the requests that it made.

    Tables get positional names from their maps.
    """

    directory: Path
    writer: JournalWriter = field(init=False)
    ingest: Ingest = field(init=False)
    asked: list[Attention] = field(default_factory=list)
    answer: Callable[[Attention], bool] = lambda _: False  # true: it replied itself
    prepared_memory: int = 1 << 25
    segment: int = 1 << 20

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Opens the journal with a recovery, like a new process."""
        self.writer = JournalWriter(self.directory, self.segment)
        self.ingest = Ingest(self.writer, self.directory, zstd_parts, prepared_memory=self.prepared_memory)

    def begin(self, start: StreamPosition) -> None:
        if not self.writer.state().file:
            self.writer.source(start.position, start.file, "", "test")
        self.ingest.start(start.file, start.position)

    def feed(self, stream: bytes, chunk: int = 1 << 20) -> None:
        """Feeds all the bytes, and replies to requests."""
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
                definition = msgspec.msgpack.encode(defined(asked.body))
                self.ingest.define(asked.table_id, definition, definition)
            case "query":
                self.ingest.ddl(asked.statement)
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
    """A definition with positional names, which is enough to walk rows."""
    return table_maps.provisional(table_maps.parse(body), {})


def split(stream: bytes) -> list[bytes]:
    """Splits a stream into packets, including headers."""
    packets, at = [], 0
    while at < len(stream):
        end = at + 4 + int.from_bytes(stream[at : at + 3], "little")
        packets.append(stream[at:end])
        at = end
    return packets


def event_type(packet: bytes) -> int:
    """The type of the event in a packet; -1 if there is none."""
    return packet[9] if len(packet) > 9 and packet[4] == 0 else -1


def body_of(packet: bytes) -> bytes:
    """The body of the event in a packet, without header and checksum."""
    return packet[24:-4]


def changed(packet: bytes, change: Callable[[bytearray], None]) -> bytes:
    """Changes the event in a packet (header first, without its checksum), and corrects the checksum."""
    event = bytearray(packet[5:-4])
    change(event)
    event[9:13] = (len(event) + 4).to_bytes(4, "little")
    return packed(bytes(event) + zlib.crc32(event).to_bytes(4, "little"))


def packed(event: bytes) -> bytes:
    """An event as a packet."""
    return (len(event) + 1).to_bytes(3, "little") + b"\0\0" + event


def made(kind: int, body: bytes, end: int, flags: int = 0, timestamp: int = 1700000000) -> bytes:
    """A packet with a constructed event."""
    head = struct.pack("<IBIIIH", timestamp, kind, 7, 19 + len(body) + 4, end & 0xFFFFFFFF, flags)
    return packed(head + body + zlib.crc32(head + body).to_bytes(4, "little"))


ARTIFICIAL = 0x20


def opening(file: str, position: int) -> bytes:
    """The beginning of every stream: its position and its format."""
    described = struct.pack("<H50sIB", 4, b"8.4.0", 0, 19) + bytes(42) + b"\1"
    return made(4, struct.pack("<Q", position) + file.encode(), 0, ARTIFICIAL, 0) + made(15, described, 0, 0)


def query(statement: str, end: int, schema: str = "test") -> bytes:
    """A QUERY event."""
    body = struct.pack("<IIBHH", 1, 0, len(schema), 0, 0) + schema.encode() + b"\0" + statement.encode()
    return made(2, body, end)


def table_map(table_id: int, table: str, end: int, nullable: bool = True) -> bytes:
    """A TABLE_MAP of test.`table` with one INT column."""
    name = table.encode()
    body = table_id.to_bytes(6, "little") + b"\1\0" + b"\4test\0" + bytes([len(name)]) + name + b"\0\1\3\0"
    body += bytes([nullable])
    return made(19, body, end)


def write_rows(table_id: int, values: Sequence[int], end: int, statement_end: bool = True) -> bytes:
    """A WRITE_ROWS event (version 2) for a table with one INT column."""
    body = table_id.to_bytes(6, "little") + int(statement_end).to_bytes(2, "little") + b"\2\0" + b"\1\xff"
    return made(30, body + b"".join(b"\0" + value.to_bytes(4, "little") for value in values), end)


def xid(end: int) -> bytes:
    """A COMMIT."""
    return made(16, bytes(8), end)
