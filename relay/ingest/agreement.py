"""Check that state.db and the journal belong together. An operator must accept the loss or restore of only one."""

from __future__ import annotations

from pathlib import Path

from relay._native import JournalWriter
from relay.base.errors import RelayError, StopCode
from relay.base.log import Log
from relay.datadir.state_mark import Mark, StateLost
from relay.ingest.reader_state import ReaderState


class Agreement:
    """Check one state.db against its journal. `accept`: continue after a loss (`relay start --accept-gap`)."""

    def __init__(self, state: Path, accept: bool, log: Log) -> None:
        self._state = state
        self._accept = accept
        self._log = log

    def open_reader_state(self) -> ReaderState:
        """Open the reader state. Raises `RelayError`: `StateLost` if it is new, or older than it was."""
        try:
            return ReaderState(self._state)
        except StateLost as lost:
            self._accept_loss(lost)
            Mark(self._state).delete()
            return ReaderState(self._state)

    def check_generation(self, reader_state: ReaderState, writer: JournalWriter, folder: Path) -> RelayError | None:
        """Compare the generation of the journal with the one in state.db.

        If they differ, the queues of clients are lost. If that is accepted, returns the error, to be recorded as a gap.
        Raises `RelayError`: journal_lost, or `StateLost` if state.db has no generation.
        """
        generation, known = str(writer.generation()), reader_state.get("generation")
        if not known:
            if writer.state().identity:
                self._accept_loss(StateLost(self._state, "it is new, but the journal is not"))
            reader_state.put("generation", generation)
        if known in ("", generation):
            return None
        cause = f"its id is {generation}, but state.db belongs to {known}"
        lost = RelayError(StopCode.JOURNAL_LOST, "open the journal", cause, position=str(folder))
        if not self._accept:
            raise lost
        return lost

    def _accept_loss(self, lost: StateLost) -> None:
        if not self._accept:
            raise lost
        self._log("state_lost", file=lost.position, cause=lost.cause)
