"""Pictures of the page for README.md: `python -m tests.browser.screenshots` writes docs/page-*.png."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, expect

from relay.errors import MEANINGS, StopCode
from relay.runtime.process_status import Stop
from tests.browser import reading
from tests.browser.chromium import Watched, running
from tests.browser.documents import Told
from tests.browser.standin import StandIn

DOCS: Final = Path(__file__).parents[2] / "docs"
CLIENTS: Final = ("search-index", "cache", "billing", "audit", "mail", "stock")
USERS: Final = ("columnstore", "kafka", "columnstore", "kafka", "columnstore", "reports", "kafka", "kafka")
TABLES: Final = (
    *(("shop", name) for name in ("orders", "order_lines", "customers", "products", "carts", "payments", "stock")),
    *(("crm", name) for name in ("contacts", "notes", "tasks")),
)
STOP: Final = Stop(
    StopCode.BINLOG_PURGED,
    "binlog.000042:695911 is what comes next, and the source's first binlog is binlog.000057",
    MEANINGS[StopCode.BINLOG_PURGED].hint,
)


def take(browser: Browser, stand_in: StandIn, name: str, at: str, **options: Any) -> None:
    """A picture of the page, with the section that has the id `at` at its top."""
    watched = Watched(browser, **options)
    page = watched.open(stand_in.url)
    expect(page.locator("#figures .figure").first).to_have_text(re.compile(r"\d"))  # a rate, from the second answer on
    expect(page.locator("#charts canvas")).to_have_count(4)
    if at == "clients":
        details = reading.opened(reading.client(page, 3))
        expect(details.locator("canvas")).to_have_count(2)
        page.locator("#clients").scroll_into_view_if_needed()
        page.evaluate("document.getElementById('clients').scrollIntoView()")
    if at == "cdc":
        reading.opened(page.locator("#cdc-list tr[data-key]").first)
        page.evaluate("document.getElementById('cdc').scrollIntoView()")
    page.mouse.move(5, 5)
    page.screenshot(path=DOCS / f"page-{name}.png", animations="disabled")
    watched.context.close()
    assert not watched.complaints, watched.complaints


def main() -> None:
    """Takes them all, of made figures."""
    with running() as browser, StandIn(Told(TABLES, CLIENTS)) as stand_in:
        stand_in.each_second = True
        take(browser, stand_in, "overview", "overview", color_scheme="light", viewport={"width": 1280, "height": 860})
        take(browser, stand_in, "clients", "clients", color_scheme="dark", viewport={"width": 1280, "height": 860})
        stand_in.told.cdc_users = USERS
        take(browser, stand_in, "cdc", "cdc", color_scheme="light", viewport={"width": 1280, "height": 940})
        stand_in.told.cdc_users = ()
        stand_in.told.stop = STOP
        phone = {"width": 390, "height": 780}
        take(browser, stand_in, "phone", "overview", viewport=phone, is_mobile=True, device_scale_factor=2)


if __name__ == "__main__":
    main()
