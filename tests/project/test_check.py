"""`make check` runs its parts one after the other, goes on after a failure, and says what came of each."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts import check
from scripts.check import Depth, Part
from tests.support import ROOT
from tests.support.waiting import until

CLOSING = "==== {} in 0.01s ===="
BAD = f"""
print("FAILED tests/test_a.py::test_b - why")
print("{CLOSING.format("2 failed, 3 passed, 1 error")}")
exit(1)
"""


def fake(name: str, program: str, minutes: float = 1, **more: object) -> Part:
    """A part that is this program in Python."""
    return Part(name, (sys.executable, "-c", program), minutes, **more)  # type: ignore[arg-type]


def cells(line: str) -> list[str]:
    """The cells of a row of the table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_it_goes_on_after_a_failure_and_ends_with_a_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parts = [
        fake("good", f"print({CLOSING.format('7 passed, 2 skipped')!r})"),
        fake("bad", BAD),
        fake("dies", "import os; os.kill(os.getpid(), 9)", seeded=False),
        fake("empty", "print('nothing was tested')"),
        fake("last", f"print({CLOSING.format('1 passed')!r})"),
    ]  # fmt: skip
    assert check.check(parts, tmp_path, 100, 42) == 1
    written = (tmp_path / "table.md").read_text()
    head, *rows = [line for line in written.splitlines() if line.startswith("|")]
    assert cells(head) == ["part", "result", "seconds", "passed", "failed", "seed"]
    found = {row[0]: [*row[1:2], *row[3:]] for row in map(cells, rows[1:])}
    assert found == {
        "good": ["passed", "7", "0", "42"],
        "bad": ["FAILED", "3", "3", "42"],
        "dies": ["FAILED: killed by SIGKILL", "0", "0", "-"],
        "empty": ["FAILED: exit code 0, with 0 passed and 0 failed", "0", "0", "42"],
        "last": ["passed", "1", "0", "42"],
        "whole": ["3 FAILED", "11", "3", "42"],
    }
    shown = capfd.readouterr().out
    assert shown.endswith(written[written.index("|") :])
    assert "nothing was tested\n" in shown and (tmp_path / "empty.log").read_text() == "nothing was tested\n"
    assert "  FAILED tests/test_a.py::test_b\n" in shown
    assert 'make check PARTS="good bad dies empty last" CHECK_SEED=42 CHECK_MINUTES=100' in shown


def test_without_a_failure_the_exit_code_is_0(tmp_path: Path) -> None:
    assert check.check([fake("good", f"print({CLOSING.format('1 passed')!r})")], tmp_path, 100, 1) == 0


def test_a_part_that_hangs_is_stopped_and_has_failed(tmp_path: Path) -> None:
    result = check.run(fake("hangs", "import time; time.sleep(600)"), {}, tmp_path / "log", 0.001)
    assert result.why.startswith("FAILED: it took more than")


def test_a_part_is_stopped_with_all_its_processes() -> None:
    command = ["sh", "-c", "sleep 600 & echo $! $$; wait"]  # such a sleep ignores SIGINT
    with subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) as leader:
        assert leader.stdout is not None
        child, itself = map(int, leader.stdout.readline().split())
        check.stop(leader)
    assert itself == leader.pid and leader.returncode == -signal.SIGINT
    until(lambda: not lives(child), 60, "the part's other process lives")


def lives(process: int) -> bool:
    """Whether it runs, and is no zombie."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except OSError:
        return False


def test_a_part_gets_all_servers_the_seed_and_its_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "-j2")
    part = fake("deep", "", 30, depth=Depth("DEPTH", fixed=5, unit=0.5, least=4))
    found = check.surroundings(part, 100, 7)
    assert (found["RELAY_SERVERS"], found["RELAY_SEED"], found["FUZZ_SEED"], found["DEPTH"]) == ("all", "7", "7", "50")
    assert "MAKEFLAGS" not in found
    assert check.surroundings(part, 200, 7)["DEPTH"] == "110" and check.surroundings(part, 10, 7)["DEPTH"] == "4"
    assert [part.scaled(minutes) for minutes in (200, 100, 10)] == [60, 30, 7], "the least depth takes 7 minutes"


@pytest.mark.parametrize(
    ("counted", "log", "expected"),
    [
        (check.of_pytest, "== 2 failed, 5 passed, 1 xfailed, 3 errors in 65.02s (0:01:05) ==\n", (5, 5)),
        (check.of_pytest, "== no tests ran in 0.01s ==\n", (0, 0)),
        (check.of_fuzz, "9 inputs, 8 edges, 7 kept\nfuzz: rows crashed; it is x\nfuzz: failed: rows\n", (1, 1)),
        (check.of_fuzz, "fuzz: http died of SIGKILL; it is x\nfuzz: rows does not compile\n", (0, 2)),
        (check.of_names, "= 3 passed in 1.0s =\nthe requirements are met\na requirement is not met\n", (4, 1)),
        (check.of_types, "MySQL 9.7     FULL     300 cases:  290 equal to SELECT,   8 listed,   2 wrong\n", (298, 2)),
        (check.of_docs, "docs: open build/site/index.html\n", (1, 0)),
    ],
)  # fmt: skip
def test_what_parts_print_is_counted(
    counted: Callable[[str], check.Counted], log: str, expected: check.Counted
) -> None:
    assert counted(log) == expected


def test_the_whole_keeps_its_minutes_and_makes_targets_that_exist() -> None:
    assert sum(part.minutes for part in check.PARTS) <= check.MINUTES
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {part.command[-1] for part in check.PARTS} <= targets


def test_parts_are_chosen_by_name_and_run_in_that_order(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[list[str], float, int]] = []

    def instead(parts: list[Part], folder: Path, minutes: float, seed: int) -> int:
        ran.append(([part.name for part in parts], minutes, seed))
        return 0

    monkeypatch.setattr(check, "check", instead)
    environment = {"CHECK_MINUTES": "50", "CHECK_SEED": "9"}
    assert CliRunner().invoke(check.main, ["kill", "spark", "kill"], env=environment).exit_code == 0
    assert ran == [(["kill", "spark"], 50.0, 9)]
    wrong = CliRunner().invoke(check.main, ["sparks"])
    assert wrong.exit_code == 2 and "'sparks' is not one of 'all'" in wrong.output
