"""`relay query`: a SELECT on a lake, with its current states and its changes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from relay.cli import run
from relay.errors import ExitCode
from relay.lake import reading
from relay.lake.documents import LakeState
from relay.lake.log import LakeLog
from relay.lake.query import query
from tests.spark.lakes import MadeLake
from tests.support.relay_process import RELAY, Program, process_cpu_seconds
from tests.support.waiting import until

ORDERS = {"id": "int", "Item": "string", "total": "decimal(10,2)", "at": "timestamp"}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path) -> MadeLake:
    """Orders whose last three changes are an update, a delete, and a new one; and a table without a key."""
    lake = MadeLake(tmp_path / "lake")
    lake.define("shop.orders", ORDERS, key=["id"])
    lake.define("shop.two words", {"text": "string"})
    lake.mark("shop.orders", "create")
    lake.insert("shop.orders", order(1, "pen"), order(2, "cup"))
    lake.insert("shop.two words", {"text": "a"}, {"text": "b"})
    lake.commit()
    lake.update("shop.orders", order(1, "pen"), order(1, "ink"))
    lake.delete("shop.orders", order(2, "cup"))
    lake.insert("shop.orders", order(3, 'a "quote", and more'))
    lake.commit()
    return lake


def order(number: int, item: str) -> dict[str, Any]:
    return {
        "id": number,
        "Item": item,
        "total": Decimal(number).scaleb(-1),
        "at": datetime(2026, 11, 20, 9, tzinfo=UTC),
    }


@pytest.fixture
def sql(shop: MadeLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """sql(statement, option, ...): exit code, output and errors of the command."""
    monkeypatch.chdir(tmp_path)

    def command(statement: str, *options: str) -> tuple[int, str, str]:
        code = run(["query", statement, "--lake", shop.url, *options])
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return command


def test_a_table_is_its_current_state_and_changes_are_in_a_catalog_of_their_own(sql: Run) -> None:
    assert sql("SELECT id, item, total FROM Shop.Orders ORDER BY id", "--format", "csv") == (
        ExitCode.OK,
        'id,Item,total\n1,ink,0.10\n3,"a ""quote"", and more",0.30\n',
        "",
    )
    _, out, _ = sql("SELECT _change_type, count(*) AS n FROM changes.shop.orders GROUP BY ALL", "--format", "json")
    assert sorted((one["_change_type"], one["n"]) for one in map(json.loads, out.splitlines())) == [
        ("create", 1), ("delete", 1), ("insert", 3), ("update_postimage", 1), ("update_preimage", 1),
    ]  # fmt: skip
    code, out, _ = sql('SELECT text FROM changes.shop."two words"')
    assert code == ExitCode.OK and re.search(r"│ a +│\n│ b +│\n", out)


def test_a_moment_holds_for_all_tables_of_the_statement(sql: Run) -> None:
    both = "SELECT (SELECT count(*) FROM shop.orders) AS rows, (SELECT count(*) FROM changes.shop.orders) AS changes"
    assert sql(both, "--as-of", "3", "--format", "csv")[1] == "rows,changes\n2,3\n"
    assert sql(both, "--as-of", "2026-11-20T09:30:00Z", "--format", "csv")[1] == "rows,changes\n2,7\n"
    code, _, err = sql(both, "--as-of", "yesterday")
    assert code == ExitCode.USAGE and "it is no _seq, GTID or time" in err
    code, _, err = sql("SELECT count(*) FROM changes.shop.orders", "--as-of", "99")
    assert code == ExitCode.USAGE and "the lake ends at 8" in err


def test_a_folder_without_a_lake_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["query", "SELECT * FROM shop.orders", "--lake", str(tmp_path)]) == ExitCode.USAGE
    assert (
        f"relay: query the lake: file://{tmp_path}: it has no tables (hint: check the path" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT * FROM shop.nothing", "Table with name .*nothing.* .hint: the lake has shop.orders, shop.two words"),
        ("SELECT * FROM tables", "Table with name tables does not exist.* .hint: the lake has shop.orders"),
        ("SELECT nothing FROM shop.orders", "Referenced column .nothing. not found"),
        ("SELCT 1", "syntax error at or near .SELCT. .hint: give one SELECT"),
        ("DROP TABLE shop.orders", "it is no SELECT"),
        ("SELECT 1; SELECT 2", "there are 2 statements"),
        ("SELECT CAST(item AS INT) FROM shop.orders", "Could not convert string"),
        ('SELECT * FROM shop."two words"', "it has no primary key .hint: read its changes: changes.shop.two words"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(sql: Run, statement: str, error: str) -> None:
    code, out, err = sql(statement)
    assert (code, out) == (ExitCode.USAGE, "")
    assert re.fullmatch(rf"relay: [^\n]*{error}[^\n]*\n", err)


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("SELECT sum(total) FROM shop.orders WHERE id > 1", ["id", "total"]),
        ("SELECT count(*) FROM shop.orders", ["id"]),
        ("SELECT a.item FROM shop.orders a JOIN shop.orders b USING (id)", ["id", "Item"]),
        ("WITH o AS (SELECT item AS i FROM shop.orders) SELECT i FROM o", ["Item"]),
        ('SELECT total FROM shop.orders ORDER BY "at"', ["total", "at"]),
        ("SELECT * FROM shop.orders", None),
        ("SELECT orders FROM shop.orders", None),
        ("SELECT o FROM shop.orders o", None),
        ("SELECT a.id FROM shop.orders a NATURAL JOIN shop.orders b", None),
        ("SELECT id FROM (SELECT o FROM shop.orders o) s(id)", None),
    ],
)
def test_only_columns_that_the_statement_may_use_are_read(
    shop: MadeLake, monkeypatch: pytest.MonkeyPatch, statement: str, columns: list[str] | None
) -> None:
    asked: list[list[str]] = []
    schema_of = reading.TableRows.schema

    def noted(rows: reading.TableRows, names: Sequence[str]) -> pyarrow.Schema:
        asked.append(list(names))
        return schema_of(rows, names)

    monkeypatch.setattr(reading.TableRows, "schema", noted)
    with query(shop.url, statement) as result:
        assert result.to_arrow_table().num_rows
    assert (columns or list(ORDERS)) in asked


def test_tables_of_one_statement_are_of_one_moment(shop: MadeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    states = LakeLog.state

    def more(log: LakeLog) -> LakeState:
        found = states(log)
        shop.insert("shop.orders", order(shop.seq, "new"))
        shop.commit()
        return found

    monkeypatch.setattr(LakeLog, "state", more)
    both = "SELECT (SELECT count(*) FROM shop.orders), (SELECT count(*) FROM changes.Shop.ORDERS)"
    for rows in range(2, 5):
        with query(shop.url, both) as result:
            assert result.fetchall() == [(rows, rows + 5)]


def test_rows_are_read_once_however_often_they_are_used(shop: MadeLake) -> None:
    read: list[tuple[int, int]] = []
    join = "SELECT count(*) FROM shop.orders a, shop.orders b, shop.orders c LIMIT 1"
    with query(shop.url, join, watch=lambda more, total: read.append((more, total))) as result:
        assert result.fetchall() == [(8,)]
    assert (sum(more for more, _ in read), {total for _, total in read}) == (7, {7})


@pytest.mark.parametrize("form", ["table", "csv"])
def test_ctrl_c_ends_a_long_query_without_a_word(shop: MadeLake, form: str) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b, shop.orders"
    with Program("query", endless, "--lake", shop.url, "--format", form) as program:
        until(lambda: process_cpu_seconds(program.pid) > 3, what="DuckDB does not begin")
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 128 + signal.SIGINT
        assert program.stderr.read().strip() == ""


@pytest.mark.parametrize(("form", "line"), [("csv", "a\n1\n"), ("json", '{"a":1}\n')])
def test_a_result_is_appended_to_a_file(shop: MadeLake, tmp_path: Path, form: str, line: str) -> None:
    file = tmp_path / "results"
    command = [*RELAY, "query", "SELECT 1 AS a", "--lake", shop.url, "--format", form]
    for _ in range(2):
        with file.open("a") as output:
            subprocess.run(command, stdout=output, check=True)
    assert file.read_text() == line * 2


def test_the_reader_of_the_output_may_leave(shop: MadeLake) -> None:
    with Program("query", "FROM range(100000000)", "--lake", shop.url, "--format", "csv") as program:
        assert program.stdout.readline() == "range\n"
        program.stdout.close()
        assert (program.wait(60), program.stderr.read()) == (ExitCode.OK, "")
