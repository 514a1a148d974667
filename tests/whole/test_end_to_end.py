"""The whole path on real servers: clients get the rows that they asked for, in order, with correct values."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.commands.admin_client import AdminClient
from relay.protocol.classic import Discard
from tests.support import ROOT
from tests.support.consumer import Consumer
from tests.support.csv_lines import Number, content, json_lines
from tests.support.readme_client import ReadmeClient
from tests.support.relay_process import ADMIN_SECRET, SECRET, RelayProcess
from tests.support.waiting import until
from tests.support.workload import Change, Workload

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
    deletes = Consumer(relay.port, "deletes", lambda c: c.add_filter("*", "gamma", kinds="D", limit=3000))
    workload = Workload(server, db, seed=7)
    if metadata != "FULL":  # names can be proven only while the table is as it was for the row
        workload.before_ddl = lambda: everything.wait_for(len(workload.changes))
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
    client.add_filter(db, "alpha", kinds="I", limit=20_000, discard=Discard.OLDEST)
    client.add_filter(db, "beta", kinds="I")


def as_text(change: Change) -> tuple[int, str, list[tuple[str, str, str]]]:
    """A change as the classic protocol has it: every value as text, NULL as the word."""

    def shown(value: object) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, bytes):
            return value.decode("utf-8", "surrogateescape")
        if isinstance(value, float):
            return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else repr(value).replace("e+", "e")
        return str(value)

    before, after = change.before or {}, change.after or {}
    kind = {"insert": 1, "update": 2, "delete": 4}[change.kind]
    names = list(after or before)
    return kind, change.table, [
        (n, shown(before[n]) if before else "", shown(after[n]) if after else "") for n in names
    ]  # fmt: skip


def test_a_client_written_from_the_original_readme_gets_its_rows(
    server: DatabaseServer, db: str, full_metadata: None, start_relay: Start
) -> None:
    relay = start_relay(server)
    client = ReadmeClient(relay.port)
    client.authenticate(SECRET, "from-readme")
    for table in ("alpha", "beta"):
        client.add_filter(7, 0, 0, db, table)
    workload = Workload(server, db, seed=21)
    workload.run(150)
    workload.close()
    wanted = [as_text(c) for c in workload.changes if c.table != "gamma"]
    got: list[tuple[int, str, list[tuple[str, str, str]]]] = []

    def all_came() -> bool:
        if (event := client.poll()) is not None:
            assert event.schema == db
            got.append((event.kind, event.table, event.columns))
        return len(got) >= len(wanted)

    until(all_came, 30, lambda: f"{len(got)} of {len(wanted)} rows", pause=0)
    assert client.poll() is None, "more rows than were asked for"
    client.close()
    assert got == wanted


def test_the_first_client_of_the_readme_runs(mariadb118: DatabaseServer, start_relay: Start, tmp_path: Path) -> None:
    relay = start_relay(mariadb118)
    readme = (ROOT / "README.md").read_text()
    code, *_ = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    code = code.replace("6001", str(relay.port)).replace("my-secret", SECRET)
    script = tmp_path / "first.py"
    script.write_text(code)
    mariadb118.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY)")
    process = subprocess.Popen([sys.executable, "-u", str(script)], stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: any(each["filters"] for each in relay.stat()["clients"]), what="the client did not attach")
        mariadb118.execute("INSERT INTO shop.orders VALUES (7)")
        assert process.stdout is not None
        assert process.stdout.readline().split() == ["insert", "shop", "orders", "None", "{'id':", "7}"]
    finally:
        process.kill()
        process.wait()
        mariadb118.execute("DROP DATABASE shop")


def test_what_retention_deletes_leaves_the_disk(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start
) -> None:
    db = make_db(mariadb1011)
    small = {"Relay.SegmentBytes": "64KiB", "Relay.JournalKeepBytes": 0, "Relay.JournalKeepAge": 0}
    relay = start_relay(mariadb1011, small)
    consumer = Consumer(relay.port, "reads", lambda c: c.add_filter(db))
    mariadb1011.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(1000))")
    with AdminClient("127.0.0.1", relay.port, ADMIN_SECRET) as admin:
        admin.seek("reads", "oldest")  # looks at the whole journal
    for _ in range(200):
        mariadb1011.execute(f"INSERT INTO {db}.t (v) VALUES (REPEAT('x', 1000)), (REPEAT('y', 1000))")
    consumer.wait_for(400)
    consumer.stop()

    def deleted_but_mapped() -> list[str]:
        maps = [Path(f"/proc/{pid}/maps").read_text() for pid in relay.pids().values()]
        return [line for text in maps for line in text.splitlines() if ".seg (deleted)" in line]

    until(lambda: relay.stat()["journal"]["first"] >= 300_000 and not deleted_but_mapped(), 30)


def test_what_the_cap_cuts_is_announced_and_counted(
    mariadb1011: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start
) -> None:
    db = make_db(mariadb1011)
    small = {"Relay.SegmentBytes": "64KiB", "Relay.JournalKeepBytes": 0, "Relay.JournalMaxBytes": "1MiB"}
    relay = start_relay(mariadb1011, small | {"Relay.JournalKeepAge": 0})
    with RelayClient("127.0.0.1", relay.port, "sleeps", SECRET) as client:
        client.add_filter(db)
    mariadb1011.execute(f"CREATE TABLE {db}.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(1000))")
    rows = 0

    def facts() -> dict[str, Any]:
        [found] = relay.stat()["clients"]
        return dict(found)

    def cut() -> bool:
        nonlocal rows
        for _ in range(100):
            mariadb1011.execute(f"INSERT INTO {db}.t (v) VALUES (REPEAT('x', 1000))")
        rows += 100
        return bool(facts()["dropped"]["cut"])

    until(cut, 60, lambda: f"nothing was cut: {relay.stat()['journal']}", pause=0)
    until(lambda: facts()["matched"] == rows)
    log = relay.stderr.read_text()
    assert log.index("journal_cap_near") < log.index("journal_cap_reached") < log.index("queues_cut")
    consumer = Consumer(relay.port, "sleeps", lambda c: None)
    # A cut may still take some before they are fetched.
    until(lambda: not facts()["waiting"] and not facts()["in_flight"])
    consumer.stop()
    ids = [row.after["id"] for row in consumer.rows if row.after]
    assert ids == list(range(rows - len(ids) + 1, rows + 1)), "what is left is not the newest, in order"
    assert facts()["dropped"]["cut"] == rows - len(ids)


def test_a_row_of_nothing_but_defaults_is_sent_and_logged_among_minimal_images(
    mysql97: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start
) -> None:
    """MySQL writes such a row without columns, and so without bytes. MariaDB writes inserts whole."""
    db = make_db(mysql97)
    log = {"Logger.Path": "log/", "Logger.Schema": db, "Logger.Format": "json"}
    relay = start_relay(mysql97, log | {"Relay.OnPartialImage": "send"})
    mysql97.execute(f"CREATE TABLE {db}.t (a INT DEFAULT 1, b INT DEFAULT 2)")
    client = RelayClient("127.0.0.1", relay.port, "defaults", SECRET)
    client.connect()
    client.add_filter(db, "t")
    mysql97.execute(
        "SET SESSION binlog_row_image = MINIMAL", f"INSERT INTO {db}.t VALUES ()", f"INSERT INTO {db}.t (a) VALUES (7)"
    )
    got: list[dict[str, Any] | None] = []

    def both_came() -> bool:
        if (row := client.poll()) is not None:
            got.append(row.after)
        return len(got) == 2

    until(both_came, 30, lambda: str(got))
    client.close()
    assert got == [{}, {"a": 7}]
    until(lambda: relay.stat()["log"]["status"]["lines"] == 2, 30, lambda: str(relay.stat()["log"]["status"]))
    lines = json_lines(content(relay.conf.parent / "log"))
    assert [line["after"] for line in lines] == [{}, {"a": Number("7")}]
