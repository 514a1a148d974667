"""The checks that run on every page notice violations; the page's tests rely on that."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import HOST, Watched

POLICY = {"Content-Security-Policy": "default-src 'self'"}
OWN = f"http://{HOST}:9/"


def complaints(chromium: Browser, body: str, headers: dict[str, str], expected: str = "") -> list[str]:
    """What is complained of while a page with that body is open; it is answered by the browser itself."""
    watched = Watched(chromium)
    if expected:
        watched.expect(expected)
    watched.context.route(OWN, lambda route: route.fulfill(body=body, content_type="text/html", headers=headers))
    page = watched.open(OWN)
    page.wait_for_load_state("networkidle")
    watched.context.close()
    return watched.complaints


@pytest.mark.parametrize(
    ("body", "headers", "complaint"),
    [
        ("<script>console.error('broken')</script>", {}, "console: broken"),
        ("<script>nothing()</script>", {}, "uncaught: nothing is not defined"),
        ("<script>Promise.reject(new Error('lost'))</script>", {}, "uncaught: lost"),
        ("<p style='color: red'>text</p>", POLICY, "policy violated: style-src-attr: inline"),
        ("<script>document.title = 'run'</script>", POLICY, "policy violated: script-src-elem: inline"),
        ("<img src='http://example.org/x.png'>", {}, "left the machine: http://example.org/x.png"),
        ("<script>new WebSocket('ws://example.org/')</script>", {}, "left the machine: ws://example.org/"),
        ("<script>fetch('/', {method: 'POST'})</script>", {}, f"not read-only: POST {OWN}"),
    ],
)
def test_a_page_that_does_what_it_must_not_is_told(
    chromium: Browser, body: str, headers: dict[str, str], complaint: str
) -> None:
    told = complaints(chromium, body, headers)
    assert any(text.startswith(complaint) for text in told), told


def test_a_page_that_does_nothing_wrong_is_not_told(chromium: Browser) -> None:
    assert not complaints(chromium, "<title>page</title><p>text</p>", POLICY)


def test_what_is_expected_is_not_told_and_the_rest_is(chromium: Browser) -> None:
    body = "<script>console.error('expected'); console.error('other')</script>"
    assert [text.split(" (")[0] for text in complaints(chromium, body, {}, "expected")] == ["console: other"]
