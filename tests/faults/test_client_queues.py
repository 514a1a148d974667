"""Faults without kills: limits beside unlimited filters, rows that a client cannot process, blocks with new owners."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient, Row
from relay.commands.admin_client import AdminClient
from relay.errors import RelayError
from relay.protocol.classic import Discard
from tests.faults.conftest import Ordeal
from tests.faults.ordeal import Allows, times
from tests.faults.test_clients import LIMIT, as_change, books
from tests.support.relay_process import ADMIN_SECRET, SECRET, RelayProcess
from tests.support.waiting import patience, until
from tests.whole.test_kill import living

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Start = Callable[..., RelayProcess]


def test_a_limit_beside_a_filter_without_one(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal
) -> None:
    """All rows of one table, and of the others the newest few."""
    relay = start_relay(server)
    with RelayClient("127.0.0.1", relay.port, "limited", SECRET) as limited:
        limited.add_filter(db, "alpha")
        limited.add_filter(db, "*", limit=LIMIT, discard=Discard.OLDEST)
        seen = dropped = 0
        name = "a full queue that drops the oldest, beside a filter without a limit"
        with ordeal(name, relay, server, db, Allows.NOTHING) as trial:
            changes = trial.load.workload.changes
            for _ in range(times(10)):
                with trial.fault():
                    began = len(changes)
                    while len(changes) < began + 6 * LIMIT:
                        time.sleep(0.05)
                with trial.load.paused():
                    trial.catch_up()
                    fresh = changes[seen:]
                    others = [change for change in fresh if change.table != "alpha"]
                    gone = {id(change) for change in others[:-LIMIT]}
                    kept = [change for change in fresh if id(change) not in gone]
                    seen, dropped = seen + len(fresh), dropped + len(gone)
                    book = books(relay, "limited")
                    assert (book["matched"], book["waiting"]) == (seen, len(kept)), book
                    assert book["dropped"]["limit_oldest"] == dropped == sum(book["dropped"].values()), book
                    rows = list[Row]()
                    while len(rows) < len(kept):
                        part = limited.poll_many(
                            wait=patience(20)
                        )  # an empty reply may be a queue that is filled again
                        assert part, f"{len(rows)} of {len(kept)} rows came"
                        rows += part
                    assert [as_change(row) for row in rows] == kept


def test_a_row_that_a_client_cannot_take(server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal) -> None:
    """It breaks its connection at each reply; after MaxRepeats the row is skipped and counted, and it gets the next."""
    relay = start_relay(server, {"Relay.MaxRepeats": 5})
    with RelayClient("127.0.0.1", relay.port, "fragile", SECRET) as fragile:
        fragile.add_filter(db, "alpha", kinds="I")
    with ordeal("a client that cannot take a row", relay, server, db, Allows.NOTHING, pause=0.01) as trial:
        for number in range(times(10)):
            with trial.fault():

                def skipped() -> bool:
                    take_and_break(relay.port, "fragile")
                    return bool(books(relay, "fragile")["dropped"]["skipped"] > number)  # noqa: B023

                until(skipped, 60, lambda: f"no row is skipped: {books(relay, 'fragile')}", 0)
        book = books(relay, "fragile")
        assert sum(book["dropped"].values()) == book["dropped"]["skipped"] and not book["confirmed"], book


def take_and_break(port: int, name: str) -> None:
    """Take a reply, and go away without confirming it."""
    with closing(RelayClient("127.0.0.1", port, name, SECRET)) as client:
        client.connect()
        client.poll_many(1, wait=1)


def test_a_block_that_changes_hands_while_its_server_stands_still(
    server: DatabaseServer, db: str, start_relay: Start, ordeal: Ordeal
) -> None:
    """A client is forgotten while it polls, and the next ones ask for nothing: none of its rows reaches them."""
    relay = start_relay(server, {"Relay.Workers": 2, "Relay.MaxClients": 8})
    name = "a client forgotten and others admitted, under a server that stands still"
    with ordeal(name, relay, server, db, Allows.NOTHING, pause=0.002) as trial:
        for number in range(times(20)):
            former = RelayClient("127.0.0.1", relay.port, f"former-{number}", SECRET, patience=0)
            with closing(former), AdminClient("127.0.0.1", relay.port, ADMIN_SECRET) as admin:
                former.connect()
                former.add_filter(db)
                former.poll_many(wait=1)
                with trial.fault():
                    servers = living(relay, "server-")
                    for pid in servers[number % 2 :][:1]:
                        os.kill(pid, signal.SIGSTOP)
                    time.sleep(0.1)
                    for pid in servers:
                        os.kill(pid, signal.SIGCONT)
                    admin.forget(f"former-{number}")
                got = list[Row]()
                for other in range(3):
                    with RelayClient("127.0.0.1", relay.port, f"next-{number}-{other}", SECRET) as later:
                        later.add_filter("nobody", "writes")
                        got += later.poll_many(wait=0.1)
                    admin.forget(f"next-{number}-{other}")
                assert not got, f"rows of a client that was forgotten: {got[:3]}"
                with pytest.raises(RelayError):
                    former.poll_many(wait=1)
