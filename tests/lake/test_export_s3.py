"""The export to an object store: the same lake, through the same commits."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet

from relay.lake.exporter import Exporter, Progress, Settings
from relay.lake.log import LakeLog, verify
from relay.lake.storage import open_storage
from tests.lake.test_lake_storage import s3, s3_server
from tests.support import exported_lake
from tests.support.journal_builder import Made
from tests.support.s3_server import S3Server

__all__ = ["s3", "s3_server"]
LAKE = "s3://bucket/some/lake"


def export(made: Made) -> Progress:
    made.flush()
    return exported_lake.export(Exporter(open_storage(LAKE), made.folder, Settings()))


def test_a_lake_in_an_object_store_goes_on_and_is_whole(tmp_path: Path, s3: S3Server) -> None:
    made = Made(tmp_path / "journal")
    made.inserted(1, 2)
    export(made)
    made.inserted(3)
    assert export(made).written == 1
    storage = open_storage(LAKE)
    state = LakeLog(storage).state()
    assert verify(storage, state) == []
    [table] = state.tables.values()
    found = [
        number
        for path in sorted(table.files)
        for number in pyarrow.parquet.read_table(storage.arrow_source(path))["id"].to_pylist()
    ]
    assert found == [1, 2, 3]
