"""The line that most tests of queues need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.queue_line import Line


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path)
