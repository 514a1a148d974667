"""From a commit to its row at a classic client, at several rates, beside the least that a relay does (bench/peer.c)."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import psutil

from bench import readers
from bench.clients import Client
from bench.delivery import stopped
from bench.readers import BUILT
from bench.run import Run, started
from bench.shapes import NARROW, create, next_file
from examples.dbserver import DatabaseServer
from relay.protocol import classic
from relay.protocol.classic import Command, Format
from tests.support.relay_process import SECRET, RelayProcess, write_conf

RATES = {20: 2000, 200: 10_000, 2000: 10_000, 5000: 10_000}  # commits a second, and how many are timed
HIGHEST = 10_000  # commits as fast as they go, and the timed ones at 0.8 of that rate
WRITERS = 4  # connections that commit at rates from MANY on
MANY = 1000
MODES = {"poll": "polling client", "many": "waiting client"}
FACTORS = {"poll": 1.5, "many": 2.0}  # of the peer's delay
FLOOR_MS = 0.06  # or so much above it, whichever is more
LAGS = (0.05, 5.0)  # seconds, for autocorrelation
STATEMENT = "INSERT INTO bench.{} (customer, amount, created, note) VALUES (1, 2, '2026-01-01', 'a note')"


def measure(run: Run) -> None:
    """All rates, in turn with the peer; then with a disk whose syncs take 30 ms longer."""
    for table in ("delay", "delay_peer"):
        create(run.server, table, ("id BIGINT AUTO_INCREMENT PRIMARY KEY", *NARROW[1:]))
    settings = {"Relay.SegmentBytes": "256MiB", "Server.SourceTLS": "off"}
    with started(write_conf(run.scratch, run.server, settings)) as relay:
        client = Client(relay.port, SECRET, "delay", "delay")
        highest = int(0.8 * _highest_rate(run, client))
        for rate, count in (RATES | {highest: HIGHEST}).items():
            _compare(run, relay, client, rate, max(run.rows(count), 200))
        client.close()
    slow = RelayProcess(write_conf(run.scratch, run.server, settings))
    slow.environment = {**os.environ, "LD_PRELOAD": str(BUILT / "slow_sync")}
    try:
        slow.start()
        client = Client(slow.port, SECRET, "delay", "delay")
        run.report.step("200 commits/s, with slow syncs")
        delays = _delivered(run.server, client, "poll", 200, max(run.rows(RATES[200]), 200))
        _describe(run, "with syncs of 30 ms, 200 commits/s, polling client", [delays])
        client.close()
        slow.stop()
    finally:
        slow.end()


@dataclass
class Delays:
    """Milliseconds from the commit's return to the row's arrival, in the order of the commits, `rate` a second."""

    values: list[float]
    rate: float
    cpu: float = 0.0  # seconds of the relay's processes

    def percentile(self, percent: float) -> float:
        """The delay that this percentage of the rows does not exceed."""
        return sorted(self.values)[min(len(self.values) - 1, int(len(self.values) * percent / 100))]

    def autocorrelation(self) -> float:
        """The highest at lags between LAGS, as far as a quarter of the time reaches."""
        size = len(self.values)
        ordered = sorted(self.values)
        capped = [min(each, ordered[int(size * 0.999)]) for each in self.values]  # one outlier is no pattern
        mean = fmean(capped)
        apart = [each - mean for each in capped]
        power = sum(each * each for each in apart) or 1.0
        first, last = max(1, int(LAGS[0] * self.rate)), min(int(LAGS[1] * self.rate), size // 4)
        lags = range(first, last + 1, max(1, (last - first) // 200))
        return max((sum(a * b for a, b in zip(apart, apart[lag:], strict=False)) / power for lag in lags), default=0.0)


def _compare(run: Run, relay: RelayProcess, client: Client, rate: int, count: int) -> None:
    for mode, what in MODES.items():
        ours, peer = list[Delays](), list[Delays]()
        for number in range(run.rounds):
            run.report.step(f"{rate} commits/s to a {what}, {count} of them, round {number + 1} of {run.rounds}")
            before = _cpu(relay)
            delays = _delivered(run.server, client, mode, rate, count)
            delays.cpu = _cpu(relay) - before
            ours.append(delays)
            with stopped(relay):
                peer.append(_through_peer(run.server, mode, rate, count))
            client.exchange(client.request(Command.POLL))
        text = f"{rate} commits/s, {what}"
        _describe(run, f"{text}, relay", ours)
        _describe(run, f"{text}, peer", peer)
        for percent in (50, 99):
            allowed = [max(FACTORS[mode] * p, p + FLOOR_MS) for p in (each.percentile(percent) for each in peer)]
            values = [each.percentile(percent) for each in ours]
            run.report.ratio(f"{text}, p{percent}", values, allowed, "ms", of="what the peer allows", at_most=1)
        run.report.figure(f"  {text}, CPU of the relay", [1e6 * each.cpu / count for each in ours], "us a row")


def _describe(run: Run, what: str, rounds: Sequence[Delays]) -> None:
    """The whole distribution, and whether it has a rhythm."""
    every = Delays([value for each in rounds for value in each.values], rounds[0].rate)
    percents = (50, 90, 99, 99.9, 100)
    run.report.note(f"{what}: " + ", ".join(f"p{p:g} {every.percentile(p):.3f}" for p in percents) + " ms")
    if not what.endswith("peer"):
        highest = [each.autocorrelation() for each in rounds]
        run.report.figure(f"  {what}, highest autocorrelation", highest, "", at_most=0.1)


def _cpu(relay: RelayProcess) -> float:
    processes = [psutil.Process(pid) for pid in relay.pids().values()]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _highest_rate(run: Run, client: Client) -> float:
    run.report.step("the highest rate of the source")
    count = max(run.rows(HIGHEST), 200)
    times = _times(run.server, "many", "delay", 0, count, client.socket.fileno(), client.poll_many(1000, 10_000))
    client.exchange(client.request(Command.POLL))
    return count / ((times[-1][1] - times[0][0]) / 1e9)


def _delivered(server: DatabaseServer, client: Client, mode: str, rate: int, count: int) -> Delays:
    request = client.poll_many(1000, 10_000) if mode == "many" else client.request(Command.POLL)
    delays = _delays(server, mode, "delay", rate, count, client.socket.fileno(), request)
    client.exchange(client.request(Command.POLL))  # confirms the last rows
    return delays


def _through_peer(server: DatabaseServer, mode: str, rate: int, count: int) -> Delays:
    """The same through bench/peer.c, while the relay reads nothing."""
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
        dump = readers.dump_command(next_file(server), follow=True)
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
    times = _times(server, mode, table, int(1e9 / rate), count, fd, request)
    return Delays([(arrived - returned) / 1e6 for _, returned, arrived in times], rate)


def _times(
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
