"""The logger process: keeps the log of `[Logger]` level with the journal.

A loop and its I/O; the log itself is relay/linelog/linelog.py. What stops it is shown, and stops nothing else.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from relay.board import LogStatus, log_status
from relay.config import Config
from relay.context import AsideContext
from relay.errors import ErrorCode, RelayError
from relay.linelog.linelog import LineLog, Progress, Settings
from relay.linelog.zone import Zone
from relay.lockfile import held
from relay.serving import timezone

LOCK: Final = ".relaylogs.lock"
IDLE_SECONDS: Final = 0.2  # between looks at a journal in which nothing is new
END_SECONDS: Final = 2.0  # that logging what is left may take when told to stop


def run(context: AsideContext) -> int:
    """Logs until told to stop, then what is flushed by then. Errors and named stops leave as `RelayError`."""
    context.arena.mark_running(context.slot)
    context.status = _last_words(context)
    context.report("starting")
    if not context.await_journal():
        return 0
    folder = Path(context.config.logger.path)
    try:
        with held(folder / LOCK, lambda pid: _refusal(folder, pid)):
            _log(context)
    except OSError as error:
        raise RelayError(ErrorCode.LOG_STORAGE, "lock the log", error, position=str(folder)) from error
    return 0


def _log(context: AsideContext) -> None:
    log = LineLog(context.journal_dir, _settings(context.config, context.accept_gap), context.log)
    while not context.stopping:
        progress = log.step()
        _tell(context, progress)
        if progress.level:
            time.sleep(IDLE_SECONDS)
    deadline = time.monotonic() + END_SECONDS
    while not log.step().level and time.monotonic() < deadline:
        context.beat()
    _tell(context, log.finish())


def _last_words(context: AsideContext) -> LogStatus:
    """What a predecessor said last holds until this process has something to say."""
    status = log_status(context.board)
    status.behind_since = status.behind_since or status.at
    status.lines = status.bytes = 0
    return status


def _refusal(folder: Path, pid: str) -> RelayError:
    hint = "give each relay a folder of its own: Path in [Logger]"
    return RelayError(ErrorCode.LOG_STORAGE, "lock the log", f"process {pid} holds it", position=str(folder), hint=hint)


def _settings(config: Config, accept_gap: bool) -> Settings:
    """Also makes the zone of TIMESTAMP values the process's."""
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


def _tell(context: AsideContext, progress: Progress) -> None:
    """Lets the supervisor, retention and people know."""
    context.beat()
    context.arena.logged = progress.committed
    status = context.status
    assert isinstance(status, LogStatus)
    status.position, status.file, status.offset = progress.covered, progress.file, progress.offset
    status.log_file, status.lines, status.bytes = progress.log_file, progress.lines, progress.bytes
    status.behind_since = progress.behind_since
    context.report("following" if progress.level else "catching up")
