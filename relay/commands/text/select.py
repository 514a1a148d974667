"""Select clients and tables of a stat document."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any


def selected(document: dict[str, Any], clients: Sequence[str], tables: Sequence[str]) -> dict[str, Any]:
    """Return the document with only the clients and the tables (`schema.table`) that match one of the patterns.

    Of the CDC streams it keeps those whose user matches a client pattern and whose table matches a table pattern. A
    pattern is a shell file pattern: `*`, `?`, `[abc]`. Without patterns all clients or tables stay.
    """
    usage, cdc = document["usage"], document["cdc"]

    def selected_process(process: dict[str, Any]) -> dict[str, Any]:
        streams = [
            stream
            for stream in process["streams"]
            if _matches(stream["user"], clients) and _matches(f"{stream['schema']}.{stream['table']}", tables)
        ]
        return process | {"streams": streams}

    return document | {
        "clients": [client for client in document["clients"] if _matches(client["name"], clients)],
        "usage": usage
        | {"tables": [table for table in usage["tables"] if _matches(f"{table['schema']}.{table['table']}", tables)]},
        "cdc": cdc and cdc | {"processes": [selected_process(process) for process in cdc["processes"]]},
    }


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
