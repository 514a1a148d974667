"""The known cases that differ from the server's output, and why. Any other difference is an error."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from tests.support.value_cases import MARIADB, MYSQL
from tests.types.case import METADATA, TableCase
from tests.types.run import Outcome


class Listed(NamedTuple):
    """Cases by family, name pattern, server and metadata; `reason` is why, `shows` a part of the difference."""

    family: str
    name: str
    reason: str
    shows: str
    on: tuple[str, ...] = MYSQL + MARIADB
    metadata: tuple[str, ...] = METADATA


_LABELS = (
    "SHOW CREATE TABLE gives labels in utf8mb3, and ? for a character of four bytes: so does the relay, and logs "
    "labels_uncertain. FULL metadata has them as they are, and so has the statement that made the table."
)
_BYTES = (
    "SHOW CREATE TABLE does not give labels of the character set binary that are no text: the relay has what it says, "
    "and logs labels_uncertain. FULL metadata has them as they are, and so has the statement that made the table."
)
_CHANGES = (
    "With binlog_row_image = MINIMAL the binlog has the change within a JSON value, and not the value that was "
    "changed: refused by name, partial_image."
)
_GENERATED = (
    "MariaDB 11.8.9 leaves generated columns out of the images of updates and deletes, whatever binlog_row_image is: "
    "refused by name, partial_image, or sent without them (OnPartialImage = send)."
)
LISTED = (
    *(
        Listed("partial JSON updates", f"{name}, MINIMAL", _CHANGES, "partial_image", on=MYSQL)
        for name in ("re*", "several", "*insert", "two columns")
    ),
    *(
        Listed("generated and hidden", name, _GENERATED, "columns [", on=("mariadb118",))
        for name in ("virtual*", "indexed virtual")
    ),
    Listed("enum and set", "* with labels of four bytes", _LABELS, "labels_uncertain", metadata=("default",)),
    Listed("enum and set", "* with labels that are no text", _BYTES, "labels_uncertain", MARIADB, ("default",)),
)
RIGHT, KNOWN, WRONG, SPARE = "ok", "listed", "WRONG", "RIGHT?"


def listing(case: TableCase, server: str, metadata: str) -> Listed | None:
    """The entry for a case on this server with this metadata."""
    for listed in LISTED:
        here = server in listed.on and metadata in listed.metadata
        if here and case.family == listed.family and fnmatchcase(case.name, listed.name):
            return listed
    return None


def verdict(outcome: Outcome, server: str, metadata: str) -> str:
    """RIGHT, KNOWN (wrong as its entry says), SPARE (right, but listed), or WRONG."""
    listed = listing(outcome.table.case, server, metadata)
    if not outcome.wrong:
        return SPARE if listed else RIGHT
    return KNOWN if listed and any(listed.shows in line for line in outcome.wrong) else WRONG
