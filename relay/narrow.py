"""The stat document for those who look at a few of its clients and tables."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any


def narrowed(document: dict[str, Any], clients: Sequence[str], tables: Sequence[str]) -> dict[str, Any]:
    """The document with the clients whose names, and the tables whose `schema.table`, match one of the patterns.

    A pattern is one as shells have for files: `*`, `?`, `[abc]`. No pattern leaves all of that sort.
    """
    usage = document["usage"]
    return document | {
        "clients": [client for client in document["clients"] if _matches(client["name"], clients)],
        "usage": usage
        | {"tables": [table for table in usage["tables"] if _matches(f"{table['schema']}.{table['table']}", tables)]},
    }


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
