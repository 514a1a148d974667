"""Finds parts of the page as people who look at it or listen to it do."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Locator, Page, expect


def section(page: Page, name: str) -> Locator:
    """The section of that name."""
    return page.get_by_role("region", name=name, exact=True)


def fact(place: Locator, name: str) -> Locator:
    """The value of a named fact in a section, a panel or a row's details; of the first one there."""
    term = place.page.locator("dt").filter(has_text=re.compile(f"^{re.escape(name)}$"))
    return place.locator("dl > div").filter(has=term).locator("dd").first


def client(page: Page, client_id: int) -> Locator:
    """The row of a client, in the list of clients."""
    return page.locator(f'#clients-list tr[data-key="{client_id}"]')


def table(page: Page, schema: str, name: str, section_id: str = "tables") -> Locator:
    """The row of a table, in the list of tables or of definitions."""
    key = json.dumps([schema, name], separators=(",", ":"), ensure_ascii=False)
    return page.locator(f"#{section_id}-list tr[data-key={json.dumps(key, ensure_ascii=False)}]")


def cell(row: Locator, column: str) -> Locator:
    """A cell of a row, by its column."""
    return row.locator(f'[data-col="{column}"]')


def header(place: Locator, column: str) -> Locator:
    """The head of a column, or of a group of columns, in a section."""
    return place.locator(f'thead th[data-col="{column}"]')


def opened(row: Locator) -> Locator:
    """The details of a row, after opening it."""
    row.locator("button.opener").click()
    details = row.locator("xpath=following-sibling::tr[1]")
    expect(details).to_have_class(re.compile("detail"))
    return details


def names(page: Page, section_id: str) -> list[str]:
    """What the rows of a list are called, in the order that is shown."""
    shown: list[str] = page.locator(f"#{section_id}-list tr[data-key] .opener").all_inner_texts()
    return shown


def grouped(number: int) -> str:
    """A number as the page groups its digits."""
    return f"{number:,}"


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    width: Any = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return int(width)


def painted(chart: Locator) -> bool:
    """Whether anything is drawn in a chart."""
    drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
    return bool(chart.locator("canvas").evaluate(drawn))
