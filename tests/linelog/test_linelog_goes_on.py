"""How the log goes on: behind its cursor, after damage to its files or the journal, and on a full disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relay.binlog.events.column_types import Type
from relay.errors import RelayError
from relay.linelog import cursor
from relay.linelog.linelog import LineLog, Settings
from tests.support.csv_lines import content, csv_lines, json_lines
from tests.support.journal_builder import ID, INSERT, NOON, Made, column, row
from tests.support.line_log import day, ids, ids_in, linelog, log, names


def test_lines_go_behind_what_a_file_has_already(made: Made, folder: Path) -> None:
    file = folder / f"relaylogs-{day(NOON)}.txt"
    file.write_bytes(b"22:00:00;shop;t;I;id;0;nam")  # whoever wrote it was killed
    made.inserted(1)
    log(made, folder)
    assert file.read_bytes() == b'22:00:00;shop;t;I;id;0;nam\n22:13:20;shop;t;I;id;1;name;"x"\n'
    made.inserted(2)
    log(made, folder)
    assert file.read_bytes().endswith(b'id;1;name;"x"\n22:13:20;shop;t;I;id;2;name;"x"\n')


def test_another_format_goes_on_in_another_file(made: Made, folder: Path) -> None:
    made.inserted(1)
    log(made, folder)
    made.inserted(2)
    log(made, folder, form="json")
    made.inserted(3)
    log(made, folder)
    stem = f"relaylogs-{day(NOON)}"
    assert [int(line[5].text) for line in csv_lines((folder / f"{stem}.txt").read_bytes())] == [1, 3]
    assert [record["after"]["id"].digits for record in json_lines((folder / f"{stem}.jsonl").read_bytes())] == ["2"]


def test_what_stands_behind_the_cursor_is_made_again(made: Made, folder: Path) -> None:
    made.inserted(1, 2)
    log(made, folder)
    file = folder / names(folder)[0]
    whole = file.read_bytes()
    file.write_bytes(whole + b"22:13:20;shop;t;I;id;77;na")
    made.inserted(3)
    log(made, folder)
    assert file.read_bytes().startswith(whole)
    assert ids(folder) == [1, 2, 3]


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it does not"])
@pytest.mark.parametrize("taken", [Path.unlink, lambda path: path.rename(path.with_suffix(".old"))])
def test_a_file_that_is_taken_away_is_followed_by_a_new_one(
    made: Made, folder: Path, taken: Callable[[Path], object], running: bool
) -> None:
    made.inserted(1)
    engine = log(made, folder)
    file = folder / names(folder)[0]
    taken(file)
    made.inserted(2)
    made.flush()
    if running:
        engine.step()
        made.inserted(3)
    engine = log(made, folder) if not running else engine
    made.flush()
    engine.step()
    assert ids_in(file) == ([3] if running else [2])
    moved = file.with_suffix(".old")
    if moved.exists():
        assert ids_in(moved) + ids_in(file) == ([1, 2, 3] if running else [1, 2])


def test_a_file_that_has_lost_lines_is_a_stop_until_it_is_accepted(made: Made, folder: Path) -> None:
    made.inserted(1, 2)
    log(made, folder)
    file = folder / names(folder)[0]
    file.write_bytes(file.read_bytes().splitlines(True)[0])
    made.inserted(3)
    with pytest.raises(RelayError) as stopped:
        log(made, folder)
    assert stopped.value.code == "log_damaged" and "--accept-gap" in stopped.value.hint
    assert len(file.read_bytes().splitlines()) == 1, "nothing is written"
    log(made, folder, accept_gap=True)
    one, gap, three = csv_lines(content(folder))
    assert (one[5].text, three[5].text) == (b"1", b"3")
    assert [field.text for field in gap[1:5]] == [b"", b"", b"G", b"reason"]
    assert b"lost its last" in gap[5].text
    log(made, folder)
    assert len(csv_lines(content(folder))) == 3


def test_a_file_that_loses_lines_under_the_log_is_a_stop(made: Made, folder: Path) -> None:
    made.inserted(1)
    engine = log(made, folder)
    os.truncate(folder / names(folder)[0], 0)
    made.inserted(2)
    made.flush()
    with pytest.raises(RelayError) as stopped:
        engine.step()
    assert stopped.value.code == "log_damaged"


def test_a_cursor_that_cannot_be_read_is_a_stop(made: Made, folder: Path) -> None:
    (folder / cursor.NAME).write_text('{"generation": "x"}')
    with pytest.raises(RelayError) as stopped:
        linelog(made, folder)
    assert stopped.value.code == "log_damaged" and "starts again" in stopped.value.hint


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_journal_that_is_another_one_is_a_stop_until_it_is_accepted(
    made: Made, folder: Path, tmp_path: Path, form: str
) -> None:
    made.inserted(1)
    log(made, folder, form=form)
    (tmp_path / "other").mkdir()
    other = Made(tmp_path / "other")
    other.inserted(2)
    with pytest.raises(RelayError) as stopped:
        linelog(other, folder, form=form)
    assert stopped.value.code == "journal_lost" and "--accept-gap" in stopped.value.hint
    log(other, folder, form=form, accept_gap=True)
    log(other, folder, form=form)
    if form == "csv":
        one, gap, two = csv_lines(content(folder))
        assert (one[5].text, gap[3].text, two[5].text) == (b"1", b"G", b"2")
    else:
        kinds = [(record["kind"], "reason" in record) for record in json_lines(content(folder))]
        assert kinds == [("insert", False), ("gap", True), ("insert", False)]


def test_a_journal_that_was_set_back_is_a_stop_until_it_is_accepted(made: Made, folder: Path, tmp_path: Path) -> None:
    made.inserted(1)
    made.flush()
    backup = tmp_path / "backup"
    shutil.copytree(made.folder, backup)
    made.inserted(2, 3)
    log(made, folder)
    with pytest.raises(RelayError) as stopped:
        LineLog(backup, Settings(str(folder), ["*"]))
    assert stopped.value.code == "journal_lost"
    again = LineLog(backup, Settings(str(folder), ["*"], accept_gap=True))
    while not again.step().caught_up:
        pass
    assert [line[5].text for line in csv_lines(content(folder)) if line[3].text == b"I"] == [b"1", b"2", b"3", b"1"]


def test_a_journal_that_went_another_way_is_a_stop(folder: Path, tmp_path: Path) -> None:
    one, other = Made(tmp_path / "one", generation=7), Made(tmp_path / "other", generation=7)
    one.inserted(1, 2)
    image = row(1, b"12345678")
    assert len(image) == len(row(1) + row(2)), "so that the same places are between transactions"
    other.rows(INSERT, image)
    other.commit()
    assert one.flush() == other.flush()
    log(one, folder)
    with pytest.raises(RelayError) as stopped:
        linelog(other, folder)
    assert stopped.value.code == "journal_lost" and "are not those that were logged" in str(stopped.value)


def test_what_retention_took_is_a_stop_until_it_is_accepted(made: Made, folder: Path) -> None:
    made.inserted(1)
    engine = log(made, folder)
    number = 2
    while len(list(made.folder.glob("*.seg"))) < 4:
        made.rows(INSERT, *(row(number + more, b"x" * 60) for more in range(200)))
        made.commit()
        number += 200
    made.flush()
    last = sorted(int(path.stem) for path in made.folder.glob("*.seg"))[-1]
    made.writer.drop_before(last)
    with pytest.raises(RelayError) as stopped:
        engine.step()
    assert stopped.value.code == "journal_lost"
    log(made, folder, accept_gap=True)
    lines = csv_lines(content(folder))
    gaps = [at for at, line in enumerate(lines) if line[3].text == b"G"]
    assert len(gaps) == 1 and b"retention deleted" in lines[gaps[0]][5].text
    logged = ids(folder)
    assert logged[0] == 1 and logged[-1] == number - 1
    assert logged == sorted(set(logged))


def test_a_gap_in_the_journal_is_a_line(made: Made, folder: Path) -> None:
    made.inserted(1)
    made.writer.gap(4, "binlog.000009", "the source purged binlog.000002")
    made.inserted(2)
    log(made, folder)
    one, gap, two = csv_lines(content(folder))
    assert (one[5].text, gap[5].text, two[5].text) == (b"1", b"the source purged binlog.000002", b"2")


def test_rows_that_nothing_proves_are_a_stop_unless_positions_will_do(made: Made, folder: Path) -> None:
    made.inserted(1)
    unproven = msgspec.msgpack.encode(["shop", "u", 1, 1, 1, False, [column("@1", Type.LONG)]])
    made.rows(INSERT, b"\0\5\0\0\0", table=made.writer.define(unproven), columns=1)
    made.commit()
    with pytest.raises(RelayError) as stopped:
        log(made, folder)
    assert stopped.value.code == "schema_unproven" and "Excludes" in stopped.value.hint
    assert ids(folder) == [1], "what is before it is logged"
    log(made, folder, positional=True)
    assert content(folder).endswith(b";u;I;@1;5\n")


def test_a_value_that_is_none_is_a_stop_that_excludes_get_over(made: Made, folder: Path) -> None:
    made.inserted(1)
    table = made.define(ID, column("e", Type.ENUM, 1, "utf8mb4", ("a", "b")), table="bad")
    made.rows(INSERT, b"\0\1\0\0\0\1", b"\0\2\0\0\0\3", table=table)
    made.commit()
    made.inserted(2)
    with pytest.raises(RelayError) as stopped:
        log(made, folder)
    assert stopped.value.code == "unsupported_column" and "Excludes" in stopped.value.hint
    assert "column e of shop.bad" in str(stopped.value)
    assert ids(folder) == [1], "an event is logged whole or not at all"
    log(made, folder, excludes=["bad"])
    assert ids(folder) == [1, 2]


def test_a_disk_that_is_full_loses_and_repeats_nothing(
    made: Made, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.inserted(1)
    engine = log(made, folder)
    made.inserted(*range(2, 50))
    made.flush()
    write = os.write

    def half(fd: int, lines: Any) -> int:
        if len(lines) < 100:
            raise OSError(28, "No space left on device")
        return write(fd, lines[: len(lines) // 2])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(RelayError) as stopped:
            engine.step()
    assert stopped.value.code == "log_storage" and "No space left" in str(stopped.value)
    log(made, folder)
    assert ids(folder) == list(range(1, 50))
