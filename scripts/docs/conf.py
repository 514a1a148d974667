"""Sphinx's configuration. Its source is the whole repository, so that links in pages work here and there alike."""

from __future__ import annotations

from sphinx.application import Sphinx
from sphinx.util import logging

from scripts.docs.groups import PAGES, START, groups, is_index, navigation
from scripts.docs.offline import foreign

project = "relay"
html_title = "The relay"
extensions = ["myst_parser"]
root_doc = START.removesuffix(".md")
include_patterns = [*PAGES, "docs/*.md"]
myst_heading_anchors = 6  # as on GitHub, each heading is a target of links
smartquotes = False  # a word of code outside a code span stays what it is
highlight_language = "none"  # of a block that names no language

html_theme = "furo"
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["index.html"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_use_index = False


def add_navigation(app: Sphinx, docname: str, content: list[str]) -> None:
    """The lists of an index become the navigation."""
    if is_index(f"{docname}.md"):
        content[0] += navigation(groups(content[0]))


def check_offline(app: Sphinx, failure: Exception | None) -> None:
    """Whatever the site loads from another host is a warning."""
    for found in foreign(app.outdir) if failure is None else ():
        logging.getLogger(__name__).warning("loaded from another host: %s", found)


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", check_offline)
