"""`relay repair`: surveys the journal of a stopped relay, and repairs what the source still has."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from relay.base.errors import ErrorCode, RelayError, StopCode
from relay.base.log import Log
from relay.config.tree import Config
from relay.datadir.lockfile import locked
from relay.ingest.reader_state import ReaderState
from relay.journal import frames
from relay.queues.state import ClientState
from relay.repair.layout import Layout, Mismatch
from relay.repair.parts import HEADER, Mark, Segment, create_segment, frame_size, segments
from relay.repair.reread import reread
from relay.repair.survey import Damage, Survey, last_boundary

_OPERATION = "repair the journal"
_RESTORE = "restore DataDir, or move it away and start again"


class Finding(NamedTuple):
    """A damage as text, and the result: `written` bytes, or the reason why it is not repaired."""

    text: str
    written: int = 0
    failure: RelayError | None = None

    @property
    def hint(self) -> str:
        """The remedy, "" if it is repaired."""
        return self.failure.hint if self.failure else ""

    def __str__(self) -> str:
        """Return the lines of the report."""
        if self.failure:
            return f"{self.text}\n  not repaired: {self.failure}\n  hint: {self.failure.hint}"
        return f"{self.text}\n  repaired: {self.written} bytes rewritten" if self.written else self.text


def run(
    config: Config, repair: bool, report: Callable[[Finding], None], show: Callable[[float], None], log: Log
) -> list[Finding]:
    """Find damage in the flushed part, and repair it if `repair` is set.

    `report` is called with each finding, `show` with the finished fraction. Raises `RelayError`: already_running,
    journal_lost, and any error that prevents the survey.
    """
    data_dir = Path(config.relay.data_dir)

    def running(pid: str) -> RelayError:
        cause, hint = f"process {pid} uses it", "stop the relay first: `relay stop`"
        return RelayError(ErrorCode.ALREADY_RUNNING, _OPERATION, cause, position=str(data_dir), hint=hint)

    with locked(data_dir / "lock", running):
        parts = segments(data_dir / "journal")
        try:
            return _Repair(config, parts, repair, report, log).run(show)
        finally:
            for part in parts:
                part.close()


class _Repair:
    def __init__(
        self, config: Config, parts: list[Segment], repair: bool, report: Callable[[Finding], None], log: Log
    ) -> None:
        self._config = config
        self._parts = parts
        self._repairs = repair
        self._report = report
        self._log = log
        self._found: list[Finding] = []

    def run(self, show: Callable[[float], None]) -> list[Finding]:
        lost = self._missing_file()
        if lost is not None and not self._repairs:
            self._add(lost)
        limit = self._repair_heads()
        first = self._parts[0].base
        survey = Survey(self._parts, limit, lambda position: show((position - first) / max(limit - first, 1)))
        for damage in survey.damages():
            self._add(self._repair_damage(damage))
        if lost is not None and self._repairs:
            failed = self._found[-1].failure
            if failed:  # as before
                made = self._parts.pop()
                made.close()
                made.path.unlink()
            self._add(lost._replace(failure=failed, written=0 if failed else HEADER))
        return self._found

    def _missing_file(self) -> Finding | None:
        """Return the finding if the newest file is missing or empty although queues refer to it.

        A repair creates it.
        """
        config, last = self._config.relay, self._parts[-1]
        with closing(ClientState(Path(config.data_dir) / "state.db")) as state:
            reached = state.position()
        if reached <= last.end or not last.continues():
            return None
        folder = last.path.parent
        if self._repairs:
            made = create_segment(folder, last.end, config.segment_bytes)
            made.write_head(self._generation(), self._parts[0].base, reached)
            self._parts.append(made)
        return Finding(f"{last.end:020d}.seg: the newest file of the journal is missing or empty")

    def _add(self, finding: Finding) -> None:
        self._found.append(finding)
        self._report(finding)

    def _repair_heads(self) -> int:
        """Repair the segments' headers; return the position up to which the journal is on disk.

        The content of a header is known without the source.
        """
        heads = [part.head() for part in self._parts]
        known = next((head.generation for head in heads if head), 0)
        last = heads[-1]
        limit = last.flushed if last else last_boundary(self._parts[-1])
        for part, head in zip(self._parts, heads, strict=True):
            if head:
                continue
            text = f"{part.path.name}, offset 0: the header of the segment is damaged"
            if self._repairs and part is self._parts[-1] and (limit == part.base or part.read(limit) is not Mark.END):
                cause = "it had the end of the journal on disk, and the rest of the file does not show it"
                self._add(Finding(text, 0, RelayError(StopCode.JOURNAL_CORRUPT, _OPERATION, cause, hint=_RESTORE)))
                continue
            if self._repairs:
                # The flushed position at its creation is unknown; the journal's beginning is always right.
                part.write_head(
                    known or self._generation(), self._parts[0].base, limit if part is self._parts[-1] else 0
                )
            self._add(Finding(text, HEADER if self._repairs else 0))
        return limit

    def _generation(self) -> int:
        with closing(ReaderState(Path(self._config.relay.data_dir) / "state.db")) as reader_state:
            try:
                return int(reader_state.get("generation"))
            except ValueError:
                cause = "all headers are damaged, and state.db does not have the journal's id"
                raise RelayError(StopCode.JOURNAL_CORRUPT, _OPERATION, cause) from None

    def _repair_damage(self, damage: Damage) -> Finding:
        segment = self._parts[damage.segment]
        before = damage.before
        text = (
            f"{segment.where(damage.start)} (journal position {damage.start}): damaged,"
            f" between {before.binlog} and transaction {damage.last}"
        )
        if not self._repairs:
            return Finding(text)
        try:
            return Finding(text, self._rewrite(damage))
        except RelayError as error:
            return Finding(text, 0, error)

    def _rewrite(self, damage: Damage) -> int:
        """Repair a damage; return the bytes written. Raises `RelayError`."""
        before = damage.before
        if not before.certain or not before.binlog.file:
            cause = "the position before it is unknown: the journal begins within that transaction, or begins damaged"
            raise RelayError(StopCode.JOURNAL_CORRUPT, _OPERATION, cause)
        index = next(i for i, part in enumerate(self._parts) if part.end > before.position)
        with tempfile.TemporaryDirectory(dir=self._config.relay.data_dir, prefix="repair-") as folder:
            wanted = reread(self._config, damage.begin, before, damage.end, Path(folder), self._log)
        try:
            writes = Layout(self._parts, index, before, damage.end, damage.tables).fill(wanted)
            # The source does not show where an unproven definition was. So only a known one, as a new file repeats it,
            # may be written.
            known = self._definitions(damage.segment)
            if any(write.data[9] == 1 and not _repeats(write.data, known) for write in writes):
                raise Mismatch("a table definition was here")
        except Mismatch as mismatch:
            raise RelayError(StopCode.JOURNAL_CORRUPT, _OPERATION, str(mismatch), hint=_RESTORE) from None
        for write in writes:
            next(part for part in self._parts if part.base <= write.position < part.end).write(*write)
        return sum(len(write.data) for write in writes)

    def _definitions(self, segment: int) -> set[bytes]:
        """Return the definitions in the file before that one, except those that a later frame replaces."""
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
    """Whether the frame has a known definition."""
    table = frames.decode(data[8 : 8 + int.from_bytes(data[:4], "little")])
    return isinstance(table, frames.Table) and not table.link and table.definition in known
