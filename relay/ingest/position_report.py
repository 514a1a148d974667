"""Report the position of the stream in shared memory, for the stat document and for positions of clients."""

from __future__ import annotations

from typing import Final

from relay._native import Arena, Ingest, JournalState, JournalWriter
from relay.base.log import Log
from relay.binlog.events.position import BinlogPosition

REPORT_SECONDS: Final = 0.5  # the least time between two reports: meanwhile no row waits for Python
PROGRESS_SECONDS: Final = 10.0  # between two log lines about the progress of reading again


class PositionReport:
    """Report what the ingest has read. Times are monotonic seconds, but `heard` is in Unix seconds.

    `known_until` is the end of what the journal already has, if the stream had to be requested from an earlier
    position.
    """

    def __init__(self, arena: Arena, ingest: Ingest, writer: JournalWriter, log: Log) -> None:
        self._arena = arena
        self._ingest = ingest
        self._writer = writer
        self._log = log
        self._reported = 0.0
        self._logged = 0.0
        self.known_until = ""

    def due(self, now: float) -> bool:
        """Whether the next report is due."""
        return now - self._reported >= REPORT_SECONDS

    def update(self, now: float, host: str, heard: float) -> None:
        """Report the position, and when the last byte came from that host."""
        self._reported = now
        here = BinlogPosition(self._ingest.file, self._ingest.position)
        if self.known_until and self._ingest.skipping and now - self._logged > PROGRESS_SECONDS:
            self._logged = now
            self._log("reading_again", position=here, until=self.known_until, reason="asked_for_by_4_bytes")
        state = self._writer.state()
        whole = not self._ingest.in_transaction and self._writer.committed() == self._writer.end()
        self._arena.sequence = state.sequence
        self._arena.set_source(
            host=host,
            file=state.file,
            position=read_up_to(state, here, whole=whole),
            gtid_set=state.gtid_set,
            last_event=self._ingest.timestamp,
            heard=heard,
        )


def read_up_to(journal: JournalState, here: BinlogPosition, *, whole: bool) -> int:
    """Return the offset in the journal's binlog file up to which everything is published.

    `here` is the end of what was read. `whole`: no transaction is unfinished, so what was read without rows, such as
    the head of a new file, counts.
    """
    return max(journal.position, here.position) if whole and here.file == journal.file else journal.position
