"""What tests of the lake begin with: an empty lake, and a journal made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.lake.storage import Storage, open_storage
from tests.support.exported_lake import Lake
from tests.support.journal_builder import Made


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "lake"))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "journal")
