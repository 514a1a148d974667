"""Decide whether and where a stream resumes, from the journal's state and the source's facts."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from relay._native import GtidSet
from relay.base.errors import RelayError, StopCode
from relay.binlog.events.position import BinlogPosition
from relay.ingest.reader_state import ReaderState
from relay.source.commands import FIRST_POSITION, SHORT_POSITION
from relay.source.facts import BinlogStatus, ServerFacts
from relay.source.failures import SourceLost

_FILE_AND_POSITION: Final = re.compile(r"(?P<file>[^\s,:/]+):(?P<position>\d+)")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_INDEXED_SINCE: Final = (11, 4)
"""MariaDB's first release that finds a GTID by an index: beyond 4 GiB, 11.8.6 reads at the position modulo 4 GiB."""

LACKING_SECONDS: Final = 5.0
"""The longest time for which a source may lack a transaction that it sent: it counts as executed only after that."""

BEHIND_SECONDS: Final = 60.0
"""The longest time for which a source may lack a transaction that another source sent: it may still replicate it."""


class JournalEnd(NamedTuple):
    """The journal's state: the position after its last transaction, the GTIDs received, and the source's identity.

    Without `gtid_possible`, a GTID set cannot describe what is missing (on MariaDB, while a transaction is prepared).
    """

    file: str
    position: int
    gtid_set: str
    identity: str
    gtid_possible: bool = True


class Start(NamedTuple):
    """Where to request the stream. `moved`: it is another server than the journal's last one.

    A request by GTID may also have a file and position if the source accepts both (MySQL). If the stream can only be
    requested from an earlier position, `known_until` is the position up to which the journal already has everything.
    """

    by_gtid: bool
    file: str
    position: int
    gtid_set: str
    moved: bool = False
    known_until: str = ""


class LowPosition:
    """The last end of a transaction in a binlog file that COM_BINLOG_DUMP can request.

    It is stored once the stream is beyond what the command can request.
    """

    _KEY: Final = "low_place"

    def __init__(self, reader_state: ReaderState) -> None:
        self._reader_state = reader_state
        self._last = self._kept = BinlogPosition("", 0)

    def update(self, done: BinlogPosition, here: BinlogPosition) -> None:
        """Update the position: the stream has reached `here`, and its last transaction ended at `done`."""
        if done.position <= SHORT_POSITION:
            self._last = done
        if here.position > SHORT_POSITION and here.file == self._last.file and self._last != self._kept:
            self._reader_state.put(self._KEY, str(self._last))
            self._kept = self._last

    def in_file(self, file: str) -> int:
        """Return a position in the file where a transaction begins; 4, the file's beginning, if no other is stored."""
        kept, _, position = self._reader_state.get(self._KEY).rpartition(":")
        return int(position) if kept == file else FIRST_POSITION


def parse_start(start_position: str) -> BinlogStatus:
    """Return the position for a `StartPosition` that is FILE:POS or a GTID set, which has no file."""
    found = _FILE_AND_POSITION.fullmatch(start_position)
    # UUID:1 is a GTID set, although it looks like FILE:POS.
    if found and not _UUID.fullmatch(found["file"]):
        return BinlogStatus(found["file"], int(found["position"]))
    return BinlogStatus("", FIRST_POSITION, start_position)


def missing_transactions(known: JournalEnd, server: ServerFacts, theirs: str) -> RelayError | None:
    """Return the fatal error if the source, which has the transactions `theirs`, lacks some that the journal holds.

    If the journal was read from this source, its binlog was reset or lost its end in a crash, so a position in it may
    mean something else now. Another server must continue by GTID: it has not replicated them yet, or never will, and
    its own transactions would follow rows that it does not have.
    """
    if not known.gtid_set or not server.has_gtids or known.identity.partition(":")[0] != server.flavor:
        return None
    lacks = GtidSet(known.gtid_set) - GtidSet(theirs)
    if not lacks:
        return None
    same = known.identity == server.identity
    sent = "that it sent before" if same else f"that {known.identity} sent"
    return RelayError(
        StopCode.GTID_GAP,
        "resume the binlog",
        f"the source{'' if same else f', {server.identity},'} lacks transactions {sent}: {lacks} of {known.gtid_set};"
        f" it has {theirs or 'none'}",
        position=f"{known.file}:{known.position}",
    )


class MissingTransactions:
    """Wait for transactions of the journal that the source lacks, with a limit. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._since: float | None = None

    def check(self, known: JournalEnd, server: ServerFacts, theirs: str, now: float) -> None:
        """Compare the journal with the GTIDs of the source; call it at each attempt to connect.

        Raises `SourceLost` while the source may still get the transactions, then `RelayError` (gtid_gap).
        """
        missing = missing_transactions(known, server, theirs)
        if missing is None:
            self._since = None
            return
        self._since = self._since or now
        if now - self._since > (LACKING_SECONDS if known.identity == server.identity else BEHIND_SECONDS):
            raise missing
        raise SourceLost(str(missing))


def common_position(gtid_set: str, identity: str, server: ServerFacts, end: BinlogStatus) -> BinlogStatus:
    """Where to resume after it is accepted that the source lacks transactions of the journal.

    On another server than the journal was read from, after the transactions that both have, so that its own are read.
    Transactions that it lacks come again if it receives them later. On the same server, at the end of its binlog.
    """
    if identity == server.identity or identity.partition(":")[0] != server.flavor or not server.has_gtids:
        return end
    both = GtidSet(gtid_set) & GtidSet(end.gtid_set)
    return BinlogStatus("", FIRST_POSITION, str(both)) if both else end


def plan(known: JournalEnd, server: ServerFacts, low: LowPosition) -> Start:
    """Decide where to resume. Raises `RelayError` (wrong_source).

    On the source that the journal was read from, the stream resumes by file and position. On another one, it resumes
    only by GTID, and only within one flavor. COM_BINLOG_DUMP cannot request a position beyond 4 GiB. For those,
    COM_BINLOG_DUMP_GTID (MySQL) or a GTID position (MariaDB) is used; if neither is possible, the file is read again
    from `low`.
    """
    gtids = server.has_gtids and bool(known.gtid_set) and known.gtid_possible
    if known.identity == server.identity and known.file:
        if known.position <= SHORT_POSITION:
            return Start(False, known.file, known.position, known.gtid_set)
        if gtids and not (server.mariadb and server.release >= _INDEXED_SINCE):
            file, position = ("", FIRST_POSITION) if server.mariadb else (known.file, known.position)
            return Start(True, file, position, known.gtid_set)
        end = f"{known.file}:{known.position}"
        return Start(False, known.file, low.in_file(known.file), known.gtid_set, known_until=end)
    moved = known.identity != server.identity
    if gtids and known.identity.partition(":")[0] == server.flavor:
        return Start(True, "", FIRST_POSITION, known.gtid_set, moved)
    lacking = (
        "without GTID sets of both, the position is not valid there"
        if known.gtid_possible
        else "a GTID position of MariaDB cannot exclude a prepared transaction that is still to be read"
    )
    raise RelayError(
        StopCode.WRONG_SOURCE,
        "resume the binlog",
        f"the journal comes from {known.identity}, this is {server.identity}, and {lacking}",
        position=f"{known.file}:{known.position}",
    )
