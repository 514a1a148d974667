"""Lost parts of the journal are a fatal error of the export; if accepted, a gap in the log, with rising numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from relay.errors import RelayError
from relay.lake.exporter import Exporter, Progress, Settings
from relay.lake.storage import open_storage
from tests.support import exported_lake
from tests.support.exported_lake import Lake, changes
from tests.support.journal_builder import Made


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A journal in which t was created and has two rows."""
    journal = Made(tmp_path / "journal")
    journal.statement("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))")
    journal.inserted(1, 2)
    return journal


def export(made: Made, lake: Lake, *, accept_gap: bool = False) -> Progress:
    made.flush()
    settings = Settings(accept_gap=accept_gap)
    return exported_lake.export(Exporter(open_storage(str(lake.folder)), made.folder, settings))


def stopped(made: Made, lake: Lake) -> RelayError:
    """The stop that an export without leave ends in."""
    commits = lake.commits()
    with pytest.raises(RelayError) as error:
        export(made, lake)
    assert error.value.code == "journal_lost" and "--accept-gap" in error.value.hint
    assert lake.commits() == commits
    return error.value


def filled(made: Made, segments: int = 3) -> None:
    """Rows until the journal has that many more segments."""
    before = len(made.writer.segments())
    number = 1000
    while len(made.writer.segments()) < before + segments:
        number += 1
        made.rows(1, *[bytes([0]) + number.to_bytes(4, "little") + b"\x4f" + b"y" * 79] * 50)
        made.commit()
        made.flush()


def check(lake: Lake, *ids: int) -> None:
    """These inserts, in this order, with numbers that rise over all gaps."""
    rows = lake.rows("shop", "t")
    assert changes(rows, "id") == [("insert", number) for number in ids]
    sequences = [row["_seq"] for row in rows]
    assert sequences == sorted(set(sequences))
    lake.check()


def test_a_gap_that_the_journal_has_is_one_of_the_lake(made: Made, lake: Lake) -> None:
    export(made, lake)
    assert lake.table("shop", "t").complete_from is not None
    made.inserted(3)
    made.writer.gap(4, "binlog.000009", "the source purged it")
    made.inserted(4)
    export(made, lake)
    made.inserted(5)
    export(made, lake)
    check(lake, 1, 2, 3, 4, 5)
    [gap] = lake.state().gaps
    numbers = [row["_seq"] for row in lake.rows("shop", "t")]
    assert numbers[2] < gap.seq < numbers[3]
    assert gap.reason == "the source purged it"
    known = lake.table("shop", "t")
    assert known.complete_from is None and known.reset == gap.seq


def test_what_retention_took_is_a_stop_and_accepted_a_gap(made: Made, lake: Lake) -> None:
    export(made, lake)
    filled(made)
    made.writer.drop_before(made.writer.segments()[-1].base)
    assert "retention" in stopped(made, lake).cause
    made.inserted(7)
    export(made, lake, accept_gap=True)
    made.inserted(8)
    export(made, lake)
    rows = lake.rows("shop", "t")
    assert [row["id"] for row in rows if row["id"] < 1000] == [1, 2, 7, 8]
    [gap] = lake.state().gaps
    assert rows[1]["_seq"] < gap.seq < rows[2]["_seq"]
    assert lake.table("shop", "t").complete_from is None
    assert set(lake.sequences().values()) == {1}


def test_a_cut_under_a_running_export_is_the_same(made: Made, lake: Lake) -> None:
    made.flush()
    storage = open_storage(str(lake.folder))
    exporter = Exporter(storage, made.folder, Settings())
    exported_lake.export(exporter)
    filled(made)
    made.writer.drop_before(made.writer.segments()[-1].base)
    with pytest.raises(RelayError) as error:
        exporter.step()
    assert error.value.code == "journal_lost" and "--accept-gap" in error.value.hint
    accepting = Exporter(storage, made.folder, Settings(accept_gap=True))
    assert len(lake.state().gaps) == 1
    filled(made)
    made.writer.drop_before(made.writer.segments()[-1].base)
    exported_lake.export(accepting)
    assert len(lake.state().gaps) == 2
    assert set(lake.sequences().values()) == {1}


def test_a_journal_that_was_lost_is_a_stop_and_accepted_a_gap(made: Made, lake: Lake, tmp_path: Path) -> None:
    export(made, lake)
    shutil.rmtree(made.folder)
    other = Made(made.folder)
    other.inserted(3, 4, 5, 6)
    assert "the lake was exported from" in stopped(other, lake).cause
    export(other, lake, accept_gap=True)
    other.inserted(7)
    progress = export(other, lake)
    check(lake, 1, 2, 3, 4, 5, 6, 7)
    assert len(lake.state().gaps) == 1 and progress.place.base > 0
    assert lake.table("shop", "t").complete_from is None


def test_a_journal_with_another_past_is_a_stop(made: Made, lake: Lake, tmp_path: Path) -> None:
    made.flush()
    backup = tmp_path / "backup"
    shutil.copytree(made.folder, backup)
    made.inserted(3)
    export(made, lake)
    shutil.rmtree(made.folder)
    shutil.copytree(backup, made.folder)
    restored = Made(made.folder)
    for number in range(30, 40):
        restored.inserted(number)
    stopped(restored, lake)


def test_an_empty_lake_is_told_at_once_where_the_export_begins(made: Made, lake: Lake) -> None:
    made.flush()
    exporter = Exporter(open_storage(str(lake.folder)), made.folder, Settings(roll_seconds=3600))
    place = lake.state().place
    assert place is not None and place.seq == 0 and lake.commits() == 1
    exporter.step()
    place = lake.state().place
    assert place is not None and (place.file, place.identity) == ("binlog.000001", "server one")
