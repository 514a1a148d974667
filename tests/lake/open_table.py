"""A made lake with the table ORDERS, its merges into open tables, and their rows as another engine reads them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from relay.lake.delta import log as delta_log
from relay.lake.delta import merge as delta_merge
from relay.lake.delta import table as delta_table
from relay.lake.delta import windows
from relay.lake.delta.table import Merged, OpenTable, folder_of
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from tests.spark.lakes import MadeLake
from tests.support.engines import with_deltalake

ORDERS = "shop.orders"


@pytest.fixture
def lake(tmp_path: Path) -> MadeLake:
    """A lake with the table ORDERS, empty."""
    made = MadeLake(tmp_path / "lake")
    made.define(ORDERS, {"id": "int", "item": "string"}, key=["id"])
    made.mark(ORDERS, "create")
    made.commit()
    return made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files and windows, and many checkpoints: what large tables have."""
    monkeypatch.setattr(delta_merge, "_LEAST_BYTES", 900)
    monkeypatch.setattr(delta_merge, "TARGET_BYTES", 4000)
    monkeypatch.setattr(delta_log, "CHECKPOINT_COMMITS", 4)
    monkeypatch.setattr(delta_table, "windows", lambda files, start, end: windows.windows(files, start, end, 3000))


def row(number: int, item: str | None) -> dict[str, Any]:
    return {"id": number, "item": item}


def opened(lake: MadeLake, table: str = ORDERS) -> OpenTable:
    return OpenTable(open_storage(lake.url), Table(*table.split(".")))


def merged(lake: MadeLake, table: OpenTable | None = None, name: str = ORDERS) -> Merged | None:
    """Bring a table up to the lake, by default with a new process's view of it."""
    table = table or opened(lake, name)
    state = LakeLog(open_storage(lake.url)).state()
    return table.update(state, state.tables[name])


def path_of(lake: MadeLake, table: str = ORDERS) -> str:
    return str(lake.root / folder_of(Table(*table.split("."))))


def rows(lake: MadeLake, table: str = ORDERS) -> Counter[str]:
    """The rows as another engine reads them."""
    columns = with_deltalake(path_of(lake, table))
    return bag([dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)])


def bag(expected: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, expected))
