"""From a commit to its row at a classic client: the delays through a relay, and through bench/peer.c."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bench import readers, shapes
from bench.clients import Client
from bench.readers import BUILT
from examples.dbserver import DatabaseServer
from relay.protocol import classic
from relay.protocol.classic import Command, Format

MODES = {"poll": "polling client", "many": "waiting client"}
WRITERS = 4  # connections that commit at rates from MANY on
MANY = 1000
LAGS = (0.05, 5.0)  # seconds, for autocorrelation
STATEMENT = "INSERT INTO bench.{} (customer, amount, created, note) VALUES (1, 2, '2026-01-01', 'a note')"


@dataclass
class Delays:
    """Milliseconds from the commit's return to the row's arrival, in the order of the commits, `rate` a second."""

    values: list[float]
    rate: float

    def percentile(self, percent: float) -> float:
        """The delay that this percentage of the rows does not exceed."""
        return sorted(self.values)[min(len(self.values) - 1, int(len(self.values) * percent / 100))]

    def distribution(self) -> str:
        """Its percentiles in words."""
        return ", ".join(f"p{p:g} {self.percentile(p):.3f}" for p in (50, 90, 99, 99.9, 100)) + " ms"


def autocorrelation(rounds: Sequence[Delays]) -> float:
    """The highest of all rounds together, at lags between LAGS, as far as a quarter of a round reaches.

    A rhythm has the same lag in each round. In one round, two slow moments are as far apart as chance has it.
    """
    size, rate = min(len(each.values) for each in rounds), rounds[0].rate
    apart = [_apart(each.values) for each in rounds]
    power = sum(delay * delay for each in apart for delay in each) or 1.0
    first, last = max(1, int(LAGS[0] * rate)), min(int(LAGS[1] * rate), size // 4)
    lags = range(first, last + 1, max(1, (last - first) // 200))
    return max((sum(_product(each, lag) for each in apart) / power for lag in lags), default=0.0)


def _apart(values: Sequence[float]) -> list[float]:
    """The distances from the mean. One outlier is no pattern: the highest thousandth is capped."""
    cap = sorted(values)[int(len(values) * 0.999)]
    capped = [min(each, cap) for each in values]
    mean = fmean(capped)
    return [each - mean for each in capped]


def _product(values: Sequence[float], lag: int) -> float:
    return sum(a * b for a, b in zip(values, values[lag:], strict=False))


def joined(rounds: Sequence[Delays]) -> Delays:
    """The delays of several rounds as one."""
    return Delays([value for each in rounds for value in each.values], rounds[0].rate)


def create(server: DatabaseServer, table: str) -> None:
    """The table that the commits insert into."""
    shapes.create(server, table, ("id BIGINT AUTO_INCREMENT PRIMARY KEY", *shapes.NARROW[1:]))


def delivered(server: DatabaseServer, client: Client, mode: str, rate: int, count: int, table: str = "delay") -> Delays:
    """The delays of so many commits, `rate` a second; the client asks again and again ("poll"), or waits ("many")."""
    request = client.poll_many(1000, 10_000) if mode == "many" else client.request(Command.POLL)
    delays = _delays(server, mode, table, rate, count, client.socket.fileno(), request)
    client.exchange(client.request(Command.POLL))  # confirms the last rows
    return delays


def through_peer(server: DatabaseServer, mode: str, rate: int, count: int) -> Delays:
    """The same through bench/peer.c. Relays are to read nothing meanwhile."""
    wanted = classic.encode_poll_many(classic.PollMany(1000, 0, 10_000, 0, Format.TEXT))
    many = classic.encode_request(Command.POLL_MANY, wanted)
    request = many if mode == "many" else classic.encode_request(Command.POLL)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        receiver = stack.enter_context(socket.create_connection(listener.getsockname()))
        served = stack.enter_context(listener.accept()[0])
        for end in (receiver, served):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = readers.connect(server)
        fds = connection._sock.fileno(), served.fileno()
        dump = readers.dump_command(shapes.next_file(server), follow=True)
        peer = subprocess.Popen([BUILT / "peer", *map(str, fds)], stdin=subprocess.PIPE, pass_fds=fds)
        try:
            assert peer.stdin is not None
            peer.stdin.write(dump)
            peer.stdin.close()
            return _delays(server, mode, "delay_peer", rate, count, receiver.fileno(), request)
        finally:
            peer.kill()
            peer.wait()
            connection.close()


def _delays(server: DatabaseServer, mode: str, table: str, rate: int, count: int, fd: int, request: bytes) -> Delays:
    timed = times(server, mode, table, int(1e9 / rate), count, fd, request)
    return Delays([(arrived - returned) / 1e6 for _, returned, arrived in timed], rate)


def times(
    server: DatabaseServer, mode: str, table: str, interval: int, count: int, fd: int, request: bytes
) -> list[tuple[int, int, int]]:
    """What bench/delay.c prints: sent, returned, arrived of each transaction, in nanoseconds."""
    query = b"\x03" + STATEMENT.format(table).encode()
    packet = len(query).to_bytes(4, "little") + query
    with _writers(server, WRITERS if interval < 1e9 / MANY else 1) as writers:
        fds = (fd, *(writer._sock.fileno() for writer in writers))
        done = subprocess.run(
            [BUILT / "delay", mode, str(count), str(interval), *map(str, fds)],
            input=b"".join(len(each).to_bytes(4, "little") + each for each in (packet, request)),
            stdout=subprocess.PIPE,
            pass_fds=fds,
            check=True,
        )
    time.sleep(0.3)  # the source and the relay come to rest
    return list(struct.iter_unpack("<QQQ", done.stdout))


@contextmanager
def _writers(server: DatabaseServer, count: int) -> Iterator[list[Any]]:
    """Connections that delay.c writes to; it uses PyMySQL's private sockets."""
    writers: list[Any] = [server.connect() for _ in range(count)]
    try:
        yield writers
    finally:
        for writer in writers:
            writer.close()
