"""A child's side of the fork: signals, its tie to the supervisor, and what its end means."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from relay import diskstops
from relay.context import BrokerContext, Context, ReaderContext, StreamsContext
from relay.errors import ErrorCode, ExitCode, RelayError
from relay.privileges import PRIVATE

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def become(context: Context, supervisor: int, run: Callable[[], int]) -> int:
    """Turns the process just forked by `supervisor` (a pid) into the child that `context` names, and runs it.

    Returns its exit code: 0 when asked to stop, STOPPED after a named stop, which is shown by then.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # it died before the tie was made
        return ExitCode.UNEXPECTED

    def stop(_signal: int, _frame: FrameType | None) -> None:
        context.stopping = True

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the supervisor decides
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    if context.private:
        os.umask(PRIVATE)
    gc.freeze()  # what was there before the fork stays: no collection looks at it, or copies its pages by marking it
    wake_gently()
    context.begin()
    try:
        return run()
    except RelayError as error:
        context.log("failed", code=error.code, error=error, hint=error.hint)
        context.failed(error)
        return error.exit_code
    except Exception as error:
        file = "cdc.db" if isinstance(context, StreamsContext) else "state.db"
        stops = isinstance(context, (ReaderContext, BrokerContext, StreamsContext))
        disk = diskstops.named(error, file) if stops else None
        if disk is not None:
            context.log("failed", code=disk.code, error=disk, hint=disk.hint)
            context.failed(disk)
            return disk.exit_code
        context.log("crashed", code=ErrorCode.UNEXPECTED, error=repr(error), traceback=traceback.format_exc())
        context.failed(RelayError(ErrorCode.UNEXPECTED, "run", repr(error)))
        return ExitCode.UNEXPECTED


def wake_gently() -> None:
    """Has this thread, and those it begins, wait when woken: for an idle processor, or a turn of their own.

    Processes that hand one another small pieces on few cores otherwise interrupt each other, and the source, for each
    of them; so they collect, and are worked through together. A policy or precedence that somebody chose is kept.
    """
    if os.sched_getscheduler(0) == os.SCHED_OTHER and os.getpriority(os.PRIO_PROCESS, 0) >= 0:
        with suppress(OSError):  # where that is forbidden, it competes as others do
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
