"""Runs functions in forks that may be killed."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable


def killed(arm: Callable[[], None], work: Callable[[], object]) -> bool:
    """Runs `work` in a fork, after `arm`, which arranges its death at some moment. False: the work ended before."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            arm()
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, how = os.waitpid(pid, 0)
    if os.WIFSIGNALED(how):
        assert os.WTERMSIG(how) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(how) == 0, "the work failed"
    return False
