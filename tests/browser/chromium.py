"""A page in a real chromium, and checks that run while it is open."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, WebSocket, sync_playwright

from tests.support.waiting import patience

HOST: Final = "127.0.0.1"

DESK: Final = {"width": 1600, "height": 900}
"""A window in which every column has room."""

_ARGUMENTS: Final = [f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {HOST}"]
_REPORT_VIOLATIONS: Final = """
document.addEventListener("securitypolicyviolation",
  event => reportViolation(`${event.effectiveDirective}: ${event.blockedURI}`));
"""


@contextmanager
def running() -> Iterator[Browser]:
    """The chromium of the system, without a window; no name but 127.0.0.1 resolves in it."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    assert found, "no chromium in PATH: make setup-browser"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
        yield browser
        browser.close()


class Watched:
    """A browser context whose pages are watched: `complaints` names what they did and must not do.

    Errors on the console and uncaught ones, violations of the content security policy, requests to anywhere but
    127.0.0.1, and requests that could change something. `options` are those of `Browser.new_context`.
    """

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.complaints: list[str] = []
        self._expected: list[re.Pattern[str]] = []
        self.context: BrowserContext = browser.new_context(**({"viewport": DESK} | options))
        self.context.set_default_timeout(patience(15_000))
        self.context.expose_binding("reportViolation", lambda _, text: self._complain(f"policy violated: {text}"))
        self.context.add_init_script(_REPORT_VIOLATIONS)
        self.context.on("console", self._console)
        self.context.on("weberror", lambda error: self._complain(f"uncaught: {error.error}"))
        self.context.on("request", self._request)
        self.context.on("page", lambda page: page.on("websocket", self._socket))

    def open(self, url: str) -> Page:
        """A new page at `url`, loaded."""
        page = self.context.new_page()
        page.goto(url)
        return page

    def expect(self, pattern: str) -> Self:
        """From now on, what the regular expression `pattern` is found in is no complaint."""
        self._expected.append(re.compile(pattern))
        return self

    def _complain(self, text: str) -> None:
        if not any(pattern.search(text) for pattern in self._expected):
            self.complaints.append(text)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "assert"):
            self._complain(f"console: {message.text} ({message.location['url']})")

    def _request(self, request: Request) -> None:
        if request.url.split(":")[0] != "data" and urlsplit(request.url).hostname != HOST:
            self._complain(f"left the machine: {request.url}")
        if request.method != "GET":
            self._complain(f"not read-only: {request.method} {request.url}")

    def _socket(self, socket: WebSocket) -> None:
        if urlsplit(socket.url).hostname != HOST:
            self._complain(f"left the machine: {socket.url}")
