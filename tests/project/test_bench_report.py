"""The benchmark's record computes met and missed correctly, from the ratios of rounds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bench import record
from bench.kept import Kept
from bench.report import Report, si, spread


@pytest.fixture
def report() -> Report:
    made = Report()
    made.part("Apples")
    return made


def test_a_ratio_is_judged_round_by_round_and_not_by_the_medians(report: Report) -> None:
    report.ratio("picked", [10, 100, 90], [1, 50, 10], "apples/s", of="pears", at_least=9)
    [result] = report.results
    assert result.ratios == (10, 2, 9)
    assert (result.verdict, result.margin) == ("met", 1)


@pytest.mark.parametrize(
    ("values", "bars", "verdict"),
    [
        ([2, 3, 4], {"at_least": 3}, "met"),
        ([2, 2.9, 4], {"at_least": 3}, "missed"),
        ([2, 3, 4], {"at_most": 3}, "met"),
        ([2, 3.1, 4], {"at_most": 3}, "missed"),
        ([0, 0, 0], {"at_most": 3}, "met"),
        ([1], {}, ""),
    ],
)
def test_a_figure_is_judged_by_its_median(
    report: Report, values: list[float], bars: dict[str, float], verdict: str
) -> None:
    report.figure("eaten", values, "apples", **bars)
    assert report.results[0].verdict == verdict


def test_what_is_missed_is_named_at_the_end(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    report.figure("eaten", [1], "apples", at_least=1)
    report.figure("sold", [3], "apples", at_most=2)
    report.finish()
    assert capsys.readouterr().out.endswith("1 of 2 bars met\n  missed: Apples: sold: 3, at most 2 apples\n")


def test_the_record_has_each_figure_with_its_spread_its_peer_and_its_bar(report: Report, tmp_path: Path) -> None:
    report.ratio("picked", [20_000, 30_000, 40_000], [10_000, 10_000, 10_000], "apples/s", of="pears", at_least=4)
    report.note("Of one tree.")
    record.write(report, {"processor": "a basket"}, "three rounds", tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| processor | a basket |" in text
    assert "| picked | 30 k (20 k to 40 k) apples/s | 3 (2 to 4) x pears | at least 4 x | missed |" in text
    assert "Of one tree." in text
    assert "## Bars: 0 of 1 met" in text


def test_the_record_begins_with_what_users_want_to_know_and_keeps_every_sample(report: Report, tmp_path: Path) -> None:
    figure = "narrow: socket to reply payloads"
    report.ratio(figure, [20_000], [100], "rows/s", of="mysql-replication")
    report.ratio(figure, [20_000], [2_000], "rows/s", of="mysqlbinlog -v")
    record.write(report, {"relay": "1.0.0, commit abc123"}, "one round", tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text()
    assert "replies 200 times as fast as through mysql-replication" in text
    assert "10 times the speed of `mysqlbinlog -v`" in text
    assert "This run has no figure of this name: 200 commits/s, polling client, p50." in text
    [kept] = (tmp_path / "history").glob("*-abc123.json")
    assert [each["values"] for each in json.loads(kept.read_text())["results"]] == [[20_000], [20_000]]


def test_numbers_are_short_and_keep_three_digits() -> None:
    assert [si(each) for each in (0.001234, 1.5, 123, 4567, 12_345, 1_234_567, 2.5e9)] == [
        "0.00123", "1.5", "123", "4567", "12.3 k", "1.23 M", "2.5 G",
    ]  # fmt: skip
    assert spread([5]) == "5"


def measured() -> Report:
    made = Report()
    made.part("Apples")
    made.ratio("picked", [10, 100], [1, 50], "apples/s", of="pears", at_least=9)
    made.note("It rained.")
    return made


def test_a_run_that_ended_early_continues_with_the_parts_that_it_had(tmp_path: Path) -> None:
    before, now = measured(), Report()
    Kept(tmp_path, "commit 5").keep("apples", before)
    now.part("Apples")
    assert Kept(tmp_path, "commit 5").restore("apples", now)
    assert now.results == before.results
    *notes, told = now.notes["Apples"]
    assert notes == before.notes["Apples"]
    assert re.fullmatch(r"A run that ended early measured this part; it was done at [\d-]+ [\d:]+ UTC\.", told)
    kept = Kept(tmp_path, "commit 5")
    assert not kept.restore("pears", now)
    assert kept.restored == []
    assert kept.restore("apples", now)
    assert kept.restored == ["apples"]
    kept.clear()
    assert not kept.restore("apples", now)


@pytest.mark.parametrize("key", ["commit 6", "commit 5-dirty"])
def test_parts_of_another_commit_or_of_changed_files_are_not_taken(tmp_path: Path, key: str) -> None:
    for kept in Kept(tmp_path, "commit 5"), Kept(tmp_path, "commit 5-dirty"):
        kept.keep("apples", measured())
    assert not Kept(tmp_path, key).restore("apples", Report())
