"""A dump of the binlog as bytes: requests it on an authenticated connection, receives it, closes it.

`receive` returns whatever bytes have come: the reader splits them into packets in native code, `relay.binlog.Stream`
turns them into single events.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
import struct
import uuid
from typing import Any, Final

import msgspec
from pymysql.connections import Connection

from relay.source import commands
from relay.source.connect import CONNECT_SECONDS, query, take_socket
from relay.source.failures import SourceLost, classify

_SERVER_WRITE_SECONDS: Final = 3600
"""How long the source waits for a paused or slow reader before it closes the connection."""

_MARIADB_GTIDS: Final = re.compile(r"(\d+-\d+-\d+)(,\d+-\d+-\d+)*|")


class Request(msgspec.Struct, frozen=True):
    """The beginning of a dump: a file and position, or, with `by_gtid`, the end of the transactions of a GTID set.

    `encoded_set` is the same set in the form of COM_BINLOG_DUMP_GTID, for MySQL only. With it, a file and a position
    beyond 4 GiB may be given. `flags` are those of the dump command. `server_id` 0, for a dump that does not wait, is
    not a replica, and is not announced as one.
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
        """The position as text, for errors."""
        position = f"{self.file}:{self.position}"
        if not self.by_gtid:
            return position
        return f"GTID {self.gtid_set or '(none)'}{f' at {position}' if self.file else ''}"


class Dump:
    """A running dump, made by `open_dump`."""

    def __init__(self, sock: socket.socket, poll_seconds: float) -> None:
        self._socket = sock
        self._poll_seconds = poll_seconds
        sock.settimeout(poll_seconds)

    def receive(self, buffer: memoryview) -> int:
        """Receive bytes into `buffer` (at least one byte long).

        Return their number, 0 after the timeout. Raises `SourceLost`.
        """
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
        """Return the descriptor for native code that receives instead of `receive` from now on.

        It is blocking, with the same timeout. -1 for a dump over TLS, whose bytes only `receive` can read.
        """
        if isinstance(self._socket, ssl.SSLSocket):
            return -1
        self._socket.settimeout(None)
        seconds, rest = divmod(self._poll_seconds, 1)
        self._socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(seconds), int(rest * 1e6))
        )
        return self._socket.fileno()

    def fileno(self) -> int:
        """Return the descriptor, to wait until there are bytes."""
        return self._socket.fileno()

    def has_more(self) -> bool:
        """Whether there are bytes to receive now."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        pending = self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0
        return bool(pending or poll.poll(0))

    @property
    def closed(self) -> bool:
        """Whether the connection was closed, by `close` or by its former owner."""
        return self._socket.fileno() < 0

    def close(self) -> None:
        """Close the connection, which ends the dump."""
        self._socket.close()


def open_dump(connection: Connection[Any], mariadb: bool, request: Request, poll_seconds: float = 1.0) -> Dump:
    """Request the binlog. The connection belongs to the dump from then on, and is closed on failure.

    `receive` waits at most `poll_seconds`. Raises `ValueError` for a request that no source can serve, `SourceLost`, or
    `RelayError` with the code for the source's error.
    """
    try:
        register, dump = _packets(mariadb, request)
        operation = f"open the binlog at {request.where}"
        for statement in _settings(mariadb, request):
            query(connection, statement, operation)
        sock = take_socket(connection)
    except BaseException:
        if connection.open:
            take_socket(connection).close()  # as at the end of a stream, the owner may still call `close`
        raise
    try:
        sock.settimeout(CONNECT_SECONDS)
        if register:
            sock.sendall(register)
            if error := commands.parse_error(_read_packet(sock)):
                raise classify(error, operation)
        sock.sendall(dump)
    except OSError as error:
        sock.close()
        raise SourceLost(f"{operation}: {error.strerror or error}") from error
    except BaseException:
        sock.close()
        raise
    return Dump(sock, poll_seconds)


def replica_uuid(server_id: int) -> str:
    """Return the uuid sent to the source.

    It is derived from the server id, so that the source reports a clash of two relays with one id instead of serving
    both.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"binlog-relay/{server_id}"))


def _packets(mariadb: bool, request: Request) -> tuple[bytes, bytes]:
    """Build the commands that register the replica and request the dump, before anything is sent."""
    own, flags = request.server_id, request.flags
    register = commands.register_replica(own) if own else b""
    if not request.by_gtid:
        return register, commands.binlog_dump(own, request.file, request.position, flags)
    if mariadb:
        if not _MARIADB_GTIDS.fullmatch(request.gtid_set):
            raise ValueError(f"{request.gtid_set[:80]!r} is not a GTID position of MariaDB")
        return register, commands.binlog_dump(own, "", 4, flags)
    return register, commands.binlog_dump_gtid(own, request.encoded_set, request.file, request.position, flags)


def _settings(mariadb: bool, request: Request) -> list[str]:
    """Return the statements that set the session variables. Each server uses the variables that it knows."""
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
            # Strict: a GTID that the source lacks is an error, and the next one does not silently replace it.
            settings.append(f"SET @slave_connect_state = '{request.gtid_set}', @slave_gtid_strict_mode = 1")
    return settings


def _read_packet(sock: socket.socket) -> bytes:
    """Read one short packet, the reply to a command."""
    head = _read_exactly(sock, 4)
    return _read_exactly(sock, int.from_bytes(head[:3], "little"))


def _read_exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        received = sock.recv(count - len(data))
        if not received:
            raise SourceLost("open the binlog: the source closed the connection")
        data += received
    return data
