"""The run of `make test-names` would find errors: its comparison works, and its statements come in every kind."""

from __future__ import annotations

import random

import pytest

from tests.names.comparison import Comparison
from tests.names.sides import Run, Transaction
from tests.names.workload import Workload

ROW = Run(("d", "t"), 1, 2, ("a", "b"), True, {"a": (2, 10), "b": (2, 20)}, "")


@pytest.mark.parametrize(
    ("ours", "wrong", "unproven"),
    [
        pytest.param(ROW, 0, 0, id="the same"),
        pytest.param(ROW._replace(names=("b", "a")), 2, 0, id="other names"),
        pytest.param(ROW._replace(values={"a": (2, 20), "b": (2, 10)}), 2, 0, id="other values"),
        pytest.param(ROW._replace(rows=1), 2, 0, id="fewer rows"),
        pytest.param(ROW._replace(kind=4), 2, 0, id="another kind"),
        pytest.param(ROW._replace(table=("d", "u")), 2, 0, id="another table"),
        pytest.param(ROW._replace(names=("@1", "@2"), proven=False), 0, 2, id="unproven"),
        pytest.param(ROW._replace(values={"a": (2, 10), "b": (1, 5)}), 0, 0, id="a generated column that is left out"),
    ],
)
def test_rows_that_differ_are_found(ours: Run, wrong: int, unproven: int) -> None:
    found = Comparison()
    found.add([Transaction("1", [ours])], [])
    assert found.waiting == (1, 0)
    found.add([], [Transaction("2", [ROW]), Transaction("1", [ROW])])
    assert (found.rows, found.wrong, found.unproven, found.waiting) == (2, wrong, unproven, (0, 1))


@pytest.mark.parametrize("mysql", [True, False])
def test_statements_come_in_every_kind(mysql: bool) -> None:
    columns = ["a", "b", "c", "d"]
    workload = Workload(random.Random(1), mysql, lambda _: columns, "n1", "`")
    statements = [statement for _ in range(5000) for statement in workload.statements()]
    for words in (
        "CREATE TABLE", "IF NOT EXISTS", " LIKE ", " SELECT ", "ADD ", "DROP COLUMN", "MODIFY ", "CHANGE ", " FIRST",
        " AFTER ", "RENAME COLUMN", "RENAME TABLE", "RENAME TO", "CONVERT TO", "TRUNCATE", "TEMPORARY", "INDEX",
        "PRIMARY KEY", "DROP TABLE", "DROP DATABASE",
    ):  # fmt: skip
        assert sum(words in statement for statement in statements) >= 5, words
