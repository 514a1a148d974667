"""The workflows call targets of the Makefile, run fixed versions of actions, and may only read."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").iterdir())
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def read(workflow: Path) -> dict[str, Any]:
    """A workflow as it stands."""
    found: dict[str, Any] = YAML(typ="safe").load(workflow)
    return found


def called(job: dict[str, Any]) -> Iterator[str]:
    """The targets that a job makes."""
    for step in job.get("steps", ()):
        for target in re.findall(r"\bmake (\$\{\{ matrix\.target \}\}|[a-z-]+)", step.get("run", "")):
            yield from job["strategy"]["matrix"]["target"] if target.startswith("$") else [target]


def test_each_step_makes_a_target_that_exists() -> None:
    found = {target for workflow in WORKFLOWS for job in read(workflow)["jobs"].values() for target in called(job)}
    assert {"test-core", "coverage", "test-browser", "kill", "wheels"} <= found
    assert not found - TARGETS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_named_by_its_commit_and_a_job_may_only_read(workflow: Path) -> None:
    actions = re.findall(r"uses: (\S+)(.*)", workflow.read_text())
    assert actions
    for action, comment in actions:
        assert action.startswith("./") or (
            re.search(r"@[0-9a-f]{40}$", action) and re.fullmatch(r" # v\d+\.\d+\.\d+", comment)
        )
    whole = read(workflow)
    assert whole["permissions"] == {"contents": "read"}
    others = {name: job["permissions"] for name, job in whole["jobs"].items() if "permissions" in job}
    assert others in ({}, {"publish": {"id-token": "write"}})


@pytest.mark.parametrize(
    ("schema", "pattern"), [("github-workflows", "workflows/*.yml"), ("github-issue-forms", "ISSUE_TEMPLATE/*.yml")]
)
def test_the_files_are_as_github_expects_them(schema: str, pattern: str) -> None:
    files = [str(file) for file in GITHUB.glob(pattern)]
    checker = Path(sys.executable).parent / "check-jsonschema"
    done = subprocess.run(
        [checker, "--builtin-schema", f"vendor.{schema}", *files], capture_output=True, text=True, check=False
    )
    assert files and done.returncode == 0, done.stdout


def test_the_summary_shows_coverage_and_the_slowest_tests(tmp_path: Path) -> None:
    log = tmp_path / "coverage.log"
    log.write_text(
        "....\n"
        "============= slowest 25 durations =============\n"
        "9.99s call     tests/whole/test_relay.py::test_a\n"
        "============= 2 passed in 12.00s =============\n"
        "Name    Stmts   Miss  Cover\nTOTAL     100     10    90%\n"
    )
    done = subprocess.run([ROOT / "scripts/ci-summary.sh", log], capture_output=True, text=True, check=False)
    assert "2 passed in 12.00s" in done.stdout
    assert "### Slowest tests\n\n```\n9.99s call     tests/whole/test_relay.py::test_a\n```" in done.stdout
    assert "### Coverage\n\n```\nTOTAL     100     10    90%\n```" in done.stdout
