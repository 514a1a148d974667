"""`relay repair`: survey the journal of a relay that does not run, and mend what the source still has."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from relay.binlog.catalog import Catalog
from relay.config import Config
from relay.errors import ErrorCode, RelayError, StopCode
from relay.journal import frames
from relay.lockfile import held
from relay.log import Log
from relay.queues.state import ClientState
from relay.repair.layout import Layout, Misfit
from relay.repair.parts import HEADER, Mark, Segment, blank, frame_size, segments
from relay.repair.reread import reread
from relay.repair.survey import Damage, Survey, last_boundary

_OPERATION = "repair the journal"
_RESTORE = "restore DataDir, or move it away and start anew"


class Finding(NamedTuple):
    """A damage in words, and what became of it: `mended` bytes, or the reason why it is not mended."""

    text: str
    mended: int = 0
    failure: RelayError | None = None

    @property
    def hint(self) -> str:
        """What to do about it, "" if it is mended."""
        return self.failure.hint if self.failure else ""

    def __str__(self) -> str:
        """Its lines."""
        if self.failure:
            return f"{self.text}\n  not mended: {self.failure}\n  hint: {self.failure.hint}"
        return f"{self.text}\n  mended: {self.mended} bytes written anew" if self.mended else self.text


def run(
    config: Config, mend: bool, tell: Callable[[Finding], None], show: Callable[[float], None], log: Log
) -> list[Finding]:
    """Look for damage before what was flushed, `tell` of each, and unless only asked to look, mend it.

    `show` is called with the part that is done. Raises `RelayError`: already_running, journal_lost, and whatever keeps
    it from looking.
    """
    data_dir = Path(config.relay.data_dir)

    def running(pid: str) -> RelayError:
        cause, hint = f"process {pid} uses it", "stop the relay first: `relay stop`"
        return RelayError(ErrorCode.ALREADY_RUNNING, _OPERATION, cause, position=str(data_dir), hint=hint)

    with held(data_dir / "lock", running), ExitStack() as stack:
        parts = segments(data_dir / "journal")
        stack.callback(_close, parts)
        return _Repair(config, parts, mend, tell, log).run(show)


def _close(parts: list[Segment]) -> None:
    for part in parts:
        part.close()


class _Repair:
    def __init__(
        self, config: Config, parts: list[Segment], mend: bool, tell: Callable[[Finding], None], log: Log
    ) -> None:
        self._config = config
        self._parts = parts
        self._mend = mend
        self._tell = tell
        self._log = log
        self._found: list[Finding] = []

    def run(self, show: Callable[[float], None]) -> list[Finding]:
        lost = self._lost()
        if lost is not None and not self._mend:
            self._report(lost)
        limit = self._heads()
        first = self._parts[0].base
        survey = Survey(self._parts, limit, lambda position: show((position - first) / max(limit - first, 1)))
        for damage in survey.damages():
            self._report(self._one(damage))
        if lost is not None and self._mend:
            failed = self._found[-1].failure
            if failed:  # as before
                made = self._parts.pop()
                made.close()
                made.path.unlink()
            self._report(lost._replace(failure=failed, mended=0 if failed else HEADER))
        return self._found

    def _lost(self) -> Finding | None:
        """The newest file, if it is missing or empty though queues stand in it. To be mended, it is made."""
        config, last = self._config.relay, self._parts[-1]
        with closing(ClientState(Path(config.data_dir) / "state.db")) as state:
            reached = state.position()
        if reached <= last.end or not last.goes_on():
            return None
        folder = last.path.parent
        if self._mend:
            made = blank(folder, last.end, config.segment_bytes)
            made.write_head(self._generation(), self._parts[0].base, reached)
            self._parts.append(made)
        return Finding(f"{last.end:020d}.seg: the newest file of the journal is missing, or empty")

    def _report(self, finding: Finding) -> None:
        self._found.append(finding)
        self._tell(finding)

    def _heads(self) -> int:
        """Mend the segments' headers, which says all that is in them; up to where the journal is on disk."""
        heads = [part.head() for part in self._parts]
        known = next((head.generation for head in heads if head), 0)
        last = heads[-1]
        limit = last.flushed if last else last_boundary(self._parts[-1])
        for part, head in zip(self._parts, heads, strict=True):
            if head:
                continue
            text = f"{part.path.name}, offset 0: the header of the segment is damaged"
            if self._mend and part is self._parts[-1] and (limit == part.base or part.read(limit) is not Mark.END):
                cause = "it said how far the journal was on disk, and what is behind it does not tell"
                self._report(Finding(text, 0, RelayError(StopCode.JOURNAL_CORRUPT, _OPERATION, cause, hint=_RESTORE)))
                continue
            if self._mend:
                # What was flushed when it was made is not known; the journal's beginning is never wrong.
                part.write_head(
                    known or self._generation(), self._parts[0].base, limit if part is self._parts[-1] else 0
                )
            self._report(Finding(text, HEADER if self._mend else 0))
        return limit

    def _generation(self) -> int:
        catalog = Catalog(Path(self._config.relay.data_dir) / "state.db")
        try:
            return int(catalog.get("generation"))
        except ValueError:
            cause = "no header is whole, and state.db does not know the journal's id"
            raise RelayError(StopCode.JOURNAL_CORRUPT, _OPERATION, cause) from None
        finally:
            catalog.close()

    def _one(self, damage: Damage) -> Finding:
        segment = self._parts[damage.segment]
        before = damage.before
        text = (
            f"{segment.where(damage.start)} (journal position {damage.start}): damaged,"
            f" between {before.place} and transaction {damage.last}"
        )
        if not self._mend:
            return Finding(text)
        try:
            return Finding(text, self._mended(damage))
        except RelayError as error:
            return Finding(text, 0, error)

    def _mended(self, damage: Damage) -> int:
        """Bytes written. Raises `RelayError`."""
        before = damage.before
        if not before.certain or not before.place.file:
            cause = "what comes before it is not known: the journal begins within that transaction, or damaged"
            raise RelayError(StopCode.JOURNAL_CORRUPT, _OPERATION, cause)
        index = next(i for i, part in enumerate(self._parts) if part.end > before.position)
        with tempfile.TemporaryDirectory(dir=self._config.relay.data_dir, prefix="repair-") as folder:
            wanted = reread(self._config, damage.begin, before, damage.end, Path(folder), self._log)
        try:
            writes = Layout(self._parts, index, before, damage.end, damage.tables).fill(wanted)
            # The source does not tell where a definition stood that had yet to be proven. A file repeats known ones.
            known = self._definitions(damage.segment)
            if any(write.data[9] == 1 and not _repeats(write.data, known) for write in writes):
                raise Misfit("a definition stood here")
        except Misfit as misfit:
            raise RelayError(
                StopCode.JOURNAL_CORRUPT, _OPERATION, str(misfit),
                hint=_RESTORE,
            ) from None  # fmt: skip
        for write in writes:
            next(part for part in self._parts if part.base <= write.position < part.end).write(*write)
        return sum(len(write.data) for write in writes)

    def _definitions(self, segment: int) -> set[bytes]:
        """The definitions, proven where they stand, of the file before that one."""
        if not segment:
            return set()
        part = self._parts[segment - 1]
        position, found = part.first, set[bytes]()
        while isinstance(read := part.read(position), bytes):
            if isinstance(frame := frames.decode(read), frames.Table) and not frame.link:
                found.add(frame.definition)
            position += frame_size(len(read))
        return found


def _repeats(data: bytes, known: set[bytes]) -> bool:
    """Whether the frame of a definition is one of those that are known."""
    table = frames.decode(data[8 : 8 + int.from_bytes(data[:4], "little")])
    return isinstance(table, frames.Table) and not table.link and table.definition in known
