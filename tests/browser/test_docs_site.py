"""The site of docs/ in a real browser: its pages fit a desk and a phone, load nothing from elsewhere, and are found."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import HOST
from tests.support import ROOT
from tests.support.waiting import patience

WIDTHS = (1280, 400)
# Words that a reader of the page looks for.
PAGES = {
    "docs/README.html": ("Documentation of the relay", "Start here"),
    "docs/protocol.html": ("Classic protocol", "FNV-1a"),
    "docs/config.html": ("Configuration", "AuthSecret"),
    "docs/recipes/come-from-debezium.html": ("Come from Debezium", "BIGINT UNSIGNED"),
    "ARCHITECTURE.html": ("Architecture", "journal"),
}


class _Quiet(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        """Give a file; for the icon that browsers ask for by themselves, nothing."""
        if self.path == "/favicon.ico":
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--conf-dir", "scripts/docs"]
    command += ["--doctree-dir", str(folder / "doctrees"), ".", str(folder / "site")]
    subprocess.run(command, cwd=ROOT, check=True)
    handler = functools.partial(_Quiet, directory=str(folder / "site"))
    with ThreadingHTTPServer((HOST, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{HOST}:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_shows_what_a_reader_looks_for(
    site: str, open_page: Callable[..., Page], name: str, width: int, tmp_path: Path
) -> None:
    page = open_page(f"{site}/{name}", viewport={"width": width, "height": 900})
    page.screenshot(path=tmp_path / f"{Path(name).stem}-{width}.png")
    for words in PAGES[name]:
        expect(page.get_by_text(re.compile(re.escape(words), re.IGNORECASE)).first).to_be_attached()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the window"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_is_found_by_its_words(site: str, open_page: Callable[..., Page], width: int) -> None:
    page = open_page(f"{site}/search.html?q=PollMany", viewport={"width": width, "height": 900})
    found = page.locator("#search-results").get_by_role("link", name="The classic protocol")
    expect(found.first).to_be_visible(timeout=patience(30_000))
    found.first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("protocol")
