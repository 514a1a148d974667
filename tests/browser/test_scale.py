"""A thousand tables, clients and CDC streams: shown quickly, and all can be found."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser import reading
from tests.browser.chromium import Watched
from tests.browser.standin import StandIn, with_all_lists

# How many documents had come when there were rows in every list.
_ASKED = with_all_lists(
    "asked", 'resolve(performance.getEntriesByType("resource").filter(each => each.name.endsWith("/api/stat")).length)'
)


def test_the_first_document_is_enough_for_rows_in_every_list(many: StandIn, watched: Callable[..., Watched]) -> None:
    context = watched()
    context.context.add_init_script(_ASKED)
    assert context.open(many.url).evaluate("window.asked") == 1


def test_every_one_of_them_can_be_found_and_reached(many: StandIn, open_page: Callable[..., Page]) -> None:
    page = open_page(many.url)
    for each, last in (("clients", "client_0999"), ("cdc", "user_0999"), ("tables", "schema_9.table_0999")):
        expect(page.locator(f"h2 [data-count={each}]")).to_have_text("1,000")
        page.get_by_label("Filter clients, tables and schema").fill(last[-4:])
        expect(page.locator(f"#{each}-list tr[data-key]")).to_have_count(1)
        assert reading.names(page, each) == [last]
        expect(page.locator(f"h2 [data-count={each}]")).to_have_text("1 of 1,000")
        page.get_by_label("Filter clients, tables and schema").fill("")
    clients = reading.section(page, "Clients")
    clients.get_by_role("button", name="Name", exact=True).click()
    assert reading.names(page, "clients")[0] == "client_0000"
    clients.get_by_role("button", name="Show all 1,000").click()
    reading.client(page, 1).locator(".opener").focus()
    for number in range(60):  # further than what was made at once
        expect(reading.client(page, number + 1).locator(".opener")).to_be_focused()
        page.keyboard.press("ArrowDown")
    page.mouse.move(5, 5)
    page.get_by_role("button", name="Show the first 25 only").scroll_into_view_if_needed()
    expect(reading.client(page, 1000)).to_be_in_viewport()
