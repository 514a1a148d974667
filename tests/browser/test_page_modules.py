"""The page's modules, called in the browser without a relay, on documents and names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from relay.monitoring.http import Content, page_files
from tests.browser.chromium import HOST

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Iterator[Page]:
    """An empty page of a host that has nothing but the page's files."""
    files = page_files() | {"": Content(b"", "text/html")}

    def answer(route: Route) -> None:
        content = files[route.request.url.partition("/static/")[2]]
        route.fulfill(body=content.body, content_type=content.kind)

    context = chromium.new_context()
    context.route("**/*", answer)
    page = context.new_page()
    page.goto(f"http://{HOST}/")
    yield page
    context.close()


@pytest.fixture
def ask(page: Page) -> Ask:
    """Calls a module's function: ask("format", "bytes", 1024)."""

    def call(module: str, function: str, *arguments: object) -> Any:
        program = "async ([m, f, a]) => (await import(`/static/js/${m}.js`))[f](...a)"
        return page.evaluate(program, [module, function, arguments])

    return call


def document(**changes: Any) -> dict[str, Any]:
    """What `findings` looks at in the document of a relay that is well."""
    watch = {"expiry": 1000, "trouble": ""}
    source = {
        "host": "db", "port": 3306, "state": "streaming", "silent_seconds": 1, "lag_seconds": 0, "lag_bytes": 0,
        "loss_seconds": 900, "watch": watch,
    }  # fmt: skip
    return {
        "state": "running", "stop": None, "gaps": [], "lake": None, "log": None, "cdc": None, "clients": [],
        "source": source, "traffic": {"skipped": 0}, "journal": {"first": 0, "committed": 10, "max_bytes": 100},
        "processes": [{"name": name, "state": "running", "silent_seconds": 0} for name in ("reader", "exporter")],
        "usage": {"tables": [{"schema": "shop", "table": "orders"}], "trouble": ""},
    } | changes  # fmt: skip


def source(**changes: Any) -> dict[str, Any]:
    """The part `source` of a document."""
    return {"source": document()["source"] | changes}


def process(name: str, **changes: Any) -> dict[str, Any]:
    """The part `processes` of a document, with one process."""
    return {"processes": [{"name": name, "state": "running", "silent_seconds": 0} | changes]}


def cdc(*processes: dict[str, Any]) -> dict[str, Any]:
    """The part `cdc` of a document, with processes that serve but for these changes."""
    return {"cdc": {"processes": [{"stop": None, "trouble": "", "streams": []} | changes for changes in processes]}}


STOP = {"code": "binlog_purged", "text": "it is gone", "hint": "start anew"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"stop": STOP}, [("relay", "stop")]),
        ({"stop": STOP} | process("reader", state="down"), [("relay", "stop")]),
        ({"lake": {"export": {"stop": STOP}, "snapshot": {"stop": None}}}, [("export", "stop")]),
        ({"lake": {"export": {"stop": None}, "snapshot": {"stop": STOP}}}, [("snapshot", "stop")]),
        ({"log": {"status": {"stop": STOP}}}, [("log", "stop")]),
        (cdc({}, {"stop": STOP}), [("cdc-1", "stop")]),
        (cdc({"stop": STOP}) | process("cdc-0", state="down"), [("cdc-0", "stop")]),
        (cdc({}) | process("cdc-0", state="down"), [("down", "warn")]),
        (cdc({}, {"trouble": "denied"}), [("users", "warn")]),
        (source(loss_seconds=250), [("loss", "warn")]),
        (source(loss_seconds=50), [("loss", "stop")]),
        (source(loss_seconds=None), []),
        (source(state="reconnecting"), [("source", "warn")]),
        (source(state="no_password"), [("source", "warn")]),
        (source(silent_seconds=61), [("source", "warn")]),
        (source(lag_seconds=61), [("lag", "warn")]),
        (source(lag_seconds=None, lag_bytes=None), []),
        (source(watch={"expiry": None, "trouble": "denied"}), [("watch", "warn")]),
        (process("broker", state="down"), [("down", "warn")]),
        (process("broker", silent_seconds=61), [("hangs broker", "warn")]),
        (process("exporter", silent_seconds=61), []),
        ({"journal": {"first": 100, "committed": 190, "max_bytes": 100}}, [("journal", "warn")]),
        ({"state": "paused"}, [("held", "idle")]),
        ({"state": "draining"} | source(state="reconnecting"), [("source", "warn"), ("held", "busy")]),
        ({"traffic": {"skipped": 1}}, [("skipped", "idle")]),
        ({"usage": {"tables": [], "trouble": ""}}, [("rows", "idle")]),
        ({"usage": {"tables": [], "trouble": "denied"}}, []),
        ({"usage": {"tables": [], "trouble": ""}, "stop": STOP, "state": "stopped"}, [("relay", "stop")]),
    ],
)
def test_an_operator_is_told_what_is_not_well_and_the_gravest_first(
    page: Page, changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    program = "async d => (await import('/static/js/health.js')).findings(d, { of: () => 0 })"
    found = page.evaluate(program, document(**changes))
    assert [(finding["id"], finding["level"]) for finding in found] == expected


def test_a_stop_is_told_with_its_code_its_text_and_what_to_do(page: Page) -> None:
    program = "async d => (await import('/static/js/health.js')).findings(d, { of: () => 0 })"
    (found,) = page.evaluate(program, document(stop=STOP))
    assert found["title"] == "Stopped: binlog_purged"
    assert (found["text"], found["hint"]) == ("it is gone", "start anew")


def test_clients_that_lose_rows_are_named_while_they_lose_them(page: Page) -> None:
    program = "async d => (await import('/static/js/health.js')).findings(d, { of: n => n === 'dropped 7' ? 3 : 0 })"
    clients = [{"id": 7, "name": "slow"}, {"id": 8, "name": "quick"}]
    (found,) = page.evaluate(program, document(clients=clients))
    assert found["title"] == "1 client losing rows now"
    assert found["text"] == "slow"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("orders", "orders"),
        ("a\nb\tc\0", "a\\nb\\tc\\u{0}"),
        ("a\u202eb\u200bc", "a\\u{202e}b\\u{200b}c"),
        ("a\u200db\u200d", "a\\u{200d}b\\u{200d}"),
        ("<b>&amp;", "<b>&amp;"),
        ("👩‍👩‍👧 عربي", "👩‍👩‍👧 عربي"),
    ],
)
def test_what_would_not_be_seen_in_a_name_is_written_out(ask: Ask, text: str, seen: str) -> None:
    assert ask("format", "visible", text) == seen


def test_full_names_of_tables_are_never_those_of_others(ask: Ask) -> None:
    tables = [("a.b", "c"), ("a", "b.c"), ("a", "`b.c`"), ("a`.`b", "c"), ("a", " b"), ("a", "b"), ("a", ""), ("", "a")]
    assert len({ask("format", "qualified", *table) for table in tables}) == len(tables)
    assert ask("format", "qualified", "shop", "orders") == "shop.orders"


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        ("bytes", None, "–"),
        ("bytes", 1023, "1,023 B"),
        ("bytes", 1024, "1 KiB"),
        ("bytes", 1024**3 * 20, "20 GiB"),
        ("count", 9_999_999, "9,999,999"),
        ("count", 12_345_678, "12.3 M"),
        ("duration", None, "–"),
        ("duration", 0.44, "0.4 s"),
        ("duration", 59.9, "59 s"),
        ("duration", 3600, "1 h"),
        ("duration", 86400 * 6 + 3600 * 23, "6 d 23 h"),
        ("duration", -90, "-1 min 30 s"),
        ("rate", None, "–"),
        ("rate", 0, "0"),
        ("rate", 0.04, "<0.1"),
        ("rate", 999_999, "1 M"),
        ("instant", 0, "–"),
        ("instant", 1_700_000_000, "2023-11-14 22:13:20 UTC"),
    ],
)
def test_figures_as_text(ask: Ask, function: str, value: float | None, text: str) -> None:
    assert ask("format", function, value) == text


def test_rows_keep_their_places_while_somebody_works_with_them(page: Page) -> None:
    program = """async () => {
      const { keepOrder, sorted } = await import('/static/js/order.js');
      const key = row => row.id;
      const rows = [{ id: 'c', n: 1 }, { id: 'b', n: 3 }, { id: 'a', n: 3 }, { id: 'd', n: 9 }];
      const order = rows => rows.map(key).join('');
      const largest = sorted(rows, { by: row => row.n, key, descending: true });
      return [order(largest), order(keepOrder(rows, ['b', 'x', 'c'], key))];
    }"""
    assert page.evaluate(program) == ["dabc", "bcad"]


def test_the_filter_wants_every_word_in_any_case(page: Page) -> None:
    program = "async q => (await import('/static/js/order.js')).matching(['shop.Orders', 'shop.items'], q, t => t)"
    assert page.evaluate(program, "SHOP  ord") == ["shop.Orders"]
    assert page.evaluate(program, " ") == ["shop.Orders", "shop.items"]
    assert page.evaluate(program, "shop orders items") == []


def test_rates_are_of_the_last_seconds_and_begin_anew_with_the_relay(page: Page) -> None:
    program = """async () => {
      const { Rates } = await import('/static/js/rates.js');
      const rates = new Rates();
      const add = (at, insert, started = 1) => {
        rates.add({ at, started, rows: { insert }, traffic: { bytes: 0 }, clients: [], processes: [], cdc: null });
        return rates.of('rows');
      };
      return [add(10, 0), add(10, 0), add(12, 20), add(20, 20), add(25, 25), add(26, 2, 2), add(28, 4, 2)];
    }"""
    assert page.evaluate(program) == [None, None, 10, 0, 1, None, 1]
