"""What a client was given last: each reply that carried rows, resolved to a table from the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from relay._native import Arena, JournalError, JournalReader
from relay.errors import StopCode

_KINDS: Final = {1: "insert", 2: "update", 4: "delete"}


class Delivery(msgspec.Struct):
    """A reply with rows, at Unix seconds `at`; `schema`, `table` and `kind` are those of its first row.

    `schema` and `table` are "" where retention has cut that row from the journal. `rows` of all tables and kinds; a row
    that is handed out again counts again. `gap_ms`: milliseconds since the delivery before, None where that one is not
    among those known.
    """

    at: float
    schema: str
    table: str
    kind: str
    rows: int
    gap_ms: float | None


def deliveries(arena: Arena, journal_dir: Path, client_id: int) -> list[Delivery] | None:
    """The last ten of a client since the relay's start, newest first; None if there is no such client.

    Raises `JournalError` if the journal is damaged.
    """
    slot = next((slot for slot in arena.client_slots() if arena.client_id(slot) == client_id), None)
    if slot is None:
        return None
    journal = JournalReader(journal_dir)  # for this call: what it has looked at stays mapped
    found: list[Delivery] = []
    before = None
    for at, frame, kind, rows in arena.client_deliveries(slot):
        gap = None if before is None else round((at - before) * 1000, 3)
        found.append(Delivery(round(at, 6), *_table(journal, frame), _KINDS[kind], rows, gap))
        before = at
    return found[::-1]


def _table(journal: JournalReader, frame: int) -> tuple[str, str]:
    """Schema and table of the rows at a journal position, twice "" if they are gone."""
    try:
        return journal.table_at(frame) or ("", "")
    except JournalError as error:
        if error.code != StopCode.JOURNAL_LOST:
            raise
        return "", ""
