"""The page of a real relay with real clients: every section shows the relay's documents, and keeps up to date."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Page, expect

from examples.dbserver import DatabaseServer
from relay.client import RelayClient
from relay.protocol.classic import Discard
from tests.browser import reading
from tests.browser.chromium import Watched
from tests.ingest.test_stops import unprovable_row
from tests.support import binlogs
from tests.support.relay_process import SECRET, RelayProcess, write_conf
from tests.support.waiting import patience, until

Open = Callable[..., Page]
Start = Callable[..., RelayProcess]

SHOP: Final = "<b>shop</b> & 'sons'"
ORDERS: Final = "orders <img src=x onerror=alert(1)>"
COLUMN: Final = "na<i>me"
CLIENT: Final = "<script>alert(1)</script>"
PLACES: Final = patience(30_000)  # milliseconds until what happened at the source is on the page of a busy machine


@dataclass
class Living:
    """A relay that follows `SHOP`, and who asks it: `CLIENT` was given rows, "away" is gone and has a queue."""

    server: DatabaseServer
    relay: RelayProcess
    client: RelayClient

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.relay.http_port}/"

    def document(self, path: str, **query: str) -> Any:
        """A document of the monitor, as JSON."""
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=patience(10)) as reply:
            return json.load(reply)

    def insert(self, first: int, count: int) -> None:
        """Rows into the shop's orders, in one statement."""
        values = ", ".join(f"({number}, 'x')" for number in range(first, first + count))
        self.server.execute(f"INSERT INTO `{SHOP}`.`{ORDERS}` VALUES {values}")


@pytest.fixture(scope="module")
def living(mariadb118: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    server = mariadb118
    relay = RelayProcess(write_conf(tmp_path_factory.mktemp("living"), server))
    server.execute(f"CREATE DATABASE `{SHOP}` CHARACTER SET utf8mb4")
    try:
        relay.start()
        with (
            RelayClient("127.0.0.1", relay.port, CLIENT, SECRET) as client,
            RelayClient("127.0.0.1", relay.port, "away", SECRET) as away,
        ):
            client.add_filter(SHOP, "*")
            away.add_filter(SHOP, ORDERS, kinds="I", limit=3, discard=Discard.OLDEST)
            away.close()
            server.execute(f"CREATE TABLE `{SHOP}`.`{ORDERS}` (id BIGINT UNSIGNED PRIMARY KEY, `{COLUMN}` VARCHAR(20))")
            living = Living(server, relay, client)
            living.insert(1, 5)
            server.execute(
                f"UPDATE `{SHOP}`.`{ORDERS}` SET `{COLUMN}` = 'y' WHERE id < 3",
                f"DELETE FROM `{SHOP}`.`{ORDERS}` WHERE id = 5",
            )
            received = 0
            while received < 8:
                rows = client.poll_many(3, wait=10)
                assert rows, "the relay has nothing more"
                received += len(rows)
            client.confirm()
            yield living
    finally:
        relay.end()
        server.execute(f"DROP DATABASE `{SHOP}`")


def shows(place: Locator, text: str) -> None:
    """Waits until `place` has that text."""
    expect(place).to_have_text(text, timeout=PLACES)


def test_the_server_section_says_where_the_relay_reads(living: Living, open_page: Open) -> None:
    page = open_page(living.url)
    server = reading.section(page, "Server")
    end = binlogs.place(living.server)
    until(lambda: living.document("api/stat")["source"]["position"] == end.position, what="it is not told in full")
    stat = living.document("api/stat")
    shows(reading.fact(server, "Server"), f"127.0.0.1:{living.server.port}")
    shows(reading.fact(server, "State"), "streaming")
    shows(reading.fact(server, "Binlog file"), stat["source"]["file"])
    shows(reading.fact(server, "Binlog position"), str(stat["source"]["position"]))
    shows(reading.fact(server, "GTID set"), stat["source"]["gtid_set"])
    shows(reading.fact(server, "Protocol version"), stat["protocol"])
    shows(reading.fact(server, "Number of clients"), "2")
    shows(reading.fact(server, "Transactions read"), reading.grouped(stat["traffic"]["transactions"]))
    shows(reading.fact(server, "Rows served"), reading.grouped(sum(each["served"] for each in stat["clients"])))
    expect(reading.fact(server, "Started")).to_contain_text("UTC")
    expect(reading.fact(server, "Time to data loss")).to_contain_text("binlog", timeout=PLACES)
    counters = reading.section(page, "Counters")
    for name, count in stat["events"].items():
        row = counters.get_by_role("row").filter(has=page.get_by_text(name, exact=True))
        expect(row).to_contain_text(reading.grouped(count) if count < 100 else re.compile(r"\d"))


def test_clients_have_all_columns_and_details(living: Living, open_page: Open) -> None:
    page = open_page(living.url)
    here, away = living.document("api/stat")["clients"]
    row = reading.client(page, here["id"])
    shows(row.locator(".opener"), CLIENT)
    shows(reading.cell(row, "status"), "connected")
    expect(reading.cell(row, "filters")).to_contain_text(f"{SHOP}.* (IUD)")
    shows(reading.cell(row, "served"), reading.grouped(here["served"]))
    shows(reading.cell(row, "max"), reading.grouped(here["max_waiting"]))
    shows(reading.cell(row, "discarded"), "0")
    row = reading.client(page, away["id"])
    shows(reading.cell(row, "status"), "away")
    shows(reading.cell(row, "queue"), "3")
    shows(reading.cell(row, "discarded"), reading.grouped(away["dropped"]["limit_oldest"]))
    expect(reading.cell(row, "seen")).to_have_text("never")
    details = reading.opened(reading.client(page, here["id"]))
    expect(reading.fact(details, "Address")).to_have_text(here["address"])
    shows(reading.fact(details, "Confirmed"), reading.grouped(here["confirmed"]))
    given = living.document("api/client", id=str(here["id"]))["deliveries"]
    expect(details.locator(".deliveries li")).to_have_count(len(given), timeout=PLACES)
    for place, delivery in enumerate(given):
        line = details.locator(".deliveries li").nth(place)
        expect(line).to_contain_text(f"{SHOP}.{ORDERS} ({delivery['kind']})")
        expect(line).to_contain_text(f"{delivery['rows']} row")
        if delivery["gap_ms"] is not None:
            expect(line.locator(".gap")).to_have_text(re.compile(r"^\+\d.* (ms|s)$"))
    expect(details.get_by_role("figure")).to_have_count(2)


@pytest.mark.smoke
def test_table_usage_is_counted_in_rows_by_kind_and_span(living: Living, open_page: Open) -> None:
    page = open_page(living.url)
    row = reading.table(page, SHOP, ORDERS)
    shows(row.locator(".opener"), f"{SHOP}.{ORDERS}")
    usage = next(each for each in living.document("api/stat")["usage"]["tables"] if each["schema"] == SHOP)
    assert usage["total"]["insert"] >= 5 and usage["total"]["update"] == 2 and usage["total"]["delete"] == 1
    for span in ("hour", "day", "total"):
        for kind in ("insert", "update", "delete"):
            shows(reading.cell(row, f"{span}-{kind}"), reading.grouped(usage[span][kind]))
    details = reading.opened(row)
    expect(details).to_contain_text(CLIENT)
    expect(details.get_by_role("figure").locator("canvas")).to_be_visible()


def test_schema_shows_columns_with_types_and_metadata(living: Living, open_page: Open) -> None:
    page = open_page(living.url)
    page.locator("#schema summary").click()
    row = reading.table(page, SHOP, ORDERS, "schema")
    shows(row.locator(".opener"), f"{SHOP}.{ORDERS}")
    details = reading.opened(row)
    (known,) = (each for each in living.document("api/schema") if each["schema"] == SHOP)
    assert [column["name"] for column in known["columns"]] == ["id", COLUMN]
    for column in known["columns"]:
        line = details.get_by_role("row").filter(has=page.get_by_text(column["name"], exact=True))
        for text in (column["type"], f"{column['field_type']:02x}", f"{column['meta']:x}", f"{column['uid']:x}"):
            expect(line).to_contain_text(re.compile(re.escape(text), re.IGNORECASE))


def test_schema_shows_a_table_soon_after_its_first_row(living: Living, open_page: Open) -> None:
    page = open_page(living.url)
    page.locator("#schema summary").click()
    shows(reading.table(page, SHOP, ORDERS, "schema").locator(".opener"), f"{SHOP}.{ORDERS}")
    living.server.execute("CREATE TABLE test.later (id INT PRIMARY KEY)", "INSERT INTO test.later VALUES (1)")
    try:
        expect(reading.table(page, "test", "later", "schema").locator(".opener")).to_be_visible(
            timeout=patience(10_000)
        )
    finally:
        living.server.execute("DROP TABLE test.later")


def test_schema_shows_a_tables_history(living: Living, open_page: Open) -> None:
    page = open_page(living.url)
    page.locator("#schema summary").click()
    history = reading.opened(reading.table(page, SHOP, ORDERS, "schema")).get_by_role("group", name="History")
    told = living.document("api/schema/history", schema=SHOP, table=ORDERS)
    assert told["versions"]
    for version in told["versions"]:
        line = history.get_by_role("row").filter(has_text=f"{version['file']}:{version['position']}").first
        for text in (version["proof"], COLUMN, version["statement"]):
            expect(line).to_contain_text(text)


def test_each_process_has_its_cpu_and_memory(living: Living, open_page: Open) -> None:
    page = open_page(living.url)
    processes = living.document("api/stat")["processes"]
    for process in processes:
        row = page.locator("#processes-rows tr").filter(has=page.get_by_role("rowheader", name=process["name"]))
        expect(row).to_contain_text("running")
        expect(row).to_contain_text(str(process["pid"]))
        expect(row.locator('[data-col="cpu"]')).to_have_text(re.compile(r"^\d+\.\d %$"), timeout=PLACES)
        expect(row.locator('[data-col="memory"]')).to_have_text(re.compile(r"^[\d.]+ [KMG]iB$"))
    assert len(processes) >= 5


@pytest.mark.smoke
def test_figures_go_on_without_loading_the_page_again(living: Living, open_page: Open) -> None:
    page = open_page(living.url)
    row = reading.table(page, SHOP, ORDERS)
    expect(row).to_be_visible(timeout=PLACES)
    page.evaluate("() => { window.kept = 'kept'; }")
    before = int(re.sub(r"\D", "", reading.cell(row, "total-insert").inner_text()))
    living.insert(1000 + before, 12)
    shows(reading.cell(row, "total-insert"), reading.grouped(before + 12))
    assert page.evaluate("window.kept") == "kept"
    (here, _) = living.document("api/stat")["clients"]
    shows(reading.cell(reading.client(page, here["id"]), "queue"), "12")
    given = 0
    while given < 12:
        given += len(living.client.poll_many(100, wait=10))
    living.client.confirm()
    shows(reading.cell(reading.client(page, here["id"]), "queue"), "0")


def test_a_monitor_that_is_killed_is_back_before_long(living: Living, watched: Callable[..., Watched]) -> None:
    context = watched().expect("ERR_|Failed to load resource")
    page = context.open(living.url)
    pid = living.relay.pids()["monitor"]
    row = page.locator("#processes-rows tr").filter(has=page.get_by_role("rowheader", name="monitor"))
    expect(row).to_contain_text(str(pid), timeout=PLACES)
    os.kill(pid, signal.SIGKILL)
    expect(row).not_to_contain_text(str(pid), timeout=PLACES)
    expect(row).to_contain_text("running")
    expect(page.locator("#fresh")).to_have_text("live")


def test_a_stop_is_shown_while_the_page_is_open_with_what_to_do(
    mariadb118: DatabaseServer, make_db: Callable[[DatabaseServer], str], start_relay: Start, open_page: Open
) -> None:
    db = make_db(mariadb118)
    relay = start_relay(mariadb118)
    page = open_page(f"http://127.0.0.1:{relay.http_port}/")
    expect(page.get_by_role("alert")).to_have_count(0)
    with RelayClient("127.0.0.1", relay.port, "asks", SECRET) as client:
        client.add_filter(db, "quick")
        unprovable_row(mariadb118, db, relay)
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("schema_unproven", timeout=PLACES)
        expect(alert).to_contain_text(f"{db}.quick")
        expect(alert).to_contain_text("OnUnproven = positional")
        expect(page).to_have_title(re.compile("stop", re.IGNORECASE))


def test_a_relay_that_is_restarted_is_followed_by_the_open_page(
    mariadb118: DatabaseServer, start_relay: Start, watched: Callable[..., Watched]
) -> None:
    relay = start_relay(mariadb118)
    context = watched().expect("ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE")
    page = context.open(f"http://127.0.0.1:{relay.http_port}/")
    overview = reading.section(page, "Overview")
    expect(overview).to_contain_text("All is well", timeout=PLACES)
    relay.stop()
    expect(overview).to_contain_text("The relay does not reply", timeout=PLACES)
    relay.start()
    expect(overview).to_contain_text("All is well", timeout=PLACES)
