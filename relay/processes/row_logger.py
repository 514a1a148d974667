"""The logger process: keeps the log of `[Logger]` caught up with the journal.

This module has the loop and its I/O; the log itself is in relay/linelog/linelog.py. A fatal error here is shown, and
stops no other process.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from relay.base import timezone
from relay.base.errors import ErrorCode, RelayError
from relay.config.tree import Config
from relay.datadir.lockfile import locked
from relay.linelog.linelog import LineLog, Progress, Settings
from relay.linelog.zone import Zone
from relay.runtime.context import SideContext
from relay.runtime.process_status import LogStatus

LOCK: Final = ".relaylogs.lock"
IDLE_SECONDS: Final = 0.2  # between checks of a journal without news
END_SECONDS: Final = 2.0  # for logging the rest at a stop


def run(context: SideContext) -> int:
    """Log until it must stop, then the rest that is flushed. Raises errors, also fatal ones, as `RelayError`."""
    context.arena.mark_running(context.slot)
    context.status = _previous_status(context)
    context.report("starting")
    if not context.await_journal():
        return 0
    folder = Path(context.config.logger.path)
    try:
        with locked(folder / LOCK, lambda pid: _refusal(folder, pid)):
            _log(context)
    except OSError as error:
        raise RelayError(ErrorCode.LOG_STORAGE, "lock the log", error, position=str(folder)) from error
    return 0


def _log(context: SideContext) -> None:
    log = LineLog(context.journal_dir, _settings(context.config, context.accept_gap), context.log)
    while not context.stopping:
        progress = log.step()
        _report(context, progress)
        if progress.caught_up:
            time.sleep(IDLE_SECONDS)
    deadline = time.monotonic() + END_SECONDS
    while not log.step().caught_up and time.monotonic() < deadline:
        context.beat()
    _report(context, log.finish())


def _previous_status(context: SideContext) -> LogStatus:
    """Return the last status of the process before: it stays until this process has its own."""
    status = context.status_page.decode(LogStatus)
    status.behind_since = status.behind_since or status.at
    status.lines = status.bytes = 0
    return status


def _refusal(folder: Path, pid: str) -> RelayError:
    hint = "give each relay its own folder: Path in [Logger]"
    return RelayError(ErrorCode.LOG_STORAGE, "lock the log", f"process {pid} holds it", position=str(folder), hint=hint)


def _settings(config: Config, accept_gap: bool) -> Settings:
    """Return the settings of the log. Also set the process's zone to that of TIMESTAMP values."""
    logger = config.logger
    zone = Zone(logger.time_zone)
    timezone.set_process_zone(config.relay.time_zone)
    return Settings(
        path=logger.path,
        schemas=logger.schema,
        excludes=logger.excludes,
        form=logger.format,
        zone=zone,
        rotate_bytes=logger.rotate_bytes,
        keep_seconds=logger.keep_for,
        utc=config.relay.time_zone == "UTC",
        positional=config.relay.on_unproven == "positional",
        accept_gap=accept_gap,
    )


def _report(context: SideContext, progress: Progress) -> None:
    """Publish progress for the supervisor, for retention, and in the status."""
    context.beat()
    context.arena.logged = progress.committed
    status = context.status
    assert isinstance(status, LogStatus)
    status.position, status.file, status.offset = progress.covered, progress.file, progress.offset
    status.log_file, status.lines, status.bytes = progress.log_file, progress.lines, progress.bytes
    status.behind_since = progress.behind_since
    context.report("following" if progress.caught_up else "catching up")
