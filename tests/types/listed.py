"""The cases that are not equal to what the server prints, and why. Anything else that differs is wrong."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from tests.types.case import METADATA, TableCase
from tests.value_cases import MARIADB, MYSQL


class Listed(NamedTuple):
    """Cases by family and a pattern of names; on which servers and with which metadata; why, and what comes instead."""

    family: str
    name: str
    reason: str
    on: tuple[str, ...] = MYSQL + MARIADB
    metadata: tuple[str, ...] = METADATA


_LABELS = (
    "information_schema and SHOW CREATE TABLE give labels in utf8mb3, and ? for a character of four bytes; "
    "FULL metadata has them as they are."
)
_CHANGES = (
    "With binlog_row_image = MINIMAL the binlog has the change within a JSON value, and not the value that was "
    "changed: refused by name, unknown_event."
)
LISTED = (
    *(
        Listed("partial JSON updates", f"{name}, MINIMAL", _CHANGES, on=MYSQL)
        for name in ("re*", "several", "*insert", "two columns")
    ),
    Listed("enum and set", "* with labels of four bytes", _LABELS, metadata=("default",)),
)


def reason(case: TableCase, server: str, metadata: str) -> str:
    """Why the case is listed there; empty if it is not."""
    for listed in LISTED:
        here = server in listed.on and metadata in listed.metadata
        if here and case.family == listed.family and fnmatchcase(case.name, listed.name):
            return listed.reason
    return ""
