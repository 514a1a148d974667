"""The journal and the folder that most tests of the log need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.journal_builder import Made


@pytest.fixture
def made(tmp_path: Path) -> Made:
    (tmp_path / "journal").mkdir()
    return Made(tmp_path / "journal")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path / "log"
