"""Names are data: any name of a schema, table, column or client is shown and is never interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from playwright.sync_api import Page, expect

from tests.browser import reading
from tests.browser.documents import Told
from tests.browser.standin import StandIn

SCRIPT: Final = "</script><img src=x onerror=document.title='run'><script>document.title='run'</script>"
HOSTILE: Final = {
    SCRIPT: SCRIPT,
    "<style>*{display:none}</style>": "<style>*{display:none}</style>",
    "\"' onclick=alert(1) x='": "\"' onclick=alert(1) x='",
    "&lt;b&gt;&amp;nbsp;": "&lt;b&gt;&amp;nbsp;",
    "${document.title} {{x}} %s": "${document.title} {{x}} %s",
    "__proto__": "__proto__",
    "constructor": "constructor",
    "toString": "toString",
    "javascript:alert(1)": "javascript:alert(1)",
    "line\nbreak\tand tab": r"line\nbreak\tand tab",
    "\u202egnp.exe": r"\u{202e}gnp.exe",
    "zero\u200bwidth": r"zero\u{200b}width",
    "שלום عليكم": "שלום عليكم",
    "👩\u200d👩\u200d👧\u200d👦" * 8: "👩\u200d👩\u200d👧\u200d👦" * 8,
    "\ud800lone".encode("utf-8", "replace").decode(): "?lone",
    "w" * 200: "w" * 200,
    "../../etc/passwd?x=1&id=2#y": "../../etc/passwd?x=1&id=2#y",
}
"""What comes from outside, and how it is to be read."""


def hostile() -> Told:
    """Tables and clients with all of these names, and two tables whose names joined by a dot are one text."""
    names = list(HOSTILE)
    return Told([*((name, name) for name in names), ("a.b", "c"), ("a", "b.c")], names, column=SCRIPT)


def test_hostile_names_are_text_wherever_they_stand(told: StandIn, open_page: Callable[..., Page]) -> None:
    told.told = hostile()
    page = open_page(told.url)
    expect(page.locator("#clients-list tr[data-key]")).to_have_count(len(HOSTILE))
    assert sorted(reading.names(page, "clients")) == sorted(HOSTILE.values())
    for number, (name, shown) in enumerate(HOSTILE.items()):
        details = reading.opened(reading.client(page, number + 1))
        expect(reading.fact(details, "Name")).to_have_text(shown)
        expect(details.locator(".deliveries li")).to_have_count(10)
        expect(details.locator(".deliveries li").first).to_contain_text(shown.split(".")[0])
        page.keyboard.press("Escape")
        details = reading.opened(reading.table(page, name, name))
        expect(reading.fact(details, "Schema")).to_have_text(shown)
        expect(reading.fact(details, "Table")).to_have_text(shown)
        expect(details.get_by_role("list")).to_contain_text(shown)  # the client of that name asks for it
        expect(details).to_contain_text(SCRIPT)  # a column
        page.keyboard.press("Escape")
    page.locator("#schema summary").click()
    expect(page.locator("#schema-list tr[data-key]")).to_have_count(len(HOSTILE) + 2)
    assert page.locator("img").count() == 0
    assert page.title().startswith("running")


def test_tables_whose_joined_names_are_one_text_are_two(told: StandIn, open_page: Callable[..., Page]) -> None:
    told.told = hostile()
    page = open_page(told.url)
    expect(reading.table(page, "a.b", "c").locator(".opener")).to_have_text("`a.b`.c")
    expect(reading.table(page, "a", "b.c").locator(".opener")).to_have_text("a.`b.c`")


def test_the_filter_takes_hostile_text_as_text(told: StandIn, open_page: Callable[..., Page]) -> None:
    told.told = hostile()
    page = open_page(told.url)
    field = page.get_by_label("Filter clients, tables and schema")
    for text in ("<style>*{display:none}</style>", "__proto__", ".*", "\\", "[", "(((", "${document.title}"):
        field.fill(text)
        expected = sum(text in shown for shown in HOSTILE.values())
        expect(page.locator("#clients-list tr[data-key]")).to_have_count(expected)


def test_hostile_names_fit_a_phone(told: StandIn, open_page: Callable[..., Page]) -> None:
    told.told = hostile()
    page = open_page(told.url, viewport={"width": 360, "height": 640})
    expect(page.locator("#clients-list tr[data-key]")).to_have_count(len(HOSTILE))
    assert reading.overflow(page) == 0
    longest = list(HOSTILE).index("w" * 200)
    reading.opened(reading.client(page, longest + 1))
    reading.opened(reading.table(page, "w" * 200, "w" * 200))
    assert reading.overflow(page) == 0
