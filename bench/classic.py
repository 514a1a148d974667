"""Classic polls, one row per reply, from an existing binlog, compared with a bare echo server and with Redis."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import psutil

from bench.clients import Client, put_load, wait_queued
from bench.echo import Echo, connect
from bench.run import Run
from bench.shapes import NARROW, NARROW_VALUES, create, insert
from relay.protocol.classic import REPLY, Command
from tests.support.redis_server import PING, Redis
from tests.support.relay_process import SECRET, RelayProcess, write_conf

ROWS = 600_000  # per client
WORKERS = 2
GROUPS = (1, 4, 8)  # clients that poll at the same time, evenly spread over the servers
SLICES, SLICE_SECONDS = 6, 0.5  # a round alternates this many slices, so that other load on the host affects both sides
ECHO_BARS = {1: 0.9, 4: 0.85}
REDIS_CLIENTS, REDIS_BAR = 8, 1.25


@dataclass
class Round:
    """The results of one contestant in the slices of a round. CPU seconds by group of processes."""

    replies: int = 0
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Replies per second."""
        return self.replies / self.seconds

    def cost(self, who: str) -> float:
        """Microseconds of CPU time per reply."""
        return self.cpu[who] / self.replies * 1e6


@dataclass
class Contestant:
    """A contestant: a load mode, connected sockets with a request each, and process ids whose CPU time counts."""

    mode: str
    sockets: Sequence[socket.socket]
    requests: Sequence[bytes]
    processes: dict[str, list[int]]

    def slice(self, into: Round, seconds: float) -> None:
        """Puts load on it for a slice."""
        before = {who: cpu_seconds(pids) for who, pids in self.processes.items()}
        load = put_load(self.mode, seconds, self.sockets, self.requests)
        for who, pids in self.processes.items():
            into.cpu[who] = into.cpu.get(who, 0.0) + cpu_seconds(pids) - before[who]
        into.replies += load.replies
        into.seconds += load.seconds


def measure(run: Run) -> None:
    """Fills the queues of all clients, then lets each group poll in turns with its peer."""
    create(run.server, "live", NARROW)
    settings: dict[str, object] = {"Relay.Workers": WORKERS, "Relay.SegmentBytes": "256MiB"}
    relay = RelayProcess(write_conf(run.scratch, run.server, settings))
    with ExitStack() as stack:
        stack.callback(relay.end)
        relay.start()
        names = [f"poll-{number}" for number in range(sum(GROUPS) + WORKERS * REDIS_CLIENTS)]
        clients = [stack.enter_context(closing(Client(relay.port, SECRET, name, "live"))) for name in names]
        rows = run.rows(ROWS)
        run.report.step(f"queueing {rows} rows for {len(clients)} clients")
        insert(run.server, "live", NARROW_VALUES, 1, rows)
        wait_queued(relay, names, rows)
        sample = clients[0].exchange(clients[0].request(Command.POLL))
        reply = bytes([0]) + len(sample.payload).to_bytes(4, "little") + bytes(REPLY.size - 5) + sample.payload
        echo = stack.enter_context(Echo(reply, WORKERS))
        redis = stack.enter_context(Redis(run.scratch, run.report.step))
        pids = processes(relay)
        for count in GROUPS:
            group, clients = clients[:count], clients[count:]
            ours = contestant(group, pids)
            if count in ECHO_BARS:
                compare_with_echo(run, echo, ours)
            if count == REDIS_CLIENTS:
                compare_with_redis(run, redis, ours, f"{WORKERS} servers")
        # Redis is one process, so these clients use one server.
        alone = [client for client in clients if client.identity.client_id % WORKERS == 0]
        compare_with_redis(run, redis, contestant(alone, pids), "of one server")
        relay.stop()
    run.report.note(
        "The original relay is not run here. It was recorded once with 11.3 k replies/s to one client and 41 to"
        " 45 k to four, where the echo had 22 k and 128 to 151 k; 1.8x and 2.5x of it are the same bars in other words."
    )


def contestant(clients: Sequence[Client], pids: dict[str, list[int]]) -> Contestant:
    """The relay, with these clients, as a contestant."""
    requests = [client.request(Command.POLL) for client in clients]
    return Contestant("poll", [client.socket for client in clients], requests, pids)


def compare_with_echo(run: Run, echo: Echo, ours: Contestant) -> None:
    """Replies per second compared with Python's bare epoll loop, in as many processes, with the same bytes."""
    count = len(ours.sockets)
    sockets = echo.connect(count)
    bare = Contestant("poll", sockets, ours.requests, {"all": echo.pids})
    own, peer = measure_in_turns(run, ours, bare)
    many = f"{count} client{'s' if count > 1 else ''}"
    run.report.ratio(
        f"replies/s, {many}",
        [each.rate for each in own],
        [each.rate for each in peer],
        "replies/s",
        of="a bare Python epoll echo of the same sizes",
        at_least=ECHO_BARS[count],
    )
    for connection in sockets:
        connection.close()


def compare_with_redis(run: Run, redis: Redis, ours: Contestant, where: str) -> None:
    """CPU time per reply compared with that of a PING, with as many clients and the same load program."""
    clients = f"{len(ours.sockets)} clients, {where}"
    sockets = [connect(("127.0.0.1", redis.port)) for _ in ours.sockets]
    pings = Contestant("line", sockets, [PING] * len(sockets), {"all": [redis.pid]})
    own, peer = measure_in_turns(run, ours, pings)
    costs = [each.cost("all") for each in peer]
    for who, what in (("all", "all processes"), ("servers", "serving processes")):
        run.report.ratio(
            f"CPU a reply, {clients}, {what}",
            [each.cost(who) for each in own],
            costs,
            "us",
            of=f"Redis {redis.version}'s PING",
            at_most=REDIS_BAR,
        )
    run.report.ratio(
        f"replies/s, {clients}",
        [each.rate for each in own],
        [each.rate for each in peer],
        "replies/s",
        of="Redis's one process",
    )
    for connection in sockets:
        connection.close()


def measure_in_turns(run: Run, ours: Contestant, peer: Contestant) -> tuple[list[Round], list[Round]]:
    """The rounds of both contestants."""
    own, other = [], []
    for number in range(run.rounds):
        run.report.step(f"{len(ours.sockets)} clients, {SLICES} slices by turns, round {number + 1} of {run.rounds}")
        own.append(Round())
        other.append(Round())
        for _ in range(SLICES):
            peer.slice(other[-1], SLICE_SECONDS * min(run.scale, 1))
            ours.slice(own[-1], SLICE_SECONDS * min(run.scale, 1))
    return own, other


def processes(relay: RelayProcess) -> dict[str, list[int]]:
    """All of the relay's processes, and those that serve clients."""
    serving = [pid for name, pid in relay.pids().items() if name.startswith("server-")]
    pids = [relay.pid, *(child.pid for child in psutil.Process(relay.pid).children(recursive=True))]
    return {"all": pids, "servers": serving}


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU time of processes so far, by their clocks in nanoseconds instead of the ticks of /proc."""
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)  # clock_getcpuclockid(3)
