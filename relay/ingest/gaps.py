"""Gaps: events that are lost. A person accepts the loss with `relay start --accept-gap`, for one error."""

from __future__ import annotations

from typing import Any, Final

from pymysql.connections import Connection

from relay._native import JournalState
from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.config.tree import Config
from relay.ingest import reading, resume
from relay.source import facts
from relay.source.facts import BinlogStatus, ServerFacts

_FROM_OLDEST: Final = frozenset({StopCode.BINLOG_PURGED, StopCode.BINLOG_RESET})  # all that the source has is new
_ACCEPTABLE: Final[frozenset[ErrorCode | StopCode]] = _FROM_OLDEST | {
    StopCode.GTID_GAP,
    StopCode.WRONG_SOURCE,
    StopCode.EVENT_TOO_LARGE,
}


class AcceptedGap:
    """Accept one error of the source that means a loss, if `accept`.

    `error` is the accepted error while the journal has no record of it, else None. It begins with a loss of the journal
    that was accepted when the journal was opened.
    """

    def __init__(self, accept: bool, lost_journal: RelayError | None) -> None:
        self._accept = accept
        self.error = lost_journal

    def takes(self, error: RelayError) -> bool:
        """Whether the reader continues after this error. Then it is the gap to record."""
        if not self._accept or error.code not in _ACCEPTABLE:
            return False
        self._accept = False
        self.error = error
        return True


def end_of_gap(
    error: RelayError, journal: JournalState, config: Config, connection: Connection[Any], server: ServerFacts
) -> BinlogStatus:
    """Where to continue after a loss. Raises `SourceLost`, `RelayError`.

    At the source's oldest position if it purged or reset its binlog, else where the source has something new.
    """
    if error.code is StopCode.JOURNAL_LOST:
        return reading.start_position(config, connection, server)
    if error.code in _FROM_OLDEST:
        return facts.binlog_start(connection, server)
    if error.code is StopCode.EVENT_TOO_LARGE:
        return facts.binlog_after(connection, server, error.position.rpartition(":")[0])
    end = facts.binlog_end(connection, server)
    return resume.common_position(journal.gtid_set, journal.identity, server, end)
