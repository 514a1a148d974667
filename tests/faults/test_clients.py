"""Clients that misbehave, come in crowds, or lack resources."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient, Row
from relay.errors import RelayError
from relay.protocol import classic, classic_keys
from relay.protocol.classic import Command, Discard
from tests.faults.conftest import Ordeal
from tests.faults.herd import RESET, Herd, Member, address
from tests.faults.ordeal import Allows, times
from tests.support.relay_process import SECRET, RelayProcess
from tests.support.waiting import patience, until
from tests.support.workload import Change
from tests.whole.test_kill import living

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]
Start = Callable[..., RelayProcess]
MakeDb = Callable[[DatabaseServer], str]
LIMIT = 300


def test_one_that_never_reads_among_a_hundred(
    mariadb1011: DatabaseServer, make_db: MakeDb, start_relay: Start, ordeal: Ordeal
) -> None:
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011)
    with Herd(relay.port, "reads", times(97), db) as herd:
        name = "a client that never reads, among a hundred that do"
        with ordeal(name, relay, mariadb1011, db, Allows.NOTHING, pause=0.2) as trial:
            trial.clients += herd.members
            for number in range(times(20)):
                with trial.fault():
                    silent = asks_without_reading(relay, f"silent-{number}", db)
                time.sleep(1)
                silent.close()


def asks_without_reading(relay: RelayProcess, name: str, schema: str) -> socket.socket:
    """A client that asks for rows on and on, as long as the relay takes its requests, and takes no reply."""
    with RelayClient("127.0.0.1", relay.port, name, SECRET) as client:
        client.add_filter(schema)
    sock = socket.create_connection(("127.0.0.1", relay.port), patience(10))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    key = classic_keys.fnv1a64(SECRET.encode())
    sock.sendall(classic.encode_request(Command.AUTH, classic.encode_auth(key, name)))
    identity = classic.parse_identity(received(sock))
    poll = classic.encode_poll_many(classic.PollMany(1000, 0, 60_000, 0, classic.Format.MSGPACK))
    request = classic.encode_request(Command.POLL_MANY, poll, client_id=identity.client_id, token=identity.token)
    sock.setblocking(False)
    with suppress(BlockingIOError):
        for _ in range(10_000):
            sock.send(request)
    return sock


def received(sock: socket.socket) -> bytes:
    """The payload of the next reply."""
    replies = classic.ReplyParser()
    while (reply := replies.next()) is None:
        replies.feed(sock.recv(65536))
    return reply.payload


def test_a_million_connects(mariadb1011: DatabaseServer, make_db: MakeDb, start_relay: Start, ordeal: Ordeal) -> None:
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011)
    dice = random.Random(3)
    batch = 1000
    with ordeal("connects, from 250 addresses", relay, mariadb1011, db, Allows.NOTHING, pause=0.02) as trial:
        for number in range(max(1, times(1_000_000) // batch)):
            with trial.fault(batch):
                knock(relay.port, address(number), batch, dice)
        assert all(process["restarts"] == 0 for process in relay.stat()["processes"])


def knock(port: int, source: str, count: int, dice: random.Random) -> None:
    """Connect from an address so often, and go away in one of several ways."""
    ping = classic.encode_request(Command.PING, b"")
    for _ in range(count):
        with socket.socket() as sock, suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            sock.settimeout(patience(30))
            sock.bind((source, 0))
            sock.connect(("127.0.0.1", port))
            way = dice.randrange(8)
            if way == 0:
                sock.sendall(ping)
                received(sock)
            elif way == 1:
                sock.sendall(ping[: dice.randrange(len(ping))])
            elif way == 2:
                sock.sendall(dice.randbytes(40))


def test_half_open_connections(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal) -> None:
    relay = start_relay(server)
    with (
        Herd(relay.port, "comes-back", times(20), db) as herd,
        ordeal("half-open connections", relay, server, db, Allows.IN_FLIGHT, pause=0.05) as trial,
    ):
        trial.clients += herd.members
        for _ in range(times(20)):
            time.sleep(0.5)
            with trial.fault(len(herd.members)):
                herd.abandon_all()


def test_a_thousand_come_back_at_once(
    mariadb1011: DatabaseServer, make_db: MakeDb, start_relay: Start, ordeal: Ordeal
) -> None:
    db = make_db(mariadb1011)
    relay = start_relay(mariadb1011, {"Relay.MaxClients": 1100})
    with Herd(relay.port, "herd", times(1000), db) as herd:
        name = "reconnect of 1000 clients at once"
        with ordeal(name, relay, mariadb1011, db, Allows.IN_FLIGHT, pause=1.0) as trial:
            trial.clients += herd.members
            for number in range(times(6)):
                with trial.fault():
                    if number % 2:
                        herd.reconnect_all()
                    else:
                        for pid in living(relay, "server-"):
                            os.kill(pid, signal.SIGKILL)
                trial.catch_up()


@pytest.mark.parametrize("discard", [Discard.OLDEST, Discard.NEWEST])
def test_a_limit_at_full_load_counts_exactly(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal, discard: Discard
) -> None:
    relay = start_relay(server)
    with RelayClient("127.0.0.1", relay.port, "limited", SECRET) as limited:
        limited.add_filter(db, limit=LIMIT, discard=discard)
        taken = dropped = 0
        which = "oldest" if discard is Discard.OLDEST else "newest"
        with ordeal(f"a full queue that drops the {which}", relay, server, db, Allows.NOTHING) as trial:
            changes = trial.load.workload.changes
            for _ in range(times(10)):
                with trial.fault():
                    began = len(changes)
                    while len(changes) < began + 3 * LIMIT:
                        time.sleep(0.05)
                with trial.load.paused():
                    trial.catch_up()
                    fresh = changes[taken + dropped :]
                    kept = fresh[-LIMIT:] if discard is Discard.OLDEST else fresh[:LIMIT]
                    dropped += len(fresh) - len(kept)
                    taken += len(kept)
                    book = books(relay, "limited")
                    assert book["waiting"] == len(kept) and book["matched"] == taken + dropped, book
                    assert book["dropped"][f"limit_{which}"] == dropped == sum(book["dropped"].values()), book
                    rows = list[Row]()
                    while part := limited.poll_many():
                        rows += part
                    assert [as_change(row) for row in rows] == kept


def test_the_cap_of_the_journal_at_full_load_counts_exactly(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal
) -> None:
    small = {"Relay.SegmentBytes": "64KiB", "Relay.JournalKeepBytes": 0, "Relay.JournalKeepAge": 0}
    relay = start_relay(server, {**small, "Relay.JournalMaxBytes": "2MiB"})
    with RelayClient("127.0.0.1", relay.port, "away", SECRET) as away:
        away.add_filter(db)
        with ordeal("a client away, beyond JournalMaxBytes", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
            changes = trial.load.workload.changes
            taken = 0
            for _ in range(times(3)):
                with trial.fault():
                    cut = books(relay, "away")["dropped"]["cut"]
                    until(lambda: books(relay, "away")["dropped"]["cut"] != cut, 300, "nothing is cut", 0.5)  # noqa: B023
                with trial.load.paused():
                    trial.catch_up()
                    book = settled(relay, "away")
                    cut = book["dropped"]["cut"]
                    assert cut == sum(book["dropped"].values()) and book["matched"] == len(changes), book
                    assert book["waiting"] == len(changes) - cut - taken, book
                    rows = list[Row]()
                    while len(rows) < book["waiting"]:
                        part = away.poll_many(wait=patience(20))  # an empty reply may be a queue that is filled again
                        assert part, f"{len(rows)} of {book['waiting']} rows came"
                        rows += part
                    taken += len(rows)
                    assert [as_change(row) for row in rows] == changes[-len(rows) :]
                    assert not away.poll_many(), "more rows came than waited"


def books(relay: RelayProcess, name: str) -> dict[str, Any]:
    """A client's part of the document."""
    clients: list[dict[str, Any]] = relay.stat()["clients"]
    return next(client for client in clients if client["name"] == name)


def settled(relay: RelayProcess, name: str) -> dict[str, Any]:
    """A client's part, once it has not changed for some turns of retention: what is being cut is cut."""
    while True:
        before = books(relay, name)["dropped"]
        time.sleep(5)
        if (book := books(relay, name))["dropped"] == before:
            return book


def as_change(row: Row) -> Change:
    return Change(row.kind, row.table, row.before, row.after)


class TakenOver(Member):
    """Polls while another program logs in under its name, and goes on as that one."""

    def __init__(self, relay: RelayProcess, schema: str) -> None:
        super().__init__("shared", "127.0.0.1")
        self._relay = relay
        self._client = self._login()
        self._client.add_filter(schema)
        self._stopped = threading.Event()

    def _login(self) -> RelayClient:
        client = RelayClient("127.0.0.1", self._relay.port, self.name, SECRET)
        client.connect()
        return client

    def read(self, wait: float = 0.0) -> None:
        """What there is."""
        for row in self._client.poll_many(wait=wait):
            self.take(row)

    def follow(self) -> None:
        """Read on, until `stop`."""
        self._reading = threading.Thread(target=self._read_on, daemon=True)
        self._reading.start()

    def _read_on(self) -> None:
        while not self._stopped.is_set():
            self.read(wait=0.2)

    def stop(self) -> None:
        self._stopped.set()
        self._reading.join(patience(20))

    def take_over(self) -> None:
        """Another one logs in while rows are on their way to the first, which is then told, or has got them."""
        former = self._client
        told = threading.Thread(target=self._former, args=(former,))
        told.start()
        self._client = self._login()
        told.join(patience(30))
        former.close()

    def _former(self, former: RelayClient) -> None:
        with suppress(RelayError):
            former.poll_many(wait=0.5)  # its rows are confirmed by nobody


def test_a_name_is_taken_over_during_delivery(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal
) -> None:
    relay = start_relay(server)
    shared = TakenOver(relay, db)
    with ordeal("a name taken over during delivery", relay, server, db, Allows.IN_FLIGHT, pause=0.002) as trial:
        trial.clients.append(shared)
        for _ in range(times(100)):
            time.sleep(0.1)  # rows to deliver
            with trial.fault():
                shared.take_over()
            shared.read()
        shared.follow()
