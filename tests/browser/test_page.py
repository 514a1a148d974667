"""The page with made documents: warnings, use by mouse, by keyboard, on a phone and in dark mode."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from relay.monitoring.stat import Dropped, Gap, Process, Stat
from relay.runtime.process_status import Stop, Watch
from tests.browser import reading
from tests.browser.chromium import Watched
from tests.browser.documents import BEGAN, a_lake, a_log
from tests.browser.standin import StandIn
from tests.support.waiting import patience

Open = Callable[..., Page]

CONTRAST = Path(__file__).with_name("contrast.js")
PHONE = {"width": 360, "height": 640}
STOP = Stop(
    "binlog_purged", "the source has purged binlog.000041", "`relay start --accept-gap` continues after the loss"
)


def unwatched(stat: Stat) -> None:
    """The source does not reply those who watch it."""
    stat.source.lag_seconds = stat.source.lag_bytes = stat.source.loss_seconds = None
    stat.source.watch = Watch(trouble="Access denied for user 'relay'")


def unreached(stat: Stat) -> None:
    stat.state, stat.source.state, stat.source.file = "starting", "reconnecting", ""
    stat.source.watch = Watch(trouble="Connection refused")


def near_its_end(stat: Stat) -> None:
    """What was not read yet will be purged within the hour."""
    stat.source.loss_seconds = 3500.0


def far_behind(stat: Stat) -> None:
    stat.source.lag_seconds, stat.source.lag_bytes = 7260.0, 5 << 30


def silent(stat: Stat) -> None:
    stat.source.silent_seconds = 100.0


def without_broker(stat: Stat) -> None:
    stat.processes[1] = Process("broker", 0, "down", 7, 0.0, 0, 0.0)


def hanging(stat: Stat) -> None:
    stat.processes[3].silent_seconds = 75.0


def full(stat: Stat) -> None:
    stat.journal.max_bytes = int(1.05 * (stat.journal.committed - stat.journal.first))


def losing(stat: Stat) -> None:
    stat.clients[4].dropped = replace(stat.clients[4].dropped, limit_oldest=int(stat.at - BEGAN))


def paused(stat: Stat) -> None:
    stat.state = stat.source.state = "paused"


def test_all_is_well_is_the_first_thing_said(told: StandIn, open_page: Open) -> None:
    page = open_page(told.url)
    expect(reading.section(page, "Overview")).to_contain_text("All is well")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page).to_have_title(re.compile("^running"))


def test_a_stop_is_the_first_thing_said_with_its_hint(told: StandIn, open_page: Open) -> None:
    told.told.stop = STOP
    page = open_page(told.url)
    alert = page.get_by_role("alert")
    expect(alert).to_have_count(1)
    for text in (STOP.code, STOP.text, STOP.hint):
        expect(alert).to_contain_text(text)
    expect(reading.section(page, "Overview")).not_to_contain_text("All is well")
    told.told.stop = None
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(reading.section(page, "Overview")).to_contain_text("All is well")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (unwatched, ["Lag and time to data loss are unknown", "Access denied for user 'relay'", "relay check"]),
        (unreached, ["The source was never reached", "Connection refused", "relay check"]),
        (near_its_end, ["Data will be lost in 58 min 20 s", "keeps its binlog for 10 d"]),
        (far_behind, ["Behind the source", "2 h 1 min", "5 GiB"]),
        (silent, ["The source is silent", "1 min 40 s"]),
        (without_broker, ["The process broker is down"]),
        (hanging, ["The process server-0 hangs", "1 min 15 s"]),
        (full, ["The journal is nearly full", "JournalMaxBytes"]),
        (losing, ["1 client losing rows now", "client_0004"]),
        (paused, ["Paused", "relay resume"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_not_well_is_said_first_and_goes_when_it_is_over(
    told: StandIn, open_page: Open, change: Callable[[Stat], None], said: list[str]
) -> None:
    told.each_second = True
    told.told.change = change
    page = open_page(told.url)
    overview = reading.section(page, "Overview").locator("#verdict")
    for text in said:
        expect(overview).to_contain_text(text)
    told.told.change = lambda stat: None
    expect(overview).to_have_text("All is well", timeout=patience(20_000))


def test_a_row_that_is_never_confirmed_is_told(told: StandIn, open_page: Open) -> None:
    def repeat(stat: Stat) -> None:
        stat.clients[6].repeats = 41

    told.told.change = repeat
    details = reading.opened(reading.client(open_page(told.url), 7))
    expect(reading.fact(details, "Repeats")).to_have_text("the same row 42 times, not confirmed")


def test_drops_are_told_by_reason(told: StandIn, open_page: Open) -> None:
    def drop(stat: Stat) -> None:
        stat.clients[6].dropped = Dropped(
            limit_oldest=11, limit_newest=22, cut=33, flush=44, undecodable=55, skipped=66
        )

    told.told.change = drop
    page = open_page(told.url)
    row = reading.client(page, 7)
    expect(reading.cell(row, "discarded")).to_have_text("231")
    details = reading.opened(row)
    for reason, count in (
        ("oldest, above the limit", "11"),
        ("newest, above the limit", "22"),
        ("cut by retention", "33"),
        ("flushed by an operator", "44"),
        ("not decodable", "55"),
        ("skipped: not confirmed", "66"),
    ):
        expect(reading.fact(details, reason)).to_have_text(count)


def test_open_tables_are_listed_and_one_that_stopped_is_told_at_the_top(told: StandIn, open_page: Open) -> None:
    told.told.lake = a_lake()
    page = open_page(told.url)
    section = page.locator("#lake")
    expect(section.locator("tbody tr")).to_have_count(2)
    expect(section.locator("tbody tr").first).to_contain_text("shop.orders1,234,5671240 MiB")
    expect(section).to_contain_text("2 more open tables are not listed.")
    assert told.told.lake.open_tables is not None
    told.told.lake.open_tables.tables[1].stop = STOP
    expect(page.get_by_role("alert")).to_contain_text("The open table shop.notes stopped")
    expect(section.locator("tbody tr").last).to_contain_text(f"stopped: {STOP.code}")


@pytest.mark.parametrize("which", ["Lake", "Log"])
def test_a_stop_of_lake_or_log_is_told_at_the_top_and_in_its_section(
    told: StandIn, open_page: Open, which: str
) -> None:
    told.told.lake, told.told.log = a_lake(STOP if which == "Lake" else None), a_log(STOP if which == "Log" else None)
    page = open_page(told.url)
    for text in (STOP.code, STOP.text, STOP.hint):
        expect(page.get_by_role("alert")).to_contain_text(text)
        expect(reading.section(page, which)).to_contain_text(text)
    other = "Log" if which == "Lake" else "Lake"
    expect(reading.section(page, other)).not_to_contain_text(STOP.code)


def test_lake_log_and_accepted_gaps_have_sections_where_there_are_any(told: StandIn, open_page: Open) -> None:
    page = open_page(told.url)
    expect(reading.section(page, "Overview")).to_contain_text("All is well")
    for name in ("Lake", "Log", "Accepted gaps"):
        expect(reading.section(page, name)).to_have_count(0)
    told.told.lake, told.told.log = a_lake(), a_log()
    told.told.gaps = [Gap(told.told.now - 60, "binlog.000001:4", "binlog.000005:120", "it was purged")]
    lake, log = reading.section(page, "Lake"), reading.section(page, "Log")
    for text in ("/var/lib/relay/lake", "following", "123,456", "shop.orders"):
        expect(lake).to_contain_text(text)
    for text in ("/var/log/relay/", "following", "55,555", "relaylogs-20260921.txt"):
        expect(log).to_contain_text(text)
    for text in ("binlog.000001:4", "binlog.000005:120", "it was purged"):
        expect(page.locator("#gaps")).to_contain_text(text)


def test_what_is_not_known_is_no_number(told: StandIn, open_page: Open) -> None:
    told.told.change = unwatched
    page = open_page(told.url)
    source = reading.section(page, "Server")
    expect(reading.fact(source, "Lag")).to_have_text("unknown")
    expect(reading.fact(source, "Time to data loss")).to_contain_text("unknown")
    for wrong in ("NaN", "undefined", "null", "Infinity", "[object"):
        expect(page.locator("body")).not_to_contain_text(wrong)


def test_charts_show_the_hour_and_the_value_under_the_pointer(told: StandIn, open_page: Open) -> None:
    page = open_page(told.url)
    charts = reading.section(page, "Last hour")
    for title in ("Rows read per second", "Queue depth", "Lag, time", "Lag, bytes"):
        chart = charts.get_by_role("figure").filter(has_text=title)
        expect(chart.locator("canvas")).to_be_visible()
        assert reading.painted(chart), f"nothing is drawn under {title}"
        expect(chart.locator(".chart-value").first).to_have_text(re.compile(r"\d"))
    chart = charts.get_by_role("figure").filter(has_text="Queue depth")
    newest = chart.locator(".chart-value").inner_text()
    chart.locator(".u-over").hover(position={"x": 60, "y": 30})
    expect(chart.locator(".chart-at")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(chart.locator(".chart-value")).not_to_have_text(newest)


def test_lists_are_sorted_by_any_header_both_ways(told: StandIn, open_page: Open) -> None:
    page = open_page(told.url)
    name = reading.header(reading.section(page, "Clients"), "name")
    name.get_by_role("button").click()
    expect(name).to_have_attribute("aria-sort", "ascending")
    assert reading.names(page, "clients")[:3] == ["client_0000", "client_0001", "client_0002"]
    name.get_by_role("button").click()
    expect(name).to_have_attribute("aria-sort", "descending")
    assert reading.names(page, "clients")[:2] == ["client_0039", "client_0038"]
    tables = reading.section(page, "Table usage")
    tables.get_by_role("button", name="Total", exact=True).click()
    most = max(range(40), key=lambda number: number + 1 + number % 10 + number % 4)
    assert reading.names(page, "tables")[0] == ".".join(told.told.tables[most])
    expect(tables.locator("[aria-sort]")).to_have_count(1)


def test_the_filter_is_kept_while_figures_go_on(told: StandIn, open_page: Open) -> None:
    page = open_page(told.url)
    page.get_by_label("Filter clients, tables and schema").fill("0006")
    expect(page.locator("#clients-list tr[data-key]")).to_have_count(1)
    expect(page.locator("#tables-list tr[data-key]")).to_have_count(1)
    row = reading.client(page, 7)
    told.told.tick += 100
    expect(reading.cell(row, "served")).to_have_text(reading.grouped(told.told.client_of(6).served))
    assert reading.names(page, "clients") == ["client_0006"]
    page.get_by_label("Filter clients, tables and schema").fill("no such thing")
    expect(reading.section(page, "Clients")).to_contain_text("None of 40 clients matches the filter")


def test_everything_can_be_done_by_keyboard(told: StandIn, open_page: Open) -> None:
    page = open_page(told.url)
    expect(reading.client(page, 7)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the figures")).to_be_focused()
    page.keyboard.press("/")
    filter_field = page.get_by_label("Filter clients, tables and schema")
    expect(filter_field).to_be_focused()
    page.keyboard.type("client_0006")
    expect(page.locator("#clients-list tr[data-key]")).to_have_count(1)
    opener = reading.client(page, 7).locator(".opener")
    opener.focus()
    page.keyboard.press("Enter")
    expect(opener).to_have_attribute("aria-expanded", "true")
    details = page.locator("#clients-list tr.detail")
    expect(details).to_contain_text("Last deliveries")
    asked = told.asked["stat"]
    told.wait("stat", asked + 3)
    expect(opener).to_be_focused()  # over updates
    expect(details).to_be_visible()
    page.keyboard.press("Escape")
    expect(opener).to_have_attribute("aria-expanded", "false")
    expect(opener).to_be_focused()
    filter_field.focus()
    page.keyboard.press("Escape")
    expect(filter_field).to_have_value("")
    number = reading.header(reading.section(page, "Clients"), "id")
    number.get_by_role("button").focus()
    page.keyboard.press("Space")
    expect(number).to_have_attribute("aria-sort", "descending")
    assert reading.names(page, "clients")[0] == "client_0039"


def test_what_is_focused_is_seen(told: StandIn, open_page: Open) -> None:
    page = open_page(told.url)
    expect(reading.client(page, 7)).to_be_visible()
    seen = 0
    for _ in range(40):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "() => { const at = document.activeElement, {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(at);"
            " return [at.outerHTML.slice(0, 80), outlineStyle, parseFloat(outlineWidth), boxShadow]; }"
        )
        element, outline, width, shadow = style
        assert (outline != "none" and width >= 1) or shadow != "none", f"no sign of focus on {element}"
        seen += 1
    assert seen == 40


def test_a_phone_shows_it_all_without_scrolling_sideways(told: StandIn, open_page: Open) -> None:
    told.told.lake, told.told.log = a_lake(STOP), a_log()
    told.told.cdc_users = ["maxuser"] * 3
    page = open_page(told.url, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    row = reading.client(page, 7)
    expect(row).to_be_visible()
    assert reading.overflow(page) == 0
    details = reading.opened(row)
    expect(details).to_contain_text("Last deliveries")
    expect(reading.fact(details, "Max queue")).to_have_text(reading.grouped(told.told.client_of(6).max_waiting))
    assert reading.overflow(page) == 0
    details = reading.opened(reading.table(page, *told.told.tables[39]))
    expect(details).to_contain_text("Rolling 24 h")
    expect(details).to_contain_text("varchar(200)")
    assert reading.overflow(page) == 0
    details = reading.opened(page.locator("#cdc-list tr[data-key]").first)
    expect(details).to_contain_text("Journal position")
    assert reading.overflow(page) == 0
    page.locator("#schema summary").click()
    expect(page.locator("#schema-list tr[data-key]").first).to_be_visible()
    assert reading.overflow(page) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(told: StandIn, open_page: Open, scheme: str) -> None:
    told.told.stop = STOP
    told.told.cdc_users = ["maxuser"] * 10
    page = open_page(told.url, color_scheme=scheme)
    expect(reading.client(page, 7)).to_be_visible()
    reading.opened(page.locator("#cdc-list tr[data-key]").first)
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    body = page.evaluate("getComputedStyle(document.body).backgroundColor")
    shown = body if body != "rgba(0, 0, 0, 0)" else background
    assert (luminance(shown) < 0.2) == (scheme == "dark"), shown
    weak = page.evaluate(CONTRAST.read_text())
    assert not weak, weak


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`, 0 to 1, as the accessibility guidelines define it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_page_without_network_says_so_and_recovers(told: StandIn, watched: Callable[..., Watched]) -> None:
    context = watched().expect("ERR_INTERNET_DISCONNECTED")
    page = context.open(told.url)
    expect(reading.section(page, "Overview")).to_contain_text("All is well")
    context.context.set_offline(True)
    expect(reading.section(page, "Overview")).to_contain_text("The relay does not reply")
    expect(page.get_by_role("status").first).to_contain_text("does not reply")
    expect(reading.client(page, 7)).to_be_visible()  # the last figures stay
    context.context.set_offline(False)
    expect(reading.section(page, "Overview")).to_contain_text("All is well")


def test_a_page_that_is_not_looked_at_does_not_ask(told: StandIn, open_page: Open) -> None:
    page = open_page(told.url)
    expect(reading.client(page, 7)).to_be_visible()
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});"
        " window.away = true; document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.wait_for_timeout(1000)  # an answer that was under way
    asked = told.asked["stat"]
    page.wait_for_timeout(2500)  # two more would have been asked for
    assert told.asked["stat"] == asked
    page.evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")
    told.wait("stat", asked + 1)
