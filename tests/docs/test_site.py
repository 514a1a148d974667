"""The site: every page stands in one group, and nothing comes from another host. `make docs` checks the rest."""

from __future__ import annotations

from collections import Counter

import pytest

from scripts.docs.groups import START, groups, is_index, listed, navigation, pages
from scripts.docs.offline import loaded_from_elsewhere
from tests.support import ROOT

PAGES = pages(ROOT)
LISTED = Counter(page for index in PAGES if is_index(index) for page in listed(index, (ROOT / index).read_text()))


def test_every_page_is_in_a_group() -> None:
    lost = [page for page in PAGES if page not in LISTED and page != START]
    assert not lost, f"in no group: {lost}; add a line to {START}, or of the README.md of the page's folder"


def test_no_page_is_in_two_groups() -> None:
    assert not [page for page, times in LISTED.items() if times > 1]


def test_every_entry_of_a_group_is_a_page_of_the_site() -> None:
    assert not LISTED.keys() - set(PAGES)


def test_the_lists_of_an_index_become_the_navigation() -> None:
    index = (
        "# T\n\n- [A](a.md): x\n\n## Two\n\nSee [no](no.md).\n\n- [B b](../b.md): of [c](c.md)\n- [d](e.py)\n\n"
        "| to |\n|---|\n| [e](f/g.md) |\n"
    )
    assert groups(index) == {"": {"a.md": "A"}, "Two": {"../b.md": "B b", "f/g.md": "e"}}
    assert listed("docs/README.md", index) == ["docs/a.md", "b.md", "docs/f/g.md"]
    assert navigation({"Two": {"../b.md": "B b"}}) == "\n```{toctree}\n:hidden:\n:caption: Two\n\nB b <../b.md>\n```\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<script src="https://a.example/b.js"></script>', ["https://a.example/b.js"]),
        ('<link rel="stylesheet" href="//a.example/b.css">', ["//a.example/b.css"]),
        ("@font-face { src: url('https://a.example/b.woff2') }", ["https://a.example/b.woff2"]),
        ('@import "https://a.example/b.css";', ["https://a.example/b.css"]),
        ('<a href="https://a.example/">a</a><script src="_static/b.js"></script><img src="../_images/c.svg">', []),
    ],
)
def test_what_a_page_loads_from_another_host_is_found(text: str, found: list[str]) -> None:
    assert loaded_from_elsewhere(text) == found
