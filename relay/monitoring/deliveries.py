"""The last deliveries of a client: replies with rows, with the table read from the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from relay._native import Arena, JournalError, JournalReader
from relay.base.errors import StopCode

_KINDS: Final = {1: "insert", 2: "update", 4: "delete"}


class Delivery(msgspec.Struct):
    """A reply with rows, at Unix seconds `at`; `schema`, `table` and `kind` are those of its first row.

    `schema` and `table` are "" if retention has cut that row from the journal. `rows` counts all tables and kinds, and
    repeated rows again. `gap_ms`: milliseconds since the previous delivery, None if that one is not known.
    """

    at: float
    schema: str
    table: str
    kind: str
    rows: int
    gap_ms: float | None


def deliveries(arena: Arena, journal_dir: Path, client_id: int) -> list[Delivery]:
    """Return the last ten deliveries of a client since the relay's start, newest first; none for an unknown client.

    Raises `JournalError` if the journal is damaged.
    """
    slot = next((slot for slot in arena.client_slots() if arena.client_id(slot) == client_id), None)
    if slot is None:
        return []
    journal = JournalReader(journal_dir)  # for this call only: segments that it has read stay mapped
    last = arena.client_deliveries(slot)
    if arena.client_id(slot) != client_id:
        return []  # an operator has just removed it
    found: list[Delivery] = []
    before = None
    for at, frame, kind, rows in last:
        gap = None if before is None else round((at - before) * 1000, 3)
        found.append(Delivery(round(at, 6), *_table(journal, frame), _KINDS[kind], rows, gap))
        before = at
    return found[::-1]


def _table(journal: JournalReader, frame: int) -> tuple[str, str]:
    """Return schema and table of the rows at a journal position; both "" if retention has cut them."""
    try:
        return journal.table_at(frame) or ("", "")
    except JournalError as error:
        if error.code != StopCode.JOURNAL_LOST:
            raise
        return "", ""
