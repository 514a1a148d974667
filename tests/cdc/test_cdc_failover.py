"""The CDC port when the source fails and another server takes over: streams and returning clients continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cdc_client import triplet_of
from tests.support.cdc_source import KINDS, relay_on
from tests.support.replicating_pair import HOSTS, executed, pair_of
from tests.support.waiting import until


@pytest.mark.parametrize("kind", KINDS)
def test_streams_and_those_who_come_back_go_on_at_the_other_server(kind: str, tmp_path: Path) -> None:
    hosts = {"Server.IPAddr": ", ".join(HOSTS), "Source.Heartbeat": "1s"}
    with pair_of(kind, "--binlog-row-metadata=FULL") as (first, second), relay_on(first, tmp_path, hosts) as cdc:
        first.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
        cdc.await_rows("d.t", 1)
        with cdc.client() as client:
            rows = client.stream("d.t").rows(1)
            first.execute("INSERT INTO d.t VALUES (2)")
            rows += client.rows(1)
            until(lambda: executed(first).issubset(executed(second)), 30, "the replica does not follow")
            first.kill()
            second.execute(f"STOP {'REPLICA' if first.kind.mysql else 'SLAVE'}", "INSERT INTO d.t VALUES (3)")
            second.execute("INSERT INTO d.t VALUES (4)")
            rows += client.rows(2)
        assert [(row["id"], row["server_id"]) for row in rows] == [(1, 1), (2, 1), (3, 2), (4, 2)]
        assert {row["domain"] for row in rows} == ({1, 2} if first.kind.mysql else {0})
        for place, row in enumerate(rows):
            with cdc.client() as client:
                assert client.stream("d.t", triplet_of(row)).rows(4 - place) == rows[place:]
            with cdc.client() as client:
                records = client.stream("d.t", triplet_of(row), "AVRO").records()
                assert [next(records)[1] for _ in rows[place:]] == rows[place:]
