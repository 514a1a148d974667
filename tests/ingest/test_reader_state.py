"""Ids and versions in the reader state."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from relay.ingest.reader_state import ReaderState
from relay.journal.frames import Definition
from tests.support.journal_builder import ID, NAME

SHOP = Definition("shop", "orders", 0, 0, 0, True, [ID, NAME])


def test_a_definition_that_is_known_is_found_after_a_start_without_a_write(tmp_path: Path) -> None:
    """A write could wait for a disk, and the first row of the table with it."""
    with closing(ReaderState(tmp_path / "state.db")) as state:
        first, second = state.with_ids(SHOP), state.with_ids(replace(SHOP, columns=[ID]))
        assert (first.version, second.version) == (1, 2)
    with closing(ReaderState(tmp_path / "state.db")) as state:
        said: list[str] = []
        state._db.set_trace_callback(said.append)
        assert (state.with_ids(SHOP), state.with_ids(replace(SHOP, columns=[ID]))) == (first, second)
        assert said and all(line.startswith("SELECT") for line in said)
        assert state.with_ids(replace(SHOP, table="other")).version == 3
