"""From a commit to its row at a classic client, at several rates, beside the least that a relay does (bench/peer.c)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing

from bench import delays
from bench.clients import Client
from bench.delays import MODES, Delays
from bench.delivery import stopped
from bench.readers import BUILT
from bench.run import Run, started
from relay.protocol.classic import Command
from tests.support.relay_process import SECRET, RelayProcess, write_conf

RATES = {20: 2000, 200: 10_000, 2000: 10_000, 5000: 10_000}  # commits a second, and how many are timed
HIGHEST = 10_000  # commits as fast as they go, and the timed ones at 0.8 of that rate
FACTORS = {"poll": 1.5, "many": 2.0}  # of the peer's delay
FLOOR_MS = 0.06  # or so much above it, whichever is more


def measure(run: Run) -> None:
    """All rates, in turn with the peer; then with a disk whose syncs take 30 ms longer."""
    for table in ("delay", "delay_peer"):
        delays.create(run.server, table)
    settings = {"Relay.SegmentBytes": "256MiB", "Server.SourceTLS": "off"}
    with (
        started(write_conf(run.scratch, run.server, settings)) as relay,
        closing(Client(relay.port, SECRET, "delay", "delay")) as client,
    ):
        highest = int(0.8 * _highest_rate(run, client))
        for rate, count in (RATES | {highest: HIGHEST}).items():
            _compare(run, relay, client, rate, max(run.rows(count), 200))
    slow = RelayProcess(write_conf(run.scratch, run.server, settings))
    slow.environment = {**os.environ, "LD_PRELOAD": str(BUILT / "slow_sync")}
    try:
        slow.start()
        with closing(Client(slow.port, SECRET, "delay", "delay")) as client:
            run.report.step("200 commits/s, with slow syncs")
            delayed = delays.delivered(run.server, client, "poll", 200, max(run.rows(RATES[200]), 200))
            _describe(run, "with syncs of 30 ms, 200 commits/s, polling client", [delayed])
        slow.stop()
    finally:
        slow.end()


def _compare(run: Run, relay: RelayProcess, client: Client, rate: int, count: int) -> None:
    for mode, what in MODES.items():
        ours, peer, cost = list[Delays](), list[Delays](), list[float]()
        for number in range(run.rounds):
            run.report.step(f"{rate} commits/s to a {what}, {count} of them, round {number + 1} of {run.rounds}")
            used = relay.cpu_seconds()
            ours.append(delays.delivered(run.server, client, mode, rate, count))
            cost.append(1e6 * (relay.cpu_seconds() - used) / count)
            with stopped(relay):
                peer.append(delays.through_peer(run.server, mode, rate, count))
            client.exchange(client.request(Command.POLL))
        text = f"{rate} commits/s, {what}"
        _describe(run, f"{text}, relay", ours)
        _describe(run, f"{text}, peer", peer)
        for percent in (50, 99):
            allowed = [max(FACTORS[mode] * p, p + FLOOR_MS) for p in (each.percentile(percent) for each in peer)]
            values = [each.percentile(percent) for each in ours]
            run.report.ratio(f"{text}, p{percent}", values, allowed, "ms", of="what the peer allows", at_most=1)
        run.report.figure(f"  {text}, CPU of the relay", cost, "us a row")


def _describe(run: Run, what: str, rounds: Sequence[Delays]) -> None:
    """The whole distribution, and whether it has a rhythm."""
    run.report.note(f"{what}: {delays.joined(rounds).distribution()}")
    if not what.endswith("peer"):
        highest = delays.autocorrelation(rounds)
        run.report.figure(f"  {what}, highest autocorrelation", [highest], "", at_most=0.1)


def _highest_rate(run: Run, client: Client) -> float:
    run.report.step("the highest rate of the source")
    count = max(run.rows(HIGHEST), 200)
    request = client.poll_many(1000, 10_000)
    times = delays.times(run.server, "many", "delay", 0, count, client.socket.fileno(), request)
    client.exchange(client.request(Command.POLL))
    return count / ((times[-1][1] - times[0][0]) / 1e9)
