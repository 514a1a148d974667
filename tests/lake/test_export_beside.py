"""An export beside snapshots and compaction: their commits are kept and do not disturb the export."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from relay.journal.frames import Definition
from relay.lake import types
from relay.lake.documents import Field, Table, TableVersion
from relay.lake.exporter import Exporter, Settings
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from tests.support.exported_lake import Lake, changes, export
from tests.support.journal_builder import ID, NAME, Made, definition

TABLE = Table("shop", "t")


def as_the_export_makes_it() -> TableVersion:
    fields, key = types.fields_of(msgspec.msgpack.decode(definition(ID, NAME), type=Definition))
    return types.evolve([], TABLE, fields, key)


def with_another_column() -> TableVersion:
    first = as_the_export_makes_it()
    return TableVersion(TABLE, 1, 1, [*first.fields, Field("later", "int", "later", "int")], first.key)


@pytest.mark.parametrize(
    ("make", "version"), [(as_the_export_makes_it, 1), (with_another_column, 2)], ids=["the same", "another"]
)
def test_a_version_that_a_snapshot_made_first_is_the_tables(
    made: Made, lake: Lake, make: Callable[[], TableVersion], version: int
) -> None:
    made.flush()
    exporter = Exporter(open_storage(str(lake.folder)), made.folder, Settings(roll_seconds=3600))
    exporter.step()
    made.inserted(1, 2)
    made.flush()
    assert exporter.step().rows == 2 and lake.state().tables == {}, "read, and not yet due"
    made.inserted(3)
    made.flush()
    log = LakeLog(open_storage(str(lake.folder)))
    log.state()
    log.commit("snapshot", versions=[make()])
    export(exporter)
    assert changes(lake.rows("shop", "t"), "id", "_schema_version") == [
        ("insert", number, version) for number in (1, 2, 3)
    ]
    assert len(lake.table("shop", "t").versions) == version
    assert set(lake.sequences().values()) == {1}
    lake.check()


def test_a_compaction_between_two_commits_is_kept(made: Made, lake: Lake) -> None:
    made.inserted(1)
    made.flush()
    exporter = Exporter(open_storage(str(lake.folder)), made.folder, Settings(roll_seconds=3600))
    exporter.step()
    made.inserted(2)
    made.flush()
    exporter.step()
    [file] = lake.table("shop", "t").files.values()
    log = LakeLog(open_storage(str(lake.folder)))
    log.state()
    copy = msgspec.structs.replace(file, path=file.path.replace(".parquet", "-c1.parquet"))
    (lake.folder / copy.path).write_bytes((lake.folder / file.path).read_bytes())
    log.commit("compact", add=[copy], remove=[file.path])
    exporter.finish()
    assert [row["id"] for row in lake.rows("shop", "t")] == [1, 2]
    assert file.path not in lake.table("shop", "t").files
