"""The documents for operators agree with the code: promises have tests; codes, events and metrics exist."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from relay.base.log_events import EVENTS
from relay.errors import MEANINGS, ErrorCode, StopCode
from tests.support import ROOT

GUARANTEES = (ROOT / "docs/guarantees.md").read_text()
FAILURES = (ROOT / "docs/failures.md").read_text()
EXIT_CODES = (ROOT / "docs/exit-codes.md").read_text()
PROMISES = (ROOT / "docs/internals/promises.md").read_text()
METRICS = (ROOT / "docs/metrics.md").read_text()


@cache
def defined_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def named_tests(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`((?:\w+/)*test_\w+\.py)::(test_\w+)`", text)


def test_every_test_that_the_page_of_promises_names_is_there() -> None:
    assert not [f"{file}::{name}" for file, name in named_tests(PROMISES) if name not in defined_in(file)]


def test_every_promise_has_a_test() -> None:
    promised, _, _ = GUARANTEES.partition("## What is not promised")
    promises = [" ".join(found.rstrip(".").split()) for found in re.findall(r"^- \*\*(.+?)\*\*", promised, re.M | re.S)]
    deaths = re.findall(r"^\| (an? .*?|the .*?) \|", promised, re.M)
    assert len(promises) > 15 and len(deaths) == 13
    table = [row.strip("| ").split(" | ") for row in rows(PROMISES.partition("## Threats")[0])[1:]]
    assert [row[0] for row in table] == promises + deaths
    assert not [row[0] for row in table if not named_tests(row[1])]


def rows(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| --")]


def test_what_failures_names_is_real() -> None:
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", FAILURES))
    metrics = set(re.findall(r"`(relay_\w+)`", FAILURES))
    known = {*map(str, MEANINGS), *EVENTS, "limit_newest", "limit_oldest", "time_to_loss"}
    assert not words - metrics - known - set(re.findall(r"\w+", (ROOT / "relay/monitoring/stat.py").read_text()))
    assert not [metric for metric in metrics if f"`{metric}`" not in METRICS]


@pytest.mark.parametrize("code", [*StopCode, *ErrorCode])
def test_the_page_of_codes_says_what_each_means_and_what_to_do(code: StopCode | ErrorCode) -> None:
    [row] = [line for line in EXIT_CODES.splitlines() if line.startswith(f"| `{code}` |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == 4 and all(len(cell) > 3 for cell in (cells[0], *cells[2:]))
