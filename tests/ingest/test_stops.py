"""Fatal errors in all places that show them, and what keeps working meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.commands.admin_client import AdminClient
from tests.support.relay_process import ADMIN_SECRET, SECRET, RelayProcess, run_relay
from tests.support.waiting import patience, until

Start = Callable[..., RelayProcess]


def unprovable_row(server: DatabaseServer, db: str, relay: RelayProcess) -> None:
    """A row of a table that was made out of the binlog's sight, and changed before anybody could ask: the reader was
    paused."""
    with AdminClient("127.0.0.1", relay.port, ADMIN_SECRET) as admin:
        admin.pause()
        until(lambda: relay.stat()["state"] == "paused")
        server.execute(
            "SET sql_log_bin = 0",
            f"CREATE TABLE {db}.quick (id INT PRIMARY KEY, name VARCHAR(10))",
            "SET sql_log_bin = 1",
            f"INSERT INTO {db}.quick VALUES (1, 'one')",
            f"ALTER TABLE {db}.quick DROP COLUMN name",
        )
        admin.resume()


def test_names_that_cannot_be_proven_stop_by_name_and_are_positional_if_allowed(
    server: DatabaseServer, db: str, start_relay: Start
) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    relay = start_relay(server)
    with RelayClient("127.0.0.1", relay.port, "asks", SECRET) as client:
        client.add_filter(db, "quick")
        unprovable_row(server, db, relay)
        until(lambda: relay.stat()["state"] == "stopped")
        stop = relay.stat()["stop"]
        assert stop["code"] == "schema_unproven"
        assert f"{db}.quick" in stop["text"]
        assert "binlog_row_metadata" in stop["hint"]
        shown = run_relay("stat", "-c", relay.conf)
        assert "schema_unproven" in shown.stdout
        assert client.poll() is None, "a row with unproven names was delivered"
        with RelayClient("127.0.0.1", relay.port, "newcomer", SECRET) as newcomer:
            newcomer.add_filter(db, "other")  # those who log in meanwhile are served
    relay.stop()
    relay.conf.write_text(relay.conf.read_text() + "\nOnUnproven = positional\n")
    relay.start()
    with RelayClient("127.0.0.1", relay.port, "asks", SECRET) as client:
        row = client.poll(wait=patience(20))
        assert row is not None
        assert row.after == {"@1": 1, "@2": b"one"} or row.after == {"@1": 1, "@2": "one"}
    until(lambda: {t["table"]: t["unproven"] for t in relay.stat()["usage"]["tables"]} == {"quick": 1})
    shown = run_relay("stat", "-c", relay.conf)
    assert "names unproven" in shown.stdout


def test_names_that_nobody_asked_for_stop_nobody(server: DatabaseServer, db: str, start_relay: Start) -> None:
    server.execute("SET GLOBAL binlog_row_metadata = DEFAULT")
    relay = start_relay(server)
    with RelayClient("127.0.0.1", relay.port, "asks", SECRET) as client:
        client.add_filter(db, "wanted")
        unprovable_row(server, db, relay)
        server.execute(f"CREATE TABLE {db}.wanted (id INT PRIMARY KEY)", f"INSERT INTO {db}.wanted VALUES (5)")
        row = client.poll(wait=patience(20))
        assert row is not None
        assert row.after == {"id": 5}
    assert relay.stat()["state"] == "running"
