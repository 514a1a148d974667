"""Where a stream goes on, and whether it may: from what the journal holds and what the source says of itself."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from relay._native import GtidSet
from relay.binlog.catalog import Catalog
from relay.binlog.commands import FIRST_POSITION, SHORT_POSITION
from relay.binlog.facts import BinlogStatus, ServerFacts
from relay.binlog.place import Place
from relay.errors import RelayError, StopCode

_FILE_AND_POSITION: Final = re.compile(r"(?P<file>[^\s,:/]+):(?P<position>\d+)")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


_NARROW_INDEX: Final = (11, 4)
"""MariaDB finds a GTID by an index since then; asked for one beyond 4 GiB, 11.8.6 reads at its place modulo 4 GiB."""


class Known(NamedTuple):
    """What the journal says: the place after its last transaction, the GTIDs received, and of which source.

    Not `gtid_possible`: a GTID set cannot tell what is missing (of MariaDB, while a transaction is prepared).
    """

    file: str
    position: int
    gtid_set: str
    identity: str
    gtid_possible: bool = True


class Start(NamedTuple):
    """Where to ask for the stream. `moved`: it is another server than the journal's last.

    By GTID a file and position may go with it, where the source takes both (MySQL). `again` is the place up to which
    all that comes is known, if the stream can only be asked for from far before it.
    """

    by_gtid: bool
    file: str
    position: int
    gtid_set: str
    moved: bool = False
    again: str = ""


class LowPlace:
    """The last place in a binlog file that COM_BINLOG_DUMP can ask for, kept once the stream has gone beyond it."""

    _KEY: Final = "low_place"

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._last = self._kept = Place("", 0)

    def passed(self, done: Place, here: Place) -> None:
        """The stream has come to `here`, the last transaction ended at `done`."""
        if done.position <= SHORT_POSITION:
            self._last = done
        if here.position > SHORT_POSITION and here.file == self._last.file and self._last != self._kept:
            self._catalog.put(self._KEY, str(self._last))
            self._kept = self._last

    def of(self, file: str) -> int:
        """A position of the file at which a transaction begins; 4, its beginning, if none other is known."""
        kept, _, position = self._catalog.get(self._KEY).rpartition(":")
        return int(position) if kept == file else FIRST_POSITION


def spelled_out(start_position: str) -> BinlogStatus:
    """The place of a `StartPosition` that is FILE:POS or a GTID set, which has no file."""
    place = _FILE_AND_POSITION.fullmatch(start_position)
    # uuid:1 looks like a file and position too, but no file is named by a uuid.
    if place and not _UUID.fullmatch(place["file"]):
        return BinlogStatus(place["file"], int(place["position"]))
    return BinlogStatus("", FIRST_POSITION, start_position)


def missing(known: Known, server: ServerFacts, theirs: str) -> RelayError | None:
    """The stop, if the source, whose transactions so far are `theirs`, does not have all that the journal holds.

    Where the journal was read from it: its binlog was begun anew, or it lost its end in a crash, and a position in it
    may mean something else by now. Another server, which is to go on by GTID: it has not replicated that yet, or never
    will, and what it writes instead would follow on rows that it does not have.
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


def shared(gtid_set: str, identity: str, server: ServerFacts, end: BinlogStatus) -> BinlogStatus:
    """Where to go on at a source that lacks what the journal holds, once that is accepted.

    At another server than the journal was read from: after the transactions that both have, so that what it wrote
    instead is read. What it lacks comes again if it gets it after all. Else at its end.
    """
    if identity == server.identity or identity.partition(":")[0] != server.flavor or not server.has_gtids:
        return end
    both = GtidSet(gtid_set) & GtidSet(end.gtid_set)
    return BinlogStatus("", FIRST_POSITION, str(both)) if both else end


def plan(known: Known, server: ServerFacts, low: LowPlace) -> Start:
    """Where to go on. Raises `RelayError` (wrong_source).

    On the source that the journal was read from, by file and position; on another only by GTID, and only within one
    flavor. COM_BINLOG_DUMP carries no position beyond 4 GiB: there COM_BINLOG_DUMP_GTID (MySQL) or a GTID position
    (MariaDB) does it, and where those do not the file is read again from `low`.
    """
    gtids = server.has_gtids and bool(known.gtid_set) and known.gtid_possible
    if known.identity == server.identity and known.file:
        if known.position <= SHORT_POSITION:
            return Start(False, known.file, known.position, known.gtid_set)
        if gtids and not (server.mariadb and server.release >= _NARROW_INDEX):
            file, position = ("", FIRST_POSITION) if server.mariadb else (known.file, known.position)
            return Start(True, file, position, known.gtid_set)
        return Start(False, known.file, low.of(known.file), known.gtid_set, again=f"{known.file}:{known.position}")
    moved = known.identity != server.identity
    if gtids and known.identity.partition(":")[0] == server.flavor:
        return Start(True, "", FIRST_POSITION, known.gtid_set, moved)
    lacking = (
        "without a GTID set of both a position means nothing there"
        if known.gtid_possible
        else "a GTID position of MariaDB cannot leave out a transaction that was prepared and is yet to be read"
    )
    raise RelayError(
        StopCode.WRONG_SOURCE,
        "resume the binlog",
        f"the journal was read from {known.identity}, this is {server.identity}, and {lacking}",
        position=f"{known.file}:{known.position}",
    )
