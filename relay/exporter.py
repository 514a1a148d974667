"""The exporter process: keeps the lake level with the journal.

A loop and its I/O; the export itself is relay/lake/exporter.py. pyarrow is an extra and brings threads: it is imported
here after the fork, and where it is missing that is shown, and the relay goes on without a lake.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from relay.binlog.reading import rules
from relay.board import ExportStatus, export_status
from relay.context import AsideContext

if TYPE_CHECKING:
    from relay.lake.exporter import Exporter, Progress

IDLE_SECONDS: Final = 0.2  # between looks at a journal in which nothing is new
END_SECONDS: Final = 2.0  # that reading what is left may take when told to stop; what is read is sealed and committed


def run(context: AsideContext) -> int:
    """Exports until told to stop, then what is flushed by then. Errors and named stops leave as `RelayError`."""
    context.arena.mark_running(context.slot)
    context.status = _last_words(context)
    context.report("starting")
    if not context.await_journal():
        return 0
    exporter = _open(context)
    if exporter.left_out:
        context.log("left_out", tables=", ".join(map(str, exporter.left_out)), hint="they are not whole any more")
    while not context.stopping:
        progress = exporter.step(roll=context.arena.draining)
        _tell(context, progress)
        if progress.level:
            time.sleep(IDLE_SECONDS)
    deadline = time.monotonic() + END_SECONDS
    progress = exporter.step()
    while not progress.level and time.monotonic() < deadline:
        progress = exporter.step()
    _tell(context, exporter.finish())
    return 0


def _last_words(context: AsideContext) -> ExportStatus:
    """What a predecessor said last holds until this process has something to say: where the lake is, why it stopped."""
    status = export_status(context.board)
    status.behind_since = status.behind_since or status.at
    status.rows = status.files = 0
    return status


def _open(context: AsideContext) -> Exporter:
    from relay.lake.exporter import Exporter, Settings
    from relay.lake.storage import open_storage

    lake = context.config.lake
    positional = context.config.relay.on_unproven == "positional"
    journaled = rules(context.config)
    settings = Settings(lake.tables, lake.roll_seconds, lake.roll_bytes, context.accept_gap, positional, journaled)
    return Exporter(open_storage(lake.path), context.journal_dir, settings, context.beat)


def _tell(context: AsideContext, progress: Progress) -> None:
    """Lets the supervisor, retention and people know."""
    context.beat()
    context.arena.exported = progress.place.position
    status = context.status
    assert isinstance(status, ExportStatus)
    place = progress.place
    status.seq, status.position, status.file, status.offset = place.seq, progress.covered, place.file, place.offset
    status.behind_since = progress.behind_since
    status.rows, status.files = progress.written, progress.files
    context.report("following" if progress.level else "catching up")
