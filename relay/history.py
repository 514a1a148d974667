"""The last hour for the charts: counters sampled into rings, turned into rates when somebody asks."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable
from typing import Final

from relay.httpapi import ClientHistory, History
from relay.stat import Client, Stat

INTERVAL: Final = 5.0
"""Seconds between two samples."""

SAMPLES: Final = 720
"""Samples kept: an hour."""

_KINDS: Final = ("insert", "update", "delete")


class Recorder:
    """Samples of the stat document, oldest overwritten first. `clock` gives Unix seconds.

    Memory has an end per client: two rings of 8 bytes a sample, once its numbers have changed.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._taken = 0
        self._at = _ring()
        self._relay: dict[str, array[float]] = {}
        self._clients: dict[int, _Traces] = {}

    def sample(self, document: Stat) -> None:
        """Takes one sample. A client that is gone is forgotten."""
        number, slot = self._taken, self._taken % SAMPLES
        self._taken += 1
        self._at[slot] = self._clock()
        for name, value in _facts(document).items():
            ring = self._relay.setdefault(name, _ring())
            ring[slot] = math.nan if value is None else value
        for client in document.clients:
            if (traces := self._clients.get(client.id)) is None:
                traces = self._clients[client.id] = _Traces(number, client)
            traces.take(number, client)
        for gone in self._clients.keys() - {client.id for client in document.clients}:
            del self._clients[gone]

    def history(self) -> History:
        """The charts of the whole relay."""
        rates = {name: self._rates(self._ring_of(name)) for name in (*_KINDS, "bytes", "confirmed", "cdc_rows")}
        return History(
            interval=INTERVAL,
            at=self._times(),
            **rates,
            lag_seconds=self._levels(self._ring_of("lag_seconds")),
            lag_bytes=_whole(self._levels(self._ring_of("lag_bytes"))),
            waiting=_whole(self._levels(self._ring_of("waiting"))),
            cdc_lag_bytes=_whole(self._levels(self._ring_of("cdc_lag_bytes"))),
        )

    def client(self, client_id: int) -> ClientHistory:
        """The charts of one client; without values if it was not sampled yet."""
        traces = self._clients.get(client_id)
        waiting, confirmed = traces.rings(self._taken) if traces else (_ring(), _ring())
        return ClientHistory(INTERVAL, self._times(), _whole(self._levels(waiting)), self._rates(confirmed))

    def _ring_of(self, name: str) -> array[float]:
        return self._relay.get(name) or _ring()

    def _in_order(self, ring: array[float]) -> array[float]:
        if self._taken <= SAMPLES:
            return ring[: self._taken]
        oldest = self._taken % SAMPLES
        return ring[oldest:] + ring[:oldest]

    def _times(self) -> list[float]:
        return [round(at, 3) for at in self._in_order(self._at)]

    def _levels(self, ring: array[float]) -> list[float | None]:
        return [None if math.isnan(value) else value for value in self._in_order(ring)]

    def _rates(self, ring: array[float]) -> list[float | None]:
        """Per second; None where a counter is not known or began anew."""
        counts, times = self._in_order(ring), self._in_order(self._at)
        rates: list[float | None] = [None] * len(counts)
        for i in range(1, len(counts)):
            grown, seconds = counts[i] - counts[i - 1], times[i] - times[i - 1]
            if grown >= 0 and seconds > 0:
                rates[i] = round(grown / seconds, 3)
        return rates


class _Traces:
    """The samples of one client. As long as they are the same they are kept once: of many clients most are idle."""

    __slots__ = ("_begun", "_changed", "_confirmed", "_waiting")

    def __init__(self, begun: int, client: Client) -> None:
        self._begun = begun  # number of the first sample, counted from the relay's first
        self._waiting, self._confirmed = client.waiting, client.confirmed
        self._changed: tuple[array[float], array[float]] | None = None

    def take(self, number: int, client: Client) -> None:
        """The sample of that number, the one after the last."""
        if self._changed is None:
            if (client.waiting, client.confirmed) == (self._waiting, self._confirmed):
                return
            self._changed = self.rings(number)
        for ring, value in zip(self._changed, (client.waiting, client.confirmed), strict=True):
            ring[number % SAMPLES] = value

    def rings(self, taken: int) -> tuple[array[float], array[float]]:
        """What waited and what was confirmed, after so many samples, each in its place."""
        if self._changed is not None:
            return self._changed
        waiting, confirmed = _ring(), _ring()
        for number in range(max(self._begun, taken - SAMPLES), taken):
            waiting[number % SAMPLES], confirmed[number % SAMPLES] = self._waiting, self._confirmed
        return waiting, confirmed


def _ring() -> array[float]:
    return array("d", [math.nan]) * SAMPLES


def _whole(values: list[float | None]) -> list[int | None]:
    return [None if value is None else int(value) for value in values]


def _facts(document: Stat) -> dict[str, float | None]:
    clients: list[Client] = document.clients
    cdc = document.cdc
    behind = (stream.lag_bytes for process in (cdc.processes if cdc else []) for stream in process.streams)
    return {
        **{kind: document.rows[kind] for kind in _KINDS},
        "bytes": document.traffic["bytes"],
        "confirmed": sum(client.confirmed for client in clients),
        "waiting": sum(client.waiting for client in clients),
        "lag_seconds": document.source.lag_seconds,
        "lag_bytes": document.source.lag_bytes,
        "cdc_rows": sum(process.rows for process in cdc.processes) if cdc else None,
        "cdc_lag_bytes": max(behind, default=0) if cdc else None,
    }
