"""The groups of pages: the lists and tables of links in docs/README.md and in the README.md of each folder below."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

START: Final = "docs/README.md"
PAGES: Final = ("*.md", "docs/**/*.md", "bench/*.md")
"""What the site has, from the root of the repository: a link leads to the same file here and there."""


def pages(root: Path) -> list[str]:
    """All pages of the site, as paths from the root of the repository."""
    return sorted(path.relative_to(root).as_posix() for pattern in PAGES for path in root.glob(pattern))


def is_index(page: str) -> bool:
    """Whether the lists and tables of a page make groups."""
    return page.startswith("docs/") and posixpath.basename(page) == "README.md"


def groups(text: str) -> dict[str, dict[str, str]]:
    """The groups of an index: below each heading, the pages that begin items or rows of a table, and titles."""
    found: dict[str, dict[str, str]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif item := re.match(r"[-|] \[([^\]]+)\]\(([^)#:]+\.md)\)", line):
            found.setdefault(heading, {})[item[2]] = item[1]
    return found


def listed(index: str, text: str) -> list[str]:
    """The pages that an index lists, as paths from the root of the repository."""
    folder = posixpath.dirname(index)
    return [posixpath.normpath(posixpath.join(folder, link)) for group in groups(text).values() for link in group]


def navigation(found: Mapping[str, Mapping[str, str]]) -> str:
    """The groups as Sphinx reads them: a hidden table of contents for each."""
    tables = []
    for heading, links in found.items():
        caption = f":caption: {heading}\n" if heading else ""
        entries = "".join(f"{title} <{link}>\n" for link, title in links.items())
        tables.append(f"\n```{{toctree}}\n:hidden:\n{caption}\n{entries}```\n")
    return "".join(tables)
