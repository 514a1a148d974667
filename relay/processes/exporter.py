"""The exporter process: keeps the lake caught up with the journal.

This module has the loop and its I/O; the export itself is in relay/lake/exporter.py. pyarrow is an optional dependency
and starts threads, so it is imported here after the fork. If it is missing, that is shown, and the relay continues
without a lake.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from relay.ingest.reading import rules
from relay.runtime.context import SideContext
from relay.runtime.process_status import ExportStatus

if TYPE_CHECKING:
    from relay.lake.exporter import Exporter, Progress

IDLE_SECONDS: Final = 0.2  # between checks of a journal without news
END_SECONDS: Final = 2.0  # for reading the rest at a stop; what was read is sealed and committed


def run(context: SideContext) -> int:
    """Export until it must stop, then the rest that is flushed. Raises errors, also fatal ones, as `RelayError`."""
    context.arena.mark_running(context.slot)
    context.status = _previous_status(context)
    context.report("starting")
    if not context.await_journal():
        return 0
    exporter = _open(context)
    if exporter.left_out:
        context.log("left_out", tables=", ".join(map(str, exporter.left_out)), hint="they are no longer complete")
    while not context.stopping:
        progress = exporter.step(roll=context.arena.draining)
        _report(context, progress)
        if progress.caught_up:
            time.sleep(IDLE_SECONDS)
    deadline = time.monotonic() + END_SECONDS
    progress = exporter.step()
    while not progress.caught_up and time.monotonic() < deadline:
        progress = exporter.step()
    _report(context, exporter.finish())
    return 0


def _previous_status(context: SideContext) -> ExportStatus:
    """Return the last status of the process before, with position and fatal error.

    It stays until this process has its own.
    """
    status = context.status_page.decode(ExportStatus)
    status.behind_since = status.behind_since or status.at
    status.rows = status.files = 0
    return status


def _open(context: SideContext) -> Exporter:
    from relay.lake.exporter import Exporter, Settings
    from relay.lake.storage import open_storage

    lake = context.config.lake
    positional = context.config.relay.on_unproven == "positional"
    journaled = rules(context.config)
    seconds = lake.roll_seconds if lake.open_tables == "none" else min(lake.roll_seconds, lake.merge_seconds)
    settings = Settings(lake.tables, seconds, lake.roll_bytes, context.accept_gap, positional, journaled)
    return Exporter(open_storage(lake.path), context.journal_dir, settings, context.beat)


def _report(context: SideContext, progress: Progress) -> None:
    """Publish progress for the supervisor, for retention, and in the status."""
    context.beat()
    context.arena.exported = progress.place.position
    status = context.status
    assert isinstance(status, ExportStatus)
    place = progress.place
    status.seq, status.position, status.file, status.offset = place.seq, progress.covered, place.file, place.offset
    status.behind_since = progress.behind_since
    status.rows, status.files = progress.written, progress.files
    context.report("following" if progress.caught_up else "catching up")
