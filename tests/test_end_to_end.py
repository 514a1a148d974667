"""The whole line on real servers: what clients asked for is what they get, in order, with right values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from tests.consumer import Consumer
from tests.relayproc import RelayProcess
from tests.workload import Change, Workload

Start = Callable[..., RelayProcess]


def first_difference(got: list[Change], wanted: list[Change]) -> str:
    for index, (a, b) in enumerate(zip(got, wanted, strict=False)):
        if a != b:
            return f"row {index} of {len(wanted)}:\n  got    {a}\n  wanted {b}"
    return f"{len(got)} rows instead of {len(wanted)}"


def assert_changes(consumer: Consumer, wanted: list[Change]) -> None:
    got = consumer.changes()
    assert got == wanted, first_difference(got, wanted)


@pytest.mark.parametrize("metadata", ["FULL", "default"])
def test_three_clients_get_exactly_the_rows_they_asked_for(
    server: DatabaseServer, start_relay: Start, db: str, metadata: str, request: pytest.FixtureRequest
) -> None:
    if metadata == "FULL":
        request.getfixturevalue("full_metadata")
    relay = start_relay(server)
    everything = Consumer(relay.port, "everything", lambda c: c.add_filter(db))
    inserts = Consumer(relay.port, "inserts-of-two", lambda c: _two_tables(c, db))
    deletes = Consumer(relay.port, "deletes", lambda c: c.add_filter("*", "gamma", kinds="D"))
    workload = Workload(server, db, seed=7, ddl=metadata == "FULL")
    workload.run(400)
    wanted = workload.changes
    everything.wait_for(len(wanted))
    for consumer in (everything, inserts, deletes):
        consumer.stop()
    assert_changes(everything, wanted)
    assert_changes(inserts, [c for c in wanted if c.kind == "insert" and c.table in ("alpha", "beta")])
    assert_changes(deletes, [c for c in wanted if c.kind == "delete" and c.table == "gamma"])
    workload.close()


def _two_tables(client: RelayClient, db: str) -> None:
    client.add_filter(db, "alpha", kinds="I")
    client.add_filter(db, "beta", kinds="I")
