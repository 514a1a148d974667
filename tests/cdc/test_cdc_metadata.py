"""CDC streams of a source whose table maps have no column names, the default of servers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from examples.dbserver import DatabaseServer
from tests.support.cdc_client import CdcClient, Row, triplet_of
from tests.support.cdc_relay import CdcRelay
from tests.support.relay_process import RelayProcess

pytestmark = pytest.mark.brands


def images(client: CdcClient, form: str, count: int) -> list[Row]:
    """The next rows of a stream in either form."""
    return client.rows(count) if form == "JSON" else [row for _, row in islice(client.records(), count)]


def columns(rows: list[Row]) -> list[Row]:
    """Without what every row has."""
    return [dict(list(row.items())[6:]) for row in rows]


def test_names_and_versions_are_those_of_the_table_at_the_time(
    start_relay: Callable[..., RelayProcess], server: DatabaseServer, db: str
) -> None:
    server.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY, `größe` INT UNSIGNED)")
    running = CdcRelay(start_relay, server)
    server.execute(f"INSERT INTO {db}.t VALUES (1, 4000000000)")
    live = running.stream(f"{db}.t")
    rows = live.rows(1)
    server.execute(f"ALTER TABLE {db}.t ADD e ENUM('a', 'b') FIRST", f"INSERT INTO {db}.t VALUES ('b', 2, 1)")
    rows += live.rows(1)
    server.execute(f"ALTER TABLE {db}.t CHANGE `größe` size BIGINT", f"UPDATE {db}.t SET size = -1 WHERE id = 2")
    rows += live.rows(2)
    assert columns(rows) == [
        {"id": 1, "gr____e": 4000000000},
        {"e": "b", "id": 2, "gr____e": 1},
        {"e": "b", "id": 2, "size": 1},
        {"e": "b", "id": 2, "size": -1},
    ]
    for form in ("JSON", "AVRO"):
        assert images(running.stream(f"{db}.t", form=form), form, 4) == rows
        assert images(running.stream(f"{db}.t.3", form=form), form, 2) == rows[2:]
        assert images(running.stream(f"{db}.t", triplet_of(rows[1]), form), form, 3) == rows[1:]
    missing = running.client().request(f"{db}.t.4")
    assert missing.line() == f"ERR NO-FILE File '{db}.t.000004.avro' not found.".encode()
    for client in running.clients:
        client.socket.close()
