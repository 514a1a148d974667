"""The page's section on the CDC port: with made documents, and with a relay whose port has clients."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from examples.dbserver import DatabaseServer
from relay.monitoring.stat import Process, Stat
from relay.runtime.process_status import CDCStatus, Stop
from tests.browser import reading
from tests.browser.documents import Told
from tests.browser.standin import StandIn
from tests.browser.test_names import HOSTILE
from tests.support.cdc_client import SECRET, USER, CdcClient
from tests.support.cdc_source import Service, relay_on
from tests.support.waiting import patience

Open = Callable[..., Page]

PHONE = {"width": 360, "height": 640}
PLACES = patience(30_000)  # milliseconds until what happened at the source is on the page of a busy machine
STOP = Stop("journal_lost", "a part of the journal is gone", "`relay start --accept-gap` goes on behind it")


@pytest.fixture
def port(told: StandIn) -> StandIn:
    """A stand-in whose relay has ten connections at its CDC port."""
    told.told.cdc_users = [f"user_{number}" for number in range(8)] + ["user_0", "user_0"]
    return told


def stream(place: Page | Locator, address: str) -> Locator:
    """The row of the connection from that address and port."""
    return place.locator("#cdc-list tr[data-key]").filter(has_text=address)


def test_without_the_port_there_is_no_section(told: StandIn, open_page: Open) -> None:
    page = open_page(told.url)
    expect(reading.section(page, "Overview")).to_contain_text("All is well")
    expect(reading.section(page, "CDC port")).to_have_count(0)
    expect(page.get_by_role("link", name=re.compile("^CDC"))).to_have_count(0)
    told.told.cdc_users = ["maxuser"]  # a relay that was started anew, with it
    expect(reading.section(page, "CDC port")).to_be_visible()
    expect(page.get_by_role("link", name="CDC 1")).to_be_visible()


def test_each_connection_has_its_user_table_form_place_and_figures(port: StandIn, open_page: Open) -> None:
    port.each_second = True
    page = open_page(port.url)
    row = stream(page, "192.0.2.4:50003")
    made = port.told.stream_of(3)
    expect(row.locator(".opener")).to_have_text("user_3")
    for column, text in (
        ("table", f"{made.schema}.{made.table}"),
        ("form", "AVRO"),
        ("status", "streaming"),
        ("behind", "8.79 KiB"),
    ):
        expect(reading.cell(row, column)).to_have_text(text)
    expect(reading.cell(row, "gtid")).to_have_text(re.compile(r"^0-3000-\d+$"))
    expect(reading.cell(row, "rows")).to_have_text(re.compile(r"^28,\d{3}$"))
    expect(reading.cell(row, "rate")).to_have_text("4")
    details = reading.opened(row)
    for name, value in (
        ("UUID", "client-3"),
        ("Address", "192.0.2.4:50003"),
        ("Connected", "2026-09-21 14:13:23 UTC"),
        ("Version", "1"),
        ("Rows per second", "4"),
        ("Bytes per second", "480 B"),
    ):
        expect(reading.fact(details, name)).to_have_text(value)
    expect(reading.fact(details, "Journal position")).to_have_text(re.compile(r"^64,\d{3},\d{3}$"))
    idle = stream(page, "192.0.2.10:50009")
    for column in ("table", "gtid", "behind"):
        expect(reading.cell(idle, column)).to_have_text("–")
    page.keyboard.press("Escape")
    expect(reading.fact(reading.opened(idle), "Table")).to_have_text("none requested")


def test_who_has_not_logged_in_has_no_name_until_then(port: StandIn, open_page: Open) -> None:
    def strange(stat: Stat) -> None:
        assert stat.cdc
        last = stat.cdc.processes[1].streams[-1]
        last.user = last.uuid = last.form = ""
        last.state = "wait_auth"

    port.told.change = strange
    page = open_page(port.url)
    row = stream(page, "192.0.2.10:50009")
    expect(row.locator(".opener")).to_have_text("(not logged in)")
    expect(reading.cell(row, "status")).to_have_text("wait auth")
    expect(reading.cell(row, "form")).to_have_text("–")
    port.told.change = lambda stat: None
    expect(row.locator(".opener")).to_have_text("user_0")
    expect(reading.cell(row, "status")).to_have_text("registered")


def test_a_table_that_is_not_there_yet_is_waited_for(port: StandIn, open_page: Open) -> None:
    def change(stat: Stat) -> None:
        assert stat.cdc
        waiting = stat.cdc.processes[1].streams[-1]
        waiting.schema, waiting.table = "shop", "to.come"

    port.told.change = change
    page = open_page(port.url)
    row = stream(page, "192.0.2.10:50009")
    expect(reading.cell(row, "table")).to_have_text("shop.`to.come`")
    details = reading.opened(row)
    expect(reading.fact(details, "Waiting")).to_have_text("for its first definition")
    expect(reading.fact(details, "Behind")).to_have_text("–")


def test_the_port_as_a_whole_has_its_users_and_sums(port: StandIn, open_page: Open) -> None:
    port.each_second = True
    page = open_page(port.url)
    section = reading.section(page, "CDC port")
    for name, value in (
        ("Port", "0.0.0.0:4001"),
        ("State", "serving"),
        ("Users connected", "user_0 (3), " + ", ".join(f"user_{number} (1)" for number in range(1, 8))),
        ("Furthest behind", "11.7 KiB"),
        ("Sending", "1 k rows/s, 117 KiB per second"),
        ("Logins rejected", "6"),
    ):
        expect(reading.fact(section, name)).to_have_text(value)
    expect(section.locator("h2 [data-count=cdc]")).to_have_text("10")
    port.told.cdc_users = [f"user_{number}" for number in range(15)]
    expect(reading.fact(section, "Users connected")).to_have_text(re.compile(r"user_6 \(1\), 3 more$"))


def test_a_table_names_the_connections_that_ask_for_it(told: StandIn, open_page: Open) -> None:
    told.told = Told([("shop", "orders"), ("shop", "items")], ["client"], cdc_users=["ann", "bob", "ann"])
    page = open_page(told.url)
    orders = reading.opened(reading.table(page, "shop", "orders"))
    asking = orders.get_by_role("listitem").filter(has_text="behind")
    told_of = ["ann (JSON) from 192.0.2.1:50000, 0 B behind", "ann (JSON) from 192.0.2.3:50002, 5.86 KiB behind"]
    expect(asking).to_have_text(told_of)
    told.told.cdc_users = ["ann"] * 27
    expect(orders).to_contain_text("4 more with less lag.", timeout=patience(15_000))  # asked for each five seconds
    told.told.cdc_users = []
    expect(orders).not_to_contain_text("CDC connections", use_inner_text=True, timeout=patience(15_000))


def test_its_last_hour_is_drawn(port: StandIn, open_page: Open) -> None:
    page = open_page(port.url)
    section = reading.section(page, "CDC port")
    for title, value in (("Rows sent per second", r"^[\d.]+( k)?$"), ("Behind, bytes", r"^[\d.]+ KiB$")):
        chart = section.get_by_role("figure").filter(has_text=title)
        expect(chart.locator(".chart-value")).to_have_text(re.compile(value))
        assert reading.painted(chart), f"nothing is drawn under {title}"


def test_connections_without_room_are_counted(port: StandIn, open_page: Open) -> None:
    def crowd(stat: Stat) -> None:
        assert stat.cdc
        stat.cdc.processes[0].left_out = 4321

    port.told.change = crowd
    page = open_page(port.url)
    expect(reading.section(page, "CDC port")).to_contain_text("4,321 connections more, not shown here.")


def test_connections_are_sorted_filtered_and_opened_by_hand_and_keyboard(port: StandIn, open_page: Open) -> None:
    page = open_page(port.url)
    section = reading.section(page, "CDC port")
    behind = reading.header(section, "behind")
    expect(behind).to_have_attribute("aria-sort", "descending")
    assert reading.names(page, "cdc")[:2] == ["user_4", "user_3"]
    reading.header(section, "rows").get_by_role("button").click()
    assert reading.names(page, "cdc")[:2] == ["user_0", "user_7"]
    page.get_by_label("Filter clients, tables and schema").fill("avro 192.0.2.8")
    expect(page.locator("#cdc-list tr[data-key]")).to_have_count(1)
    expect(section.locator("h2 [data-count=cdc]")).to_have_text("1 of 10")
    opener = stream(page, "192.0.2.8:50007").locator(".opener")
    opener.focus()
    page.keyboard.press("Enter")
    expect(opener).to_have_attribute("aria-expanded", "true")
    port.told.tick += 100
    port.wait("stat", port.asked["stat"] + 3)
    expect(opener).to_be_focused()  # over updates
    expect(page.locator("#cdc-list tr.detail")).to_contain_text(f"0-3000-{7 + port.told.tick}")
    page.keyboard.press("Escape")
    expect(opener).to_have_attribute("aria-expanded", "false")
    page.get_by_label("Filter clients, tables and schema").fill("nobody's")
    expect(section).to_contain_text("None of 10 connections matches the filter.")


def nobody(stat: Stat) -> None:
    """No connections."""
    for process in stat.cdc.processes if stat.cdc else []:
        process.streams.clear()


def test_a_connection_that_ends_takes_its_open_row_with_it(port: StandIn, open_page: Open) -> None:
    page = open_page(port.url)
    reading.opened(stream(page, "192.0.2.10:50009"))
    port.told.cdc_users = port.told.cdc_users[:9]
    expect(page.locator("#cdc-list tr[data-key]")).to_have_count(9)
    expect(page.locator("#cdc-list tr.detail")).to_have_count(0)
    port.told.change = nobody
    expect(reading.section(page, "CDC port")).to_contain_text("No client is connected.")


def test_a_stop_of_a_process_is_told_at_the_top_and_in_the_section(port: StandIn, open_page: Open) -> None:
    def stop(stat: Stat) -> None:
        assert stat.cdc
        stat.cdc.processes[1] = CDCStatus(state="stopped", stop=STOP)
        stat.processes.append(Process("cdc-1", 0, "down", 0, 0.0, 0, 0.0))

    port.told.change = stop
    page = open_page(port.url)
    for text in (f"cdc-1 stopped: {STOP.code}", STOP.text, STOP.hint):
        expect(page.get_by_role("alert")).to_contain_text(text)
    section = reading.section(page, "CDC port")
    expect(section).to_contain_text(STOP.text)
    expect(reading.fact(section, "State")).to_have_text("cdc-0 serving, cdc-1 stopped")
    expect(reading.section(page, "Overview")).not_to_contain_text("is down")  # it is stopped by name
    port.told.change = lambda stat: None
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_file_of_users_that_cannot_be_read_is_told(port: StandIn, open_page: Open) -> None:
    def unreadable(stat: Stat) -> None:
        assert stat.cdc
        for process in stat.cdc.processes:
            process.trouble = "Permission denied: '/var/lib/relay/cdcusers'"

    port.told.change = unreadable
    page = open_page(port.url)
    for place in (reading.section(page, "Overview"), reading.section(page, "CDC port")):
        expect(place).to_contain_text("Permission denied: '/var/lib/relay/cdcusers'")
    expect(page).to_have_title(re.compile("^Users of the CDC port cannot log in"))


def test_hostile_names_are_text_and_fit_a_phone(told: StandIn, open_page: Open) -> None:
    names = list(HOSTILE)
    told.told = Told([(name, name) for name in names], ["client"], cdc_users=names)

    def named(stat: Stat) -> None:
        for process in stat.cdc.processes if stat.cdc else []:
            for each in process.streams:
                each.uuid = each.user

    told.told.change = named
    page = open_page(told.url, viewport=PHONE)
    expect(page.locator("#cdc-list tr[data-key]")).to_have_count(len(HOSTILE))
    assert sorted(reading.names(page, "cdc")) == sorted(HOSTILE.values())
    assert reading.overflow(page) == 0
    for number, shown in enumerate(HOSTILE.values()):
        made = told.told.stream_of(number)
        details = reading.opened(stream(page, shown).first)
        expect(reading.fact(details, "User")).to_have_text(shown)
        expect(reading.fact(details, "UUID")).to_have_text(shown)
        if made.table:
            expect(reading.fact(details, "Table")).to_contain_text(shown.split(".")[0])
        assert reading.overflow(page) == 0
        page.keyboard.press("Escape")
    assert page.locator("img").count() == 0
    assert page.title().startswith("running")


def test_thousands_of_connections_are_listed(told: StandIn, open_page: Open) -> None:
    told.told.cdc_users = [f"user_{number:04d}" for number in range(5000)]
    told.each_second = True
    page = open_page(told.url)
    section = reading.section(page, "CDC port")
    expect(section.locator("h2 [data-count=cdc]")).to_have_text("5,000")
    section.get_by_role("button", name="Show all 5,000").click()
    assert page.locator("#cdc-list tr[data-key]").count() < 200  # what is near the window
    page.get_by_label("Filter clients, tables and schema").fill("user_4711")
    expect(page.locator("#cdc-list tr[data-key]")).to_have_count(1)
    asked = told.asked["stat"]
    told.wait("stat", asked + 3)
    expect(page.locator("#fresh")).to_have_text("live")


# -- before a relay --


@pytest.fixture(scope="module")
def service(mariadb118: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with relay_on(mariadb118, tmp_path_factory.mktemp("cdc")) as service:
        yield service


def from_here(client: CdcClient) -> str:
    """The client's end of its connection, as the page shows it."""
    address, number = client.socket.getsockname()
    return f"{address}:{number}"


def document(service: Service, client: CdcClient) -> dict[str, Any]:
    """What the stat document says of a client."""
    streams = [each for process in service.relay.stat()["cdc"]["processes"] for each in process["streams"]]
    (found,) = (each for each in streams if f"{each['address']}:{each['port']}" == from_here(client))
    return dict(found)


def test_a_stream_is_followed_from_its_login_to_its_end(service: Service, open_page: Open) -> None:
    page = open_page(f"http://127.0.0.1:{service.relay.http_port}/")
    db = service.database()
    table = f"{db}.orders"
    section = reading.section(page, "CDC port")
    expect(section).to_contain_text("No client is connected.")
    with service.client() as client:
        row = stream(page, from_here(client.login(USER, SECRET)))
        expect(row.locator(".opener")).to_have_text(USER, timeout=PLACES)
        client.register("JSON", "<i>mine</i>").request(table)
        assert client.line().startswith(b"ERR NO-FILE")
        expect(reading.cell(row, "table")).to_have_text(table, timeout=PLACES)
        details = reading.opened(row)
        expect(reading.fact(details, "UUID")).to_have_text("<i>mine</i>")
        expect(reading.fact(details, "Waiting")).to_have_text("for its first definition")
        service.server.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1), (2), (3)"
        )
        assert [each["id"] for each in client.rows(3)] == [1, 2, 3]
        expect(reading.cell(row, "status")).to_have_text("streaming", timeout=PLACES)
        expect(reading.cell(row, "rows")).to_have_text("3", timeout=PLACES)
        expect(reading.cell(row, "behind")).to_have_text("0 B", timeout=PLACES)
        said = document(service, client)
        expect(reading.cell(row, "gtid")).to_have_text(said["gtid"])
        expect(reading.fact(details, "Version")).to_have_text("1")
        expect(reading.fact(details, "Rows sent")).to_have_text("3")
        expect(reading.fact(details, "Journal position")).to_have_text(re.compile(r"^[\d,]+$"))
        expect(reading.fact(section, "Users connected")).to_have_text(f"{USER} (1)")
        page.keyboard.press("Escape")
        asking = reading.opened(reading.table(page, db, "orders")).get_by_role("listitem")
        expect(asking).to_have_text(f"{USER} (JSON) from {from_here(client)}, 0 B behind", timeout=PLACES)
    expect(section).to_contain_text("No client is connected.", timeout=PLACES)


def test_a_process_that_is_killed_takes_its_connections_off_the_page(service: Service, open_page: Open) -> None:
    page = open_page(f"http://127.0.0.1:{service.relay.http_port}/")
    section = reading.section(page, "CDC port")
    with service.client() as client:
        row = stream(page, from_here(client.login(USER, SECRET)))
        expect(row).to_be_visible(timeout=PLACES)
        pid = service.relay.pids()["cdc-0"]
        os.kill(pid, signal.SIGKILL)
        expect(row).to_have_count(0, timeout=PLACES)
    with service.client() as client:
        expect(stream(page, from_here(client.login(USER, SECRET)))).to_be_visible(timeout=PLACES)
        expect(reading.fact(section, "State")).to_have_text("serving")
    assert service.relay.pids()["cdc-0"] != pid


def test_users_that_cannot_be_read_and_logins_that_are_refused_are_on_the_page(
    service: Service, open_page: Open
) -> None:
    page = open_page(f"http://127.0.0.1:{service.relay.http_port}/")
    section = reading.section(page, "CDC port")
    users = Path(service.relay.conf.parent / "data" / "cdcusers")
    kept = users.read_text()
    users.unlink()
    users.mkdir()  # nobody, root included, reads a folder as a file
    with service.client() as client:
        client.say(b"6d6178757365723a" + b"00" * 20)
        assert client.line() == b"ERROR: Authentication failed"
    expect(reading.section(page, "Overview")).to_contain_text("Users of the CDC port cannot log in", timeout=PLACES)
    expect(section).to_contain_text("Nobody can log in: the file of users cannot be read")
    expect(reading.fact(section, "Logins rejected")).to_have_text("1", timeout=PLACES)
    users.rmdir()
    users.write_text(kept)
    with service.client() as client:
        client.login(USER, SECRET)
        expect(reading.section(page, "Overview")).to_contain_text("All is well", timeout=PLACES)
