"""A dump of the binlog, byte by byte: ask for it on an authenticated connection, receive what comes, close it.

`receive` takes whatever bytes have come: the reader has them joined to packets and read natively, `relay.binlog.Stream`
makes events of them one by one.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
import uuid
from typing import Any, Final

import msgspec
from pymysql.connections import Connection

from relay.binlog import commands
from relay.binlog.connect import CONNECT_SECONDS, query, take_socket
from relay.binlog.failures import SourceLost, judge

_SERVER_WRITE_SECONDS: Final = 3600
"""How long the source waits for a reader that is paused or held back before it hangs up."""

_MARIADB_GTIDS: Final = re.compile(r"(\d+-\d+-\d+)(,\d+-\d+-\d+)*|")


class Request(msgspec.Struct, frozen=True):
    """Where a dump begins: a file and position, or, with `by_gtid`, after the transactions of a GTID set.

    `encoded_set` is the same set as COM_BINLOG_DUMP_GTID carries it; MySQL only. There a file may be named with it, and
    a position beyond 4 GiB. `flags` are those of the dump command. `server_id` 0, for a dump that does not wait, is no
    replica, and not announced as one.
    """

    server_id: int
    file: str = ""
    position: int = 4
    by_gtid: bool = False
    gtid_set: str = ""
    encoded_set: bytes = b""
    heartbeat_seconds: int = 10
    flags: int = 0

    @property
    def where(self) -> str:
        """The place in words, for errors."""
        place = f"{self.file}:{self.position}"
        if not self.by_gtid:
            return place
        return f"GTID {self.gtid_set or '(none)'}{f' at {place}' if self.file else ''}"


class Dump:
    """A dump under way, made by `open_dump`."""

    def __init__(self, taken: socket.socket, poll_seconds: float) -> None:
        self._socket = taken
        self._poll_seconds = poll_seconds
        taken.settimeout(poll_seconds)

    def receive(self, buffer: memoryview) -> int:
        """Bytes received into `buffer` (at least one byte long), 0 if none came in time. Raises `SourceLost`."""
        try:
            count = self._socket.recv_into(buffer)
        except TimeoutError:
            return 0
        except OSError as error:
            raise SourceLost(f"read the binlog: {error.strerror or error}") from error
        if count == 0:
            raise SourceLost("read the binlog: the source closed the connection")
        return count

    def descriptor(self) -> int:
        """For native code that receives instead of `receive` from now on: blocks, and as long as that does.

        -1 for a dump over TLS, whose bytes only `receive` can read.
        """
        if isinstance(self._socket, ssl.SSLSocket):
            return -1
        self._socket.settimeout(None)
        seconds, rest = divmod(self._poll_seconds, 1)
        self._socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(seconds), int(rest * 1e6))
        )
        return self._socket.fileno()

    @property
    def closed(self) -> bool:
        """Whether the connection was closed, by `close` or where it came from."""
        return self._socket.fileno() < 0

    def close(self) -> None:
        """Close the connection; the dump is over."""
        self._socket.close()


def open_dump(connection: Connection[Any], mariadb: bool, request: Request, poll_seconds: float = 1.0) -> Dump:
    """Ask for the binlog; the connection is the dump's from then on, and closed if that fails.

    `receive` waits `poll_seconds` at most. Raises `ValueError` for a request that no source can serve, `SourceLost`, or
    `RelayError` with the stop that the source's error stands for.
    """
    try:
        register, dump = _packets(mariadb, request)
        operation = f"open the binlog at {request.where}"
        for statement in _settings(mariadb, request):
            query(connection, statement, operation)
        taken = take_socket(connection)
    except BaseException:
        if connection.open:
            take_socket(connection).close()  # as a stream's end leaves it: its owner may still close it
        raise
    try:
        taken.settimeout(CONNECT_SECONDS)
        if register:
            taken.sendall(register)
            if error := commands.parse_error(_read_packet(taken)):
                raise judge(error, operation)
        taken.sendall(dump)
    except OSError as error:
        taken.close()
        raise SourceLost(f"{operation}: {error.strerror or error}") from error
    except BaseException:
        taken.close()
        raise
    return Dump(taken, poll_seconds)


def replica_uuid(server_id: int) -> str:
    """The uuid shown to the source.

    It follows from the server id, so that the source names a clash of two relays with one id instead of serving both.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"binlog-relay/{server_id}"))


def _packets(mariadb: bool, request: Request) -> tuple[bytes, bytes]:
    """The two commands; nothing is sent unless both can be built."""
    own, flags = request.server_id, request.flags
    register = commands.register_replica(own) if own else b""
    if not request.by_gtid:
        return register, commands.binlog_dump(own, request.file, request.position, flags)
    if mariadb:
        if not _MARIADB_GTIDS.fullmatch(request.gtid_set):
            raise ValueError(f"{request.gtid_set[:80]!r} is no GTID position of MariaDB")
        return register, commands.binlog_dump(own, "", 4, flags)
    return register, commands.binlog_dump_gtid(own, request.encoded_set, request.file, request.position, flags)


def _settings(mariadb: bool, request: Request) -> list[str]:
    """The session's variables; each server reads those that it knows."""
    nanoseconds = request.heartbeat_seconds * 1_000_000_000
    settings = [
        f"SET SESSION net_write_timeout = {_SERVER_WRITE_SECONDS}",
        "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum",
        f"SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}",
    ]
    if request.server_id:
        name = replica_uuid(request.server_id)
        settings.append(f"SET @slave_uuid = '{name}', @replica_uuid = '{name}'")
    if mariadb:
        settings.append("SET @mariadb_slave_capability = 4")
        if request.by_gtid:
            # Strict: a GTID that is missing at the source is an error there, and not silently taken for the next one.
            settings.append(f"SET @slave_connect_state = '{request.gtid_set}', @slave_gtid_strict_mode = 1")
    return settings


def _read_packet(taken: socket.socket) -> bytes:
    """One short packet, the answer to a command."""
    head = _read_exactly(taken, 4)
    return _read_exactly(taken, int.from_bytes(head[:3], "little"))


def _read_exactly(taken: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        received = taken.recv(count - len(data))
        if not received:
            raise SourceLost("open the binlog: the source closed the connection")
        data += received
    return data
