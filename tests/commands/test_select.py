"""`relay stat` for a few clients and tables."""

from __future__ import annotations

import json
from collections.abc import Callable

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.commands.text.select import selected
from tests.support.relay_process import SECRET, RelayProcess, run_relay
from tests.support.waiting import until


def test_stat_shows_only_clients_and_tables_that_are_asked_for(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Callable[..., RelayProcess]
) -> None:
    db = make_db(mariadb118)
    relay = start_relay(mariadb118)
    for name in ("cache-1", "cache-2", "index"):
        with RelayClient("127.0.0.1", relay.port, name, SECRET) as client:
            client.add_filter(db, "orders")
    for table in ("orders", "order_items", "people"):
        mariadb118.execute(f"CREATE TABLE {db}.{table} (id INT PRIMARY KEY)", f"INSERT INTO {db}.{table} VALUES (1)")
    until(lambda: sum(table["schema"] == db for table in relay.stat()["usage"]["tables"]) >= 3)
    asked = ("--client", "cache-?", "--table", f"{db}.order*")
    shown = json.loads(run_relay("stat", "--json", "-c", relay.conf, *asked).stdout)
    assert [client["name"] for client in shown["clients"]] == ["cache-1", "cache-2"]
    assert {table["table"] for table in shown["usage"]["tables"]} == {"orders", "order_items"}
    text = run_relay("stat", "-c", relay.conf, *asked, "--client", "index").stdout
    assert "cache-1" in text
    assert "index" in text
    assert f"{db}.people" not in text


def test_patterns_are_case_sensitive_and_none_leaves_everything() -> None:
    document = {
        "state": "running",
        "clients": [{"name": "Cache"}, {"name": "cache"}],
        "usage": {"since": 1.0, "tables": [{"schema": "a", "table": "b"}, {"schema": "a", "table": "B"}]},
        "cdc": None,
    }
    assert selected(document, [], []) == document
    shown = selected(document, ["cache"], ["a.b", "c.*"])
    assert shown["clients"] == [{"name": "cache"}]
    assert shown["usage"] == {"since": 1.0, "tables": [{"schema": "a", "table": "b"}]}


def test_of_cdc_streams_those_are_left_whose_user_and_table_match() -> None:
    made = [("ann", "t"), ("bob", "t"), ("ann", "u"), ("ann", "")]
    streams = [{"user": user, "schema": table and "s", "table": table} for user, table in made]
    processes = [{"rows": 7, "streams": streams[:2]}, {"rows": 8, "streams": streams[2:]}]
    document = {"clients": [], "usage": {"tables": []}, "cdc": {"port": 4001, "processes": processes}}

    def left(clients: list[str], tables: list[str]) -> list[tuple[str, str]]:
        cdc = selected(document, clients, tables)["cdc"]
        assert (cdc["port"], [process["rows"] for process in cdc["processes"]]) == (4001, [7, 8])
        return [(stream["user"], stream["table"]) for process in cdc["processes"] for stream in process["streams"]]

    assert left([], []) == made
    assert left(["ann"], []) == [made[0], *made[2:]]
    assert left([], ["s.*"]) == made[:3]
    assert left(["a*"], ["s.t"]) == made[:1]
