"""Measures a fault: a load, clients that read it, and the accounts afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import msgspec

from examples.dbserver import DatabaseServer
from relay.client import BATCH_ROWS, RelayClient
from tests.faults.cdc import CdcConsumer
from tests.faults.classic import ClassicConsumer
from tests.faults.load import Load, TimedWorkload
from tests.support.consumer import Consumer
from tests.support.relay_process import RelayProcess
from tests.support.waiting import until
from tests.support.workload import Change

SCALE = float(os.environ.get("RELAY_FAULTS", "1"))
CHECKPOINT = 3.0  # seconds: what a checkpoint may be old, with all that delays it on a busy machine


def times(full: int) -> int:
    """How often to inject a fault that a full run injects so often; RELAY_FAULTS scales it, to once at least."""
    return max(1, round(full * SCALE))


class Allows(Enum):
    """What the promise allows to come twice."""

    NOTHING = "nothing"
    IN_FLIGHT = "what was in flight"
    LAST_SECOND = "the last checkpoint's second"


class Line(msgspec.Struct):
    """A line of the table: a fault and its accounts, over all clients of it. `recovery` is in seconds."""

    fault: str
    injected: int
    sent: int
    delivered: int
    lost: int
    repeated: int
    allows: str
    recovery: float


class Reads(Protocol):
    """A client of an ordeal: what it should have, when it got its rows, and when those that had come before."""

    name: str
    times: list[float]
    repeated: list[float]

    def wants(self, change: Change) -> bool: ...
    def check(self, wanted: list[Change]) -> None: ...
    def stop(self) -> None: ...


class ManyConsumer(Consumer):
    """A client that fetches with PollMany what its filter, given as `wants`, lets through."""

    def __init__(
        self, port: int, name: str, add_filters: Callable[[RelayClient], None], wants: Callable[[Change], bool]
    ) -> None:
        super().__init__(port, name, add_filters)
        self.name, self._wants = name, wants

    def wants(self, change: Change) -> bool:
        return self._wants(change)

    def check(self, wanted: list[Change]) -> None:
        """It has exactly these, in order."""
        got = self.changes()
        wrong = next(
            (i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted))
        )
        assert got == wanted, (
            f"{self.name}: {len(got)} rows of {len(wanted)}; row {wrong} is {got[wrong : wrong + 1]} and should be"
            f" {wanted[wrong : wrong + 1]}"
        )


@dataclass
class Fault:
    """When it was injected, and when it was over; by the monotonic clock."""

    begin: float
    count: int
    end: float = 0.0


class Trial:
    """A relay under load with its clients, while it is broken; `close` ends the load and does the accounts."""

    def __init__(self, fault: str, relay: RelayProcess, load: Load, clients: list[Reads], allows: Allows) -> None:
        self.relay, self.load, self.clients = relay, load, clients
        self._fault, self._allows = fault, allows
        self.faults: list[Fault] = []

    @contextmanager
    def fault(self, count: int = 1) -> Iterator[None]:
        """Around an injection, or `count` of them: counted, and recovery is measured from its end."""
        injected = Fault(time.monotonic(), count)
        self.faults.append(injected)
        yield
        injected.end = time.monotonic()

    def catch_up(self, seconds: float = 180) -> None:
        """Wait until every client has as many rows as were committed when this was called."""
        wanted = list(self.load.workload.changes)
        for client in self.clients:
            count = sum(map(client.wants, wanted))
            until(
                lambda client=client, count=count: len(client.times) >= count,  # type: ignore[misc]
                seconds,
                f"{self._fault}: {client.name} has {len(client.times)} of {count} rows",
            )

    def close(self) -> Line:
        """End the load; every client has every row in order, repeats are what is allowed, and the books balance."""
        self.load.stop()
        self.catch_up()
        time.sleep(0.1)  # for what may come twice behind the last row
        changes = self.load.workload.changes
        for client in self.clients:
            client.stop()
            client.check([change for change in changes if client.wants(change)])
        self._check_books()
        sent = sum(sum(map(client.wants, changes)) for client in self.clients)
        delivered = sum(len(client.times) for client in self.clients)
        each = {client.name: len(client.repeated) for client in self.clients}
        repeated = sum(each.values())
        assert repeated <= self._repeatable(), f"{self._fault}: {repeated} rows came twice: {each}"
        assert self.faults, "nothing was injected"
        return Line(
            self._fault,
            sum(fault.count for fault in self.faults),
            sent,
            delivered,
            sent - delivered,
            repeated,
            self._allows.value,
            round(max(map(self._recovery, self.faults)), 2),
        )

    def _repeatable(self) -> int:
        """Rows that may have come twice, in all."""
        if self._allows is Allows.NOTHING:
            return 0
        in_flight = len(self.faults) * BATCH_ROWS * len(self.clients)
        if self._allows is Allows.IN_FLIGHT:
            return in_flight
        recent = sum(
            fault.begin - CHECKPOINT <= came <= fault.end
            for client in self.clients
            for came in client.times + client.repeated
            for fault in self.faults
        )
        return in_flight + recent

    def _recovery(self, fault: Fault) -> float:
        """Seconds from its end until all that was committed by then was at every client."""
        committed = sum(moment <= fault.end for moment in self.load.workload.times)
        longest = 0.0
        for client in self.clients:
            count = sum(map(client.wants, self.load.workload.changes[:committed]))
            if count:
                longest = max(longest, client.times[count - 1] - fault.end)
        return longest

    def _check_books(self) -> None:
        queued = [client for client in self.clients if not isinstance(client, CdcConsumer)]

        def settled() -> Any:
            clients = {client["name"]: client for client in self.relay.stat()["clients"]}
            return clients if all(not clients[c.name]["waiting"] for c in queued) else None

        books = until(settled, 30, f"{self._fault}: queues that do not empty")
        for client in queued:
            book = books[client.name]
            dropped = sum(book["dropped"].values())
            assert book["matched"] == book["confirmed"] + book["in_flight"] + book["waiting"] + dropped, book
            assert dropped == 0, book
            wanted = sum(map(client.wants, self.load.workload.changes))
            assert book["matched"] == wanted, f"{client.name} matched {book['matched']} rows of {wanted}"


def begin(
    fault: str,
    relay: RelayProcess,
    server: DatabaseServer,
    db: str,
    allows: Allows = Allows.IN_FLIGHT,
    *,
    ddl: bool = False,
    pause: float = 0.0,
    workload: type[TimedWorkload] = TimedWorkload,
    cdc: int = 0,
) -> Trial:
    """Clients of `relay` and a load on the schema `db`, which the server's tables are made in; see `Trial`.

    `cdc` is the relay's port for a client of CDC, if there is to be one.
    """
    clients: list[Reads] = [
        ManyConsumer(relay.port, "everything", lambda c: c.add_filter(db), lambda change: True),
        ManyConsumer(
            relay.port,
            "updates-of-beta",
            lambda c: c.add_filter(db, "beta", kinds="U"),
            lambda change: change.kind == "update" and change.table == "beta",
        ),
        ClassicConsumer(relay.port, "classic", db),
    ]
    if cdc:
        clients.append(CdcConsumer(cdc, "stream-of-alpha", db, "alpha"))
    load = Load(workload(server, db, seed=len(fault), ddl=ddl), pause)
    load.start()
    return Trial(fault, relay, load, clients, allows)
