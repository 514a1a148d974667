"""The last hour for the charts: keeps samples of counters in rings, and computes rates on request."""

from __future__ import annotations

import math
import time
from array import array
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import msgspec

from relay.monitoring.documents import ClientHistory, History
from relay.monitoring.stat import Client, Stat

INTERVAL: Final = 5.0
"""Seconds between two samples."""

SAMPLES: Final = 720
"""Samples kept: an hour."""

_KINDS: Final = ("insert", "update", "delete")


class Recorder:
    """Samples of the stat document. A new sample overwrites the oldest. `clock` returns Unix seconds.

    A client takes two rings of 8 bytes per sample, and none before its counters change.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._taken = 0
        self._at = _ring()
        self._relay: defaultdict[str, array[float]] = defaultdict(_ring)
        self._clients: dict[int, _ClientSamples] = {}

    def sample(self, document: Stat) -> None:
        """Take one sample. Remove the samples of clients that no longer exist."""
        number, slot = self._taken, self._taken % SAMPLES
        self._taken += 1
        self._at[slot] = self._clock()
        for name, value in _values(document).items():
            self._relay[name][slot] = math.nan if value is None else value
        for client in document.clients:
            if (samples := self._clients.get(client.id)) is None:
                samples = self._clients[client.id] = _ClientSamples(number, client.waiting, client.confirmed)
            samples.add(number, client)
        if len(self._clients) > len(document.clients):
            for gone in self._clients.keys() - {client.id for client in document.clients}:
                del self._clients[gone]

    def history(self) -> History:
        """Return the charts of the whole relay."""
        rates = {name: self._rates(self._relay[name]) for name in (*_KINDS, "bytes", "confirmed", "cdc_rows")}
        return History(
            interval=INTERVAL,
            at=self._times(),
            **rates,
            lag_seconds=self._known(self._relay["lag_seconds"]),
            lag_bytes=_integers(self._known(self._relay["lag_bytes"])),
            waiting=_integers(self._known(self._relay["waiting"])),
            cdc_lag_bytes=_integers(self._known(self._relay["cdc_lag_bytes"])),
        )

    def client(self, client_id: int) -> ClientHistory:
        """Return the charts of one client; empty before its first sample."""
        samples = self._clients.get(client_id)
        waiting, confirmed = samples.rings(self._taken) if samples else (_ring(), _ring())
        return ClientHistory(INTERVAL, self._times(), _integers(self._known(waiting)), self._rates(confirmed))

    def _in_order(self, ring: array[float]) -> array[float]:
        """Return the samples of a ring, oldest first."""
        if self._taken <= SAMPLES:
            return ring[: self._taken]
        oldest = self._taken % SAMPLES
        return ring[oldest:] + ring[:oldest]

    def _times(self) -> list[float]:
        return [round(at, 3) for at in self._in_order(self._at)]

    def _known(self, ring: array[float]) -> list[float | None]:
        """Return the samples of a ring; None where a value is unknown."""
        return [None if math.isnan(value) else value for value in self._in_order(ring)]

    def _rates(self, ring: array[float]) -> list[float | None]:
        """Rates per second; None where a counter is unknown or was reset."""
        counts, times = self._in_order(ring), self._in_order(self._at)
        rates: list[float | None] = [None] * len(counts)
        for i in range(1, len(counts)):
            grown, seconds = counts[i] - counts[i - 1], times[i] - times[i - 1]
            if grown >= 0 and seconds > 0:
                rates[i] = round(grown / seconds, 3)
        return rates


class _ClientSamples(msgspec.Struct, gc=False):
    """The samples of one client. It has rings only once a value has changed: of many clients, most are idle."""

    first: int  # number of the first sample, counted from the start of the relay
    waiting: int
    confirmed: int
    changing: tuple[array[float], array[float]] | None = None

    def add(self, number: int, client: Client) -> None:
        """Add the sample with that number, which follows the last one."""
        if self.changing is None:
            if (client.waiting, client.confirmed) == (self.waiting, self.confirmed):
                return
            self.changing = self.rings(number)
        for ring, value in zip(self.changing, (client.waiting, client.confirmed), strict=True):
            ring[number % SAMPLES] = value

    def rings(self, taken: int) -> tuple[array[float], array[float]]:
        """Return the rings of waiting and of confirmed rows after `taken` samples."""
        if self.changing is not None:
            return self.changing
        waiting, confirmed = _ring(), _ring()
        for number in range(max(self.first, taken - SAMPLES), taken):
            waiting[number % SAMPLES], confirmed[number % SAMPLES] = self.waiting, self.confirmed
        return waiting, confirmed


def _ring() -> array[float]:
    return array("d", [math.nan]) * SAMPLES


def _integers(values: list[float | None]) -> list[int | None]:
    return [None if value is None else int(value) for value in values]


def _values(document: Stat) -> dict[str, float | None]:
    """Return what is sampled of a document, by name; None if it is unknown."""
    clients, cdc = document.clients, document.cdc
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
