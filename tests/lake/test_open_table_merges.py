"""Merges of open tables, compared with a model: keys, equal rows, columns, resets and names."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from duckdb_extensions import import_extension  # type: ignore[import-untyped]

from relay.base.errors import RelayError, StopCode
from relay.lake.delta import merge as delta_merge
from relay.lake.delta.table import OpenTable, folder_of
from relay.lake.documents import Table
from relay.lake.log import LakeLog
from relay.lake.storage import open_storage
from tests.lake.open_table import ORDERS, bag, lake, merged, opened, path_of, row, rows, small
from tests.spark.lakes import MadeLake
from tests.support import ROOT
from tests.support.engines import ENGINES

__all__ = ["lake", "small"]


# Rows


@pytest.mark.parametrize("seed", range(6))
def test_after_each_merge_the_table_has_the_rows_of_the_model(lake: MadeLake, small: None, seed: int) -> None:
    chance = Random(seed)
    model: dict[int, str | None] = {}
    table = opened(lake)
    for turn in range(25):
        for _ in range(chance.choice([1, 20, 60])):
            number = chance.randrange(150)
            if number not in model:
                model[number] = chance.choice([None, f"{lake.seq}"])
                lake.insert(ORDERS, row(number, model[number]))
            elif chance.random() < 0.6:
                before = row(number, model.pop(number))
                after = chance.choice([number, *set(range(150)) - model.keys()])
                model[after] = f"{lake.seq}"
                lake.update(ORDERS, before, row(after, model[after]))
            else:
                lake.delete(ORDERS, row(number, model.pop(number)))
        if chance.random() < 0.1:
            lake.mark(ORDERS, "truncate")
            model = {}
        lake.commit()
        table = table if chance.random() < 0.7 else opened(lake)
        merged(lake, table)
        assert rows(lake) == bag([row(*each) for each in model.items()]), f"turn {turn}"
        assert table.rows == len(model)
    assert len(table.log.files) < 12, "files are compacted"


def test_files_and_written_bytes_stay_in_bounds(lake: MadeLake, small: None) -> None:
    table, chance = opened(lake), Random(1)
    live: dict[int, dict[str, Any]] = {}
    written = changed = 0
    for turn in range(120):
        for number in range(30):
            new = row(turn * 30 + number, f"{chance.getrandbits(64)}")
            live[new["id"]] = new
            lake.insert(ORDERS, new)
        for number in chance.sample(sorted(live), 20):
            new = row(number, f"{chance.getrandbits(64)}")
            lake.update(ORDERS, live[number], new)
            live[number] = new
        add = lake.commit().add
        done = merged(lake, table)
        assert done is not None
        written, changed = written + done.bytes, changed + sum(file.bytes for file in add)
        assert len(table.log.files) <= 2 * table.bytes / delta_merge.TARGET_BYTES + 4 * 4
    assert written < 20 * changed
    assert rows(lake) == bag(list(live.values()))


@pytest.mark.parametrize("seed", range(4))
def test_a_table_without_a_key_is_a_multiset(lake: MadeLake, small: None, seed: int) -> None:
    chance, name = Random(seed), "shop.notes"
    lake.define(name, {"f": "double", "b": "binary", "s": "string", "t": "array<string>"})
    lake.mark(name, "create")
    # Equal in SQL, and different here: the bytes count.
    values = [
        {"f": f, "b": b, "s": s, "t": t}
        for f in (0.0, -0.0, 0.1, None)
        for b in (b"", b"\xff\x00", None)
        for s in ("", "a", "A")
        for t in ([], ["x", "y"])
    ]
    model: Counter[int] = Counter()
    for _ in range(15):
        for _ in range(40):
            at = chance.randrange(len(values))
            if model[at] and chance.random() < 0.5:
                lake.delete(name, values[at])
                model[at] -= 1
            else:
                lake.insert(name, values[at])
                model[at] += 1
        lake.commit()
        merged(lake, name=name)
        assert rows(lake, name) == Counter({repr(values[at]): count for at, count in model.items() if count})


def test_a_row_without_a_key_that_was_deleted_and_is_not_there_stops_the_table(lake: MadeLake) -> None:
    lake.define("shop.notes", {"s": "string"})
    lake.mark("shop.notes", "create")
    lake.insert("shop.notes", {"s": "a"})
    lake.commit()
    merged(lake, name="shop.notes")
    lake.delete("shop.notes", {"s": "b"})
    lake.commit()
    with pytest.raises(RelayError, match="it lacks 1 rows that were deleted") as raised:
        merged(lake, name="shop.notes")
    assert raised.value.code == StopCode.LAKE_DAMAGED
    assert "delete that folder" in raised.value.hint


def test_a_snapshot_of_many_rows_with_one_number_wins_over_earlier_changes(lake: MadeLake, small: None) -> None:
    lake.define("shop.old", {"id": "int", "item": "string"}, key=["id"])
    lake.insert("shop.old", *(row(number, "change") for number in range(0, 400, 2)))
    lake.commit()
    at = lake.seq
    lake.insert("shop.old", row(1000, "later"))
    lake.delete("shop.old", row(3, "snapshot"))
    lake.commit()
    for begin in range(0, 400, 50):
        lake.snapshot("shop.old", *(row(each, "snapshot") for each in range(begin, begin + 50)), seq=at)
        lake.commit()
    lake.insert("shop.old", row(1001, "last"))
    lake.commit()
    merged(lake, name="shop.old")
    expected = [row(each, "snapshot") for each in range(400) if each != 3]
    assert rows(lake, "shop.old") == bag([*expected, row(1000, "later"), row(1001, "last")])


# What statements do


def test_the_last_state_stays_until_a_reset_table_is_complete_again(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    lake.commit()
    merged(lake)
    lake.mark(ORDERS, "reset")
    lake.insert(ORDERS, row(2, "cup"))
    lake.commit()
    assert merged(lake) is None
    assert rows(lake) == bag([row(1, "pen")])
    version = opened(lake).log.version
    lake.snapshot(ORDERS, row(1, "PEN"), row(2, "cup"))
    lake.commit()
    merged(lake)
    assert rows(lake) == bag([row(1, "PEN"), row(2, "cup")])
    assert opened(lake).log.version == version + 1, "it appears in one commit"


def test_columns_come_go_and_change_their_types(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"), row(2, "cup"))
    lake.commit()
    merged(lake)
    lake.define(ORDERS, {"id": "int", "item": "string", "n": "int"}, key=["id"])
    lake.insert(ORDERS, row(3, "ink") | {"n": 7})
    lake.commit()
    files = set(opened(lake).log.files)
    merged(lake)
    assert files <= set(opened(lake).log.files), "a new column costs no file"
    assert rows(lake) == bag([row(1, "pen") | {"n": None}, row(2, "cup") | {"n": None}, row(3, "ink") | {"n": 7}])
    lake.define(ORDERS, {"id": "bigint", "n": "int"}, key=["id"])
    lake.insert(ORDERS, {"id": 2**40, "n": 8})
    lake.commit()
    merged(lake)
    assert rows(lake) == bag([{"id": 1, "n": None}, {"id": 2, "n": None}, {"id": 3, "n": 7}, {"id": 2**40, "n": 8}])
    lake.define(ORDERS, {"id": "bigint", "n": "int", "item": "string"}, key=["id"])
    lake.insert(ORDERS, {"id": 4, "n": 9, "item": "new"})
    lake.commit()
    merged(lake)
    assert rows(lake)[repr({"id": 1, "n": None, "item": None})] == 1, "old values of a column do not come back"


def test_a_column_without_a_row_is_there_at_once(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    lake.commit()
    merged(lake)
    lake.define(ORDERS, {"id": "int", "item": "string", "n": "int"}, key=["id"])
    lake.commit()
    merged(lake)
    assert rows(lake) == bag([row(1, "pen") | {"n": None}])


def test_a_dropped_table_is_empty_and_one_that_never_was_is_not_made(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    lake.define("shop.short", {"id": "int"}, key=["id"])
    lake.mark("shop.short", "create")
    lake.mark("shop.short", "drop")
    lake.commit()
    merged(lake)
    merged(lake, name="shop.short")
    lake.mark(ORDERS, "drop")
    lake.commit()
    merged(lake)
    assert rows(lake) == bag([])
    assert not Path(path_of(lake, "shop.short")).exists()


# Names


def test_every_engine_finds_a_table_of_any_name(lake: MadeLake) -> None:
    names = ["shop.two words", "Größe.a/b", "x%2F.y=1", "shop...", "a~b.$1"]
    for name in names:
        schema, _, table = name.partition(".")
        lake.define(name, {"id": "int"}, key=["id"])
        lake.mark(name, "create")
        lake.insert(name, {"id": 7})
        lake.commit()
        state = LakeLog(open_storage(lake.url)).state()
        known = next(each for each in state.tables.values() if each.table == Table(schema, table))
        OpenTable(open_storage(lake.url), known.table).update(state, known)
        for engine, read in ENGINES.items():
            assert read(str(lake.root / folder_of(known.table))) == {"id": [7]}, (engine, name)
    assert folder_of(Table("shop", "two words")) == "delta/shop/two~20words"
    assert folder_of(Table("shop", "..")) == "delta/shop/~2E."


# The page


def test_the_program_of_the_page_reads_the_table(lake: MadeLake, capsys: pytest.CaptureFixture[str]) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "lake-open-tables.md").read_text(), re.DOTALL)
    lake.insert(ORDERS, row(1, "cup"), row(2, "pen"), row(3, "pen"))
    lake.commit()
    merged(lake)
    import_extension("delta")
    exec(program.replace("/srv/lake", lake.url))
    printed = capsys.readouterr().out
    assert re.search(r"cup\s+│\s+1 │\n│ pen\s+│\s+2 │", printed), printed
