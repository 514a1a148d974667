"""The site works without a network: no page and no style of it loads anything from another host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_LOADS: Final = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:url\(|@import )\s*["']?((?:https?:)?//[^"')\s]+)"""
)


def loaded_from_elsewhere(text: str) -> list[str]:
    """The addresses on other hosts that a page or a style loads; links that a reader may follow are none."""
    return [first or second for first, second in _LOADS.findall(text)]


def foreign(site: Path) -> list[str]:
    """The same of every page and style of a site, each with its file."""
    files = sorted(path for path in site.rglob("*") if path.suffix in (".html", ".css"))
    return [
        f"{path.relative_to(site)}: {address}" for path in files for address in loaded_from_elsewhere(path.read_text())
    ]
