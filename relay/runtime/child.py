"""A child's side of the fork: signals, its tie to the supervisor, and its exit codes."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from relay._native import scheduling_policy, set_scheduling_policy
from relay.base.errors import ErrorCode, ExitCode, RelayError
from relay.base.log import Log
from relay.datadir import disk_errors
from relay.runtime.context import BrokerContext, Context, ReaderContext, StateWriterContext, StreamsContext
from relay.runtime.privileges import PRIVATE

_PR_SET_PDEATHSIG = 1
_MOST_KILLS = 5  # of a process that does some work
_libc = ctypes.CDLL(None, use_errno=True)


def fork_child(context: Context, run: Callable[[], int]) -> int:
    """Fork a child that becomes what `context` describes and calls `run`. Return its pid.

    Its exit code is 0 if it ended after SIGTERM, STOPPED after a fatal error, which it has already reported.
    """
    supervisor = os.getpid()
    # This process's handler would swallow a SIGTERM that comes before the child has its own.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid == 0:
        code: int = ExitCode.UNEXPECTED
        try:
            code = _run(context, supervisor, run)
        finally:
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _run(context: Context, supervisor: int, run: Callable[[], int]) -> int:
    if not tie_to(supervisor):
        return ExitCode.UNEXPECTED

    def stop(_signal: int, _frame: FrameType | None) -> None:
        context.stopping = True

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the supervisor handles it
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    if context.private:
        os.umask(PRIVATE)
    gc.freeze()  # the garbage collector would write to objects from before the fork, and so copy their pages
    try:
        schedule_as_batch()
        context.begin()
        return run()
    except Exception as error:
        failure = error if isinstance(error, RelayError) else _disk_failure(context, error)
        if failure is not None:
            context.log("failed", code=failure.code, error=failure, hint=failure.hint)
            context.failed(failure)
            return failure.exit_code
        context.log("crashed", code=ErrorCode.UNEXPECTED, error=repr(error), traceback=traceback.format_exc())
        context.failed(RelayError(ErrorCode.UNEXPECTED, "run", repr(error)))
        return ExitCode.UNEXPECTED


def _disk_failure(context: Context, error: Exception) -> RelayError | None:
    """Return the fatal error for an error of the disk, in a process that stops because of it."""
    stops = isinstance(context, (ReaderContext, BrokerContext, StateWriterContext, StreamsContext))
    file = "cdc.db" if isinstance(context, StreamsContext) else "state.db"
    return disk_errors.fatal_error(error, file) if stops else None


def succeeds_in_child(work: Callable[[], None], log: Log) -> bool:
    """Whether `work` succeeds in a forked process, which an unreadable page of the journal may kill.

    After a SIGKILL, which comes from outside, another process does it again.
    """
    for _ in range(_MOST_KILLS):
        status = _status_in_child(work, log)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            return status == 0
    return False


def _status_in_child(work: Callable[[], None], log: Log) -> int:
    supervisor, pid = os.getpid(), os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    try:
        if tie_to(supervisor):
            work()
            os._exit(ExitCode.OK)
    except RelayError as error:
        log("failed", code=error.code, error=error, hint=error.hint)
    finally:
        os._exit(ExitCode.UNEXPECTED)


def tie_to(supervisor: int) -> bool:
    """Make this process, just forked by `supervisor` (a pid), die with it. False if the supervisor is already dead."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == supervisor


def schedule_as_batch() -> None:
    """Make this thread, and the threads that it starts, wait for an idle processor or their turn when they are woken.

    Otherwise, processes that pass small pieces of work to each other on few cores interrupt each other and the source
    for each piece. With this policy, several pieces are processed together. A policy or priority that was set is kept.
    """
    if scheduling_policy() == os.SCHED_OTHER and os.getpriority(os.PRIO_PROCESS, 0) >= 0:
        with suppress(OSError):  # if this is forbidden, it competes like other processes
            set_scheduling_policy(os.SCHED_BATCH)
