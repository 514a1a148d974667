"""Work that the supervisor has done by another process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from relay.base.log import logger
from relay.runtime.child import succeeds_in_child


@pytest.mark.parametrize(
    ("killed", "by", "succeeds", "tries"),
    [
        (0, signal.SIGKILL, True, 1),
        (1, signal.SIGKILL, True, 2),
        (99, signal.SIGKILL, False, 5),
        (1, signal.SIGBUS, False, 1),
    ],
)
def test_work_is_done_again_after_a_sigkill(
    tmp_path: Path, killed: int, by: signal.Signals, succeeds: bool, tries: int
) -> None:
    tried = tmp_path / "tried"

    def work() -> None:
        with tried.open("a") as file:
            file.write("x")
        if tried.stat().st_size <= killed:
            os.kill(os.getpid(), by)

    assert succeeds_in_child(work, logger("test")) is succeeds
    assert tried.stat().st_size == tries
