"""The stat document for those who look at a few of its clients and tables."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any


def narrowed(document: dict[str, Any], clients: Sequence[str], tables: Sequence[str]) -> dict[str, Any]:
    """The document with the clients whose names, and the tables whose `schema.table`, match one of the patterns.

    Of the CDC port's streams those are left whose users match as clients do, and whose tables match.

    A pattern is one as shells have for files: `*`, `?`, `[abc]`. No pattern leaves all of that sort.
    """
    usage, cdc = document["usage"], document["cdc"]

    def matches(stream: dict[str, Any]) -> bool:
        return _matches(stream["user"], clients) and _matches(f"{stream['schema']}.{stream['table']}", tables)

    return document | {
        "clients": [client for client in document["clients"] if _matches(client["name"], clients)],
        "usage": usage
        | {"tables": [table for table in usage["tables"] if _matches(f"{table['schema']}.{table['table']}", tables)]},
        "cdc": cdc
        and cdc
        | {
            "processes": [
                process | {"streams": [stream for stream in process["streams"] if matches(stream)]}
                for process in cdc["processes"]
            ]
        },
    }


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
