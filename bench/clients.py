"""Clients of a running relay: connections, and the load program."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.echo import connect
from bench.readers import BUILT
from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, Format, Result
from tests.support.relay_process import RelayProcess


@dataclass
class Load:
    """The counts of bench/load.c: replies with rows, rows, bytes of replies, seconds up to the last reply.

    `ended` is when that came (monotonic seconds).
    """

    replies: int
    rows: int
    bytes: int
    seconds: float
    ended: float


class Client:
    """An authenticated connection with a filter on one table, all kinds, no limit."""

    def __init__(self, port: int, secret: str, name: str, table: str) -> None:
        self.socket = connect(("127.0.0.1", port))
        self._parser = classic.ReplyParser()
        key = classic_keys.fnv1a64(secret.encode())
        reply = self.exchange(classic.encode_request(Command.AUTH, classic.encode_auth(key, name)))
        self.identity = classic.parse_identity(reply.payload)
        wanted = classic.TableFilter(classic.ALL_KINDS, 0, 0, "bench", table)
        self.exchange(self.request(Command.ADD_FILTER, classic.encode_filter(wanted)))

    def request(self, command: Command, payload: bytes = b"") -> bytes:
        """A request of this client."""
        identity = self.identity
        return classic.encode_request(command, payload, client_id=identity.client_id, token=identity.token)

    def poll_many(self, rows: int, wait_ms: int) -> bytes:
        """A PollMany request in the text format."""
        wanted = classic.PollMany(rows, 0, wait_ms, 0, Format.TEXT)
        return self.request(Command.POLL_MANY, classic.encode_poll_many(wanted))

    def exchange(self, request: bytes) -> classic.Reply:
        """Sends a request and waits for its reply, which must not be an error."""
        self.socket.sendall(request)
        while (reply := self._parser.next()) is None:
            data = self.socket.recv(1 << 16)
            assert data, "the relay closed the connection"
            self._parser.feed(data)
        assert reply.result in {Result.OK, Result.EMPTY}, f"refused with 0x{reply.result:02x}: {reply.text}"
        return reply

    def close(self) -> None:
        """Disconnects; the queue stays."""
        self.socket.close()


def put_load(mode: str, seconds: float, sockets: Sequence[socket.socket], requests: Sequence[bytes]) -> Load:
    """Runs bench/load.c (`poll`, `many` or `line`) on connected sockets, with one request of equal size for each."""
    fds = [connected.fileno() for connected in sockets]
    done = subprocess.run(
        [BUILT / "load", mode, str(seconds), *map(str, fds)],
        input=b"".join(requests),
        stdout=subprocess.PIPE,
        pass_fds=fds,
        check=True,
    )
    replies, rows, size, nanoseconds, ended = map(int, done.stdout.split())
    return Load(replies, rows, size, nanoseconds / 1e9, ended / 1e9)


def wait_queued(relay: RelayProcess, names: list[str], rows: int) -> None:
    """Waits until that many rows wait for each of the clients."""
    deadline = time.monotonic() + 120
    while True:
        waiting = {client["name"]: client["waiting"] for client in relay.stat()["clients"]}
        if all(waiting.get(name) == rows for name in names):
            return
        assert time.monotonic() < deadline, f"{rows} rows expected in the queues, {waiting} there"
        time.sleep(0.05)
