"""The page with a thousand tables, clients and CDC streams: the time until rows of all three lists are painted."""

from __future__ import annotations

from playwright.sync_api import Browser

from bench.run import Run
from tests.browser.chromium import Watched, running
from tests.browser.documents import Told, in_schemas, numbered
from tests.browser.standin import StandIn, with_all_lists

MANY = 1000
ROUNDS = 7
WINDOW = {"width": 1280, "height": 900}

# Milliseconds from the start of the navigation to the first painted frame with rows of all lists.
_PAINTED = with_all_lists("painted", "requestAnimationFrame(() => setTimeout(() => resolve(performance.now())))")

# The peer, without style and modules: requests the same document and writes a name per row, as many rows as the page.
_BARE = """<!doctype html><meta charset=utf-8><title>bare</title><link rel=icon href=data:,>
<table id=clients-list></table><table id=cdc-list></table><table id=tables-list></table>
<script type=module>
const told = await (await fetch("/api/stat")).json();
const lists = {clients: told.clients, cdc: told.cdc.processes.flatMap(each => each.streams), tables: told.usage.tables};
for (const [list, rows] of Object.entries(lists)) {
  for (const row of rows.slice(0, 25)) {
    const line = document.getElementById(`${list}-list`).insertRow();
    line.dataset.key = line.insertCell().textContent = row.name ?? row.user ?? row.table;
  }
}
</script>
"""


def measure(run: Run) -> None:
    """Opens the page and its peer in turns, each time in a new context without a cache."""
    told = Told(in_schemas(MANY), numbered("client", MANY), cdc_users=numbered("user", MANY))
    ours, bare = [], []
    with running() as browser, StandIn(told) as stand_in:
        _painted(browser, stand_in.url)  # a browser is slower just after its start
        for number in range(ROUNDS):
            run.report.step(f"the page and a bare one, round {number + 1} of {ROUNDS}")
            ours.append(_painted(browser, stand_in.url))
            bare.append(_painted(browser, stand_in.url + "bare"))
    run.report.note(f"{MANY} of each in a real Chromium without a GPU; the peer is one file with the same rows, bare.")
    run.report.ratio("to rows of all lists", ours, bare, "ms", of="a bare page")
    run.report.figure("to rows of all lists, by the clock", ours, "ms", at_most=1000)


def _painted(browser: Browser, url: str) -> float:
    watched = Watched(browser, viewport=WINDOW)
    try:
        watched.context.add_init_script(_PAINTED)
        watched.context.route("**/bare", lambda route: route.fulfill(body=_BARE, content_type="text/html"))
        took: float = watched.open(url).evaluate("window.painted")
    finally:
        watched.context.close()
    assert not watched.complaints, watched.complaints
    return took
