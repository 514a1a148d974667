"""One chromium for all tests of the page, and a watched page for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chromium import Watched, running
from tests.browser.documents import Told, in_schemas, numbered
from tests.browser.standin import StandIn

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser of the run."""
    with running() as browser:
        yield browser


@pytest.fixture
def watched(chromium: Browser) -> Iterator[Callable[..., Watched]]:
    """Makes watched contexts: watched(color_scheme="dark"); the test fails if a page of them did what it must not."""
    made: list[Watched] = []
    with ExitStack() as stack:

        def make(**options: Any) -> Watched:
            made.append(Watched(chromium, **options))
            stack.callback(made[-1].context.close)
            return made[-1]

        yield make
    complaints = [complaint for each in made for complaint in each.complaints]
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def open_page(watched: Callable[..., Watched]) -> Callable[..., Page]:
    """Opens a watched page: open_page(url, color_scheme="dark")."""

    def open_one(url: str, **options: Any) -> Page:
        return watched(**options).open(url)

    return open_one


@pytest.fixture
def told() -> Iterator[StandIn]:
    """A stand-in that tells of 40 tables and 40 clients, until the test changes that."""
    with StandIn(Told(in_schemas(40), numbered("client", 40))) as stand_in:
        yield stand_in


@pytest.fixture
def many() -> Iterator[StandIn]:
    """A stand-in that tells of a thousand tables, a thousand clients, and a thousand connections to the CDC port."""
    with StandIn(Told(in_schemas(1000), numbered("client", 1000), cdc_users=numbered("user", 1000))) as stand_in:
        yield stand_in
