"""The lake read without Spark: changes and current state as Arrow, compared with a model, and with SELECT."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pytest

from examples.dbserver import DatabaseServer
from examples.lakeside import wait_caught_up
from relay.base.errors import ErrorCode, RelayError
from relay.lake import changes, paths
from relay.lake import current as current_of
from relay.lake.documents import Field, Table
from relay.lake.log import LakeLog
from relay.lake.query import query
from relay.lake.storage import open_storage
from tests.lake.open_table import ORDERS, lake, row
from tests.spark.lakes import MadeLake
from tests.support import ROOT
from tests.support.chance import SEED
from tests.support.lake_life import settings, wait_until_read
from tests.support.lake_rows import difference, in_lake, selected
from tests.support.random_tables import RandomWorkload
from tests.support.relay_process import RelayProcess
from tests.support.waiting import patience

__all__ = ["lake"]


def current(lake: MadeLake, **options: Any) -> list[dict[str, Any]]:
    """The rows of the current state, in a defined order."""
    return sorted(current_of(lake.url, ORDERS, **options).read_all().to_pylist(), key=repr)


def refused(call: Callable[[], object]) -> RelayError:
    with pytest.raises(RelayError) as raised:
        call()
    assert raised.value.code == ErrorCode.USAGE
    return raised.value


# Changes


def test_changes_are_rows_with_what_is_known_of_them(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    lake.update(ORDERS, row(1, "pen"), row(1, "ink"))
    lake.commit()
    found = changes(lake.url, ORDERS).read_all().to_pylist()
    assert [(one["_seq"], one["_change_type"], one["id"], one["item"]) for one in found] == [
        (1, "create", None, None),
        (2, "insert", 1, "pen"),
        (3, "update_preimage", 1, "pen"),
        (3, "update_postimage", 1, "ink"),
    ]
    assert (found[1]["_file"], found[1]["_pos"], found[1]["_schema_version"]) == ("binlog.000001", 204, 1)


def test_bounds_columns_and_filters_select(lake: MadeLake) -> None:
    for number in range(2, 10):
        lake.insert(ORDERS, row(number, f"item {number % 3}"))
        if number % 2:
            lake.commit()
    lake.commit()
    found = changes(
        lake.url, ORDERS, 3, 8, columns=["item", "_seq"], filters=[("id", ">", 4), ("_change_type", "in", ["insert"])]
    )
    assert found.schema.names == ["item", "_seq"]
    assert found.read_all().to_pylist() == [{"item": f"item {number % 3}", "_seq": number} for number in range(5, 9)]
    assert changes(lake.url, ORDERS, 100).read_all().num_rows == 0
    error = refused(lambda: changes(lake.url, ORDERS, columns=["total"]))
    assert error.cause == "there is no column 'total'" and error.hint.startswith("columns: id, item, _change_type")
    assert "operators: ==" in refused(lambda: changes(lake.url, ORDERS, filters=[("id", "~", 4)])).hint
    assert "it has shop.orders" in refused(lambda: changes(lake.url, "shop.ordres")).hint


def test_values_of_an_older_type_are_converted_or_told_as_text(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "17"), row(2, "many"))
    lake.commit()
    lake.define(ORDERS, {"id": "int", "item": "int", "note": "string"}, key=["id"], new_generation=True)
    lake.insert(ORDERS, {"id": 3, "item": 5, "note": "new"})
    lake.commit()
    found = changes(lake.url, ORDERS, 1, columns=["id", "item", "note", "item__text"]).read_all().to_pylist()
    assert [tuple(one.values()) for one in found] == [
        (1, 17, None, None),
        (2, None, None, "many"),
        (3, 5, "new", None),
    ]


# The current state


def test_the_current_state_has_the_last_row_of_each_key(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"), row(2, "cup"), row(3, None))
    lake.commit()
    lake.update(ORDERS, row(1, "pen"), row(4, "pen"))
    lake.delete(ORDERS, row(2, "cup"))
    lake.insert(ORDERS, row(2, "mug"))
    lake.commit()
    assert current(lake) == [row(2, "mug"), row(3, None), row(4, "pen")]
    assert current(lake, columns=["item"], filters=[("id", "<", 4)]) == [{"item": "mug"}, {"item": None}]


def test_a_key_is_told_apart_by_its_side_columns(lake: MadeLake) -> None:
    lake.define("shop.days", {"day": "date", "n": "int", "day__text": "string"}, key=["day"])
    lake.mark("shop.days", "create")
    zero = {"day": None, "day__text": "0000-00-00"}
    lake.insert("shop.days", zero | {"n": 1}, {"day": None, "day__text": "2026-00-00", "n": 2})
    lake.insert("shop.days", {"day": date(2026, 11, 20), "n": 3})
    lake.update("shop.days", zero | {"n": 1}, zero | {"n": 4})
    lake.commit()
    found = current_of(lake.url, "shop.days").read_all().to_pylist()
    assert sorted((str(one["day"]), one["day__text"], one["n"]) for one in found) == [
        ("2026-11-20", None, 3),
        ("None", "0000-00-00", 4),
        ("None", "2026-00-00", 2),
    ]


def test_a_key_may_be_a_set(lake: MadeLake) -> None:
    lake.define("shop.tags", {"tags": "array<string>", "n": "int"}, key=["tags"])
    lake.mark("shop.tags", "create")
    for number, tags in enumerate([["a"], [], ["a", "b"], ["a"]]):
        lake.insert("shop.tags", {"tags": tags, "n": number})
    lake.commit()
    found = current_of(lake.url, "shop.tags").read_all().to_pylist()
    assert sorted((one["tags"], one["n"]) for one in found) == [([], 1), (["a"], 3), (["a", "b"], 2)]


def test_after_a_reset_the_state_before_it_is_given_with_a_warning(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    lake.commit()
    reset = lake.mark(ORDERS, "reset")
    lake.insert(ORDERS, row(2, "cup"))
    lake.commit()
    with pytest.warns(UserWarning, match=f"its rows after {reset - 1} are not known yet"):
        assert current(lake) == [row(1, "pen")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert current(lake, as_of=2) == [row(1, "pen")]


def test_a_state_that_the_lake_does_not_know_is_refused_by_name(lake: MadeLake) -> None:
    lake.insert(ORDERS, row(1, "pen"))
    emptied = lake.mark(ORDERS, "truncate")
    lake.commit()
    assert refused(lambda: current(lake, as_of=2)).cause == f"the lake has all its rows from {emptied} on"
    assert refused(lambda: current(lake, as_of=9)).cause == f"the lake ends at {emptied}"
    lake.define("shop.notes", {"note": "string"})
    lake.mark("shop.notes", "create")
    lake.define("shop.old", {"id": "int"}, key=["id"])
    lake.insert("shop.old", {"id": 7})
    lake.commit()
    assert "relay.lake.changes" in refused(lambda: current_of(lake.url, "shop.notes")).hint
    assert "relay snapshot" in refused(lambda: current_of(lake.url, "shop.old")).hint


UUID = "3E11FA47-71CA-11E1-9E33-C80AA9429562"


@pytest.mark.parametrize("gtid", ["0-1-{}", UUID + ":{}", UUID + ":tag:{}"])
def test_a_state_is_found_by_the_gtid_of_a_transaction_also_of_another_table(lake: MadeLake, gtid: str) -> None:
    lake.define("shop.notes", {"id": "int"}, key=["id"])
    for number in range(1, 7):
        lake.gtid = gtid.format(number).lower()
        if number == 3:
            lake.insert("shop.notes", {"id": 1})
        else:
            lake.transaction(ORDERS, row(number, "a"), row(number + 10, "b"))
        if number % 2:
            lake.commit()
    lake.commit()
    for number in range(1, 7):
        ids = [n + more for more in (0, 10) for n in range(1, number + 1) if n != 3]
        assert [one["id"] for one in current(lake, as_of=gtid.format(number))] == sorted(ids, key=str)
    error = refused(lambda: current(lake, as_of=gtid.format(7)))
    assert error.cause == "the lake has no row of this transaction"
    between = changes(lake.url, ORDERS, gtid.format(2), gtid.format(4)).read_all()
    assert between["id"].to_pylist() == [4, 14]


def test_a_state_is_found_by_a_time_whatever_the_clock_of_the_source_did(lake: MadeLake) -> None:
    begin = lake.clock
    moments = [60, 120, 90, 90, 86_400, 86_460, 86_430]  # seconds; the clock goes back twice
    for number, seconds in enumerate(moments):
        lake.clock = begin + seconds
        lake.transaction(ORDERS, row(number, "a"))
        if number % 2:
            lake.commit()
    lake.commit()

    def at(seconds: float) -> int:
        time = datetime.fromtimestamp(begin + seconds, UTC)
        count = len(current(lake, as_of=time))
        text = time.astimezone(timezone(timedelta(hours=5))).isoformat(" ")
        assert len(current(lake, as_of=text)) == count
        return count

    for seconds in (0, 59, 60, 89, 90, 119, 120, 121, 50_000, 86_400, 86_429):
        assert at(seconds) == next(n for n, later in enumerate(moments) if later > seconds), seconds
    assert at(86_430) == 5, "the transaction before it in the binlog was committed later"
    lake.clock = begin + 86_500
    lake.insert("shop.orders", row(100, "last"))
    lake.commit()
    assert at(86_460) == 7
    assert at(86_500) == 8
    error = refused(lambda: at(86_501))
    assert re.fullmatch(r"the lake ends at 2026-11-21 09:\d\d:40Z", error.cause)
    assert refused(lambda: current(lake, as_of="yesterday")).cause == "it is no _seq, GTID or time"
    for gtids in (f"{UUID}:1-5", f"{UUID}:tag:4,{UUID}:7", "0-1-5,1-1-7"):
        assert refused(partial(current, lake, as_of=gtids)).cause.startswith("it is a set of GTIDs")
    ancient = refused(lambda: current(lake, as_of=datetime(99, 1, 1, tzinfo=UTC)))
    assert ancient.cause == "the lake has all its rows from 1 on"
    assert refused(lambda: current(lake, as_of="2026-11-20 09:31:00")).cause == "it has no time zone"


@pytest.mark.parametrize("seed", range(8))
def test_every_state_equals_the_model_after_random_changes_snapshots_and_markers(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    lake = MadeLake(tmp_path / "lake")
    lake.define(ORDERS, {"id": "int", "item": "string"}, key=["id"])
    model: dict[int, str | None] = {number: f"before {number}" for number in range(5)}
    states: dict[int, list[dict[str, Any]]] = {}
    clocks: dict[int, int] = {}

    def next_transaction() -> None:
        lake.clock += chance.choice([-2000, 0, 1000, 1000, 5000])
        lake.gtid = f"0-1-{lake.seq + 1}"
        clocks[lake.seq + 1] = lake.clock

    next_transaction()
    lake.insert(ORDERS, row(100, "first"))
    model[100] = "first"
    lake.commit()
    lake.snapshot(ORDERS, *(row(*one) for one in model.items()))
    lake.commit()
    states[lake.seq] = sorted((row(*one) for one in model.items()), key=repr)
    for _ in range(60):
        next_transaction()
        number = chance.randrange(12)
        match chance.random():
            case low if low < 0.04:
                lake.mark(ORDERS, "truncate")
                model, states = {}, {}
            case _ if number in model:
                before = row(number, model.pop(number))
                if chance.random() < 0.6:
                    after = chance.choice([number, *set(range(12)) - model.keys()])
                    model[after] = f"{lake.seq}"
                    lake.update(ORDERS, before, row(after, model[after]))
                else:
                    lake.delete(ORDERS, before)
            case _:
                model[number] = chance.choice([None, f"{lake.seq}"])
                lake.insert(ORDERS, row(number, model[number]))
        states[lake.seq] = sorted((row(*one) for one in model.items()), key=repr)
        if chance.random() < 0.2:
            lake.commit()
    lake.commit()
    assert current(lake) == states[lake.seq]
    for seq, expected in states.items():
        assert current(lake, as_of=seq) == expected, f"as of {seq}"
        assert current(lake, as_of=f"0-1-{seq}") == expected, f"as of the GTID 0-1-{seq}"
    for clock in {*clocks.values(), *(each + 500 for each in clocks.values())}:
        seq = next((seq for seq, later in clocks.items() if later > clock), lake.seq + 1) - 1
        time = datetime.fromtimestamp(clock, UTC)
        if seq in states and (seq < lake.seq or clock <= lake.clock):
            assert current(lake, as_of=time) == states[seq], f"as of {time}"
        else:
            refused(partial(current, lake, as_of=time))


def test_the_current_state_equals_select_after_a_random_life(
    kind: str,
    own_server: Callable[..., DatabaseServer],
    start_relay: Callable[..., RelayProcess],
    tmp_path: Path,
) -> None:
    server = own_server(kind, "--binlog-row-metadata=FULL")
    server.execute("CREATE DATABASE life CHARACTER SET utf8mb4")
    life = RandomWorkload(server, "life", SEED)
    with closing(life):
        life.fill(10)
        relay = start_relay(server, settings(tmp_path / "lake"))
        life.before_ddl = lambda: wait_until_read(relay, server)
        life.run(20)
        life.touch()
        log = LakeLog(open_storage(str(tmp_path / "lake")))
        names = [Table("life", table.name) for table in life.tables]
        state = wait_caught_up(log, server, names, patience(60))
        for name in names:
            known = state.tables[paths.table_key(name)]
            if known.version.key:
                found = relay_lake_rows(log, name, known.version.fields)
                source = Counter(selected(server, "life", name.table, known.version.fields))
                assert not (wrong := difference(source, found, known.version.fields)), f"seed {SEED}: {name}: {wrong}"
                with query(log, f'SELECT * FROM life."{name.table}"') as result:
                    in_sql = counted(result.to_arrow_table(), known.version.fields)
                assert not (wrong := difference(source, in_sql, known.version.fields)), f"in SQL: {name}: {wrong}"


def relay_lake_rows(log: LakeLog, table: Table, fields: list[Field]) -> Counter[tuple[Any, ...]]:
    return counted(current_of(log, table).read_all(), fields)


def counted(found: pyarrow.Table, fields: list[Field]) -> Counter[tuple[Any, ...]]:
    return Counter(in_lake(found.to_pydict(), fields, found.num_rows))


def test_the_program_of_the_page_runs(lake: MadeLake, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "lake-python.md").read_text(), re.DOTALL)
    lake.define(ORDERS, {"id": "int", "item": "string", "total": "int"}, key=["id"])
    lake.insert(ORDERS, row(1, "pen") | {"total": 90}, row(2, "cup") | {"total": 110})
    lake.commit()
    exec(program.replace("/srv/lake", lake.url).replace("since=1200", "since=2"))
    assert capsys.readouterr().out == "1 rows\n[{'id': 2, '_change_type': 'insert', '_seq': 3}]\n"
