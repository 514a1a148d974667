"""The writer that most tests of the journal need."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay._native import JournalWriter
from tests.support.written_journal import SEGMENT


@pytest.fixture
def writer(tmp_path: Path) -> JournalWriter:
    return JournalWriter(tmp_path, SEGMENT)
