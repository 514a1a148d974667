"""An open page does not take more memory over time. Sorted first, because it takes as long as all others together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import CDPSession, expect

from tests.browser import reading
from tests.browser.chromium import Watched
from tests.browser.standin import StandIn

UPDATES: Final = 3600


class Heap:
    """What the page holds once garbage is collected."""

    def __init__(self, session: CDPSession) -> None:
        self._session = session
        session.send("HeapProfiler.enable")
        session.send("Performance.enable")

    def measure(self) -> dict[str, int]:
        """Bytes of the JavaScript heap (`bytes`), and how many DOM nodes (`nodes`) and listeners (`listeners`)."""
        for _ in range(2):  # what the first one finalises goes with the second
            self._session.send("HeapProfiler.collectGarbage")
        metrics = {
            entry["name"]: int(entry["value"]) for entry in self._session.send("Performance.getMetrics")["metrics"]
        }
        return {
            "bytes": metrics["JSHeapUsedSize"],
            "nodes": metrics["Nodes"],
            "listeners": metrics["JSEventListeners"],
        }


def updated(watched: Callable[..., Watched], stand_in: StandIn, updates: int) -> list[dict[str, int]]:
    """What the page holds at five moments, from a twelfth of so many updates on; all rows are shown, three are open."""
    context = watched(viewport={"width": 1280, "height": 900})
    context.context.clock.install()
    page = context.open(stand_in.url)
    stand_in.each_second = True
    for each in ("clients", "cdc", "tables"):
        page.locator(f"#{each}-list").get_by_role("button", name="Show all").click()
        reading.opened(page.locator(f"#{each}-list tr[data-key]").first)
    page.mouse.move(5, 5)
    heap = Heap(context.context.new_cdp_session(page))
    measured = []
    for turn in range(5):
        while stand_in.asked["stat"] < updates // 12 + updates * 11 // 12 * turn // 4:
            context.context.clock.run_for(500)  # an answer may take as long as some of them
        measured.append(heap.measure())
    expect(page.locator("#fresh")).to_have_text("live")
    print(*measured, sep="\n")
    return measured


@pytest.mark.timeout(900)  # some minutes on two cores
def test_an_hour_of_updates_of_a_thousand_of_each_takes_no_memory(
    many: StandIn, watched: Callable[..., Watched]
) -> None:
    first, *later = updated(watched, many, UPDATES)
    assert max(each["bytes"] for each in later) < first["bytes"] + (4 << 20)  # some documents that come and go
    assert max(each["nodes"] for each in later) < first["nodes"] + 500
    assert max(each["listeners"] for each in later) < first["listeners"] + 50
