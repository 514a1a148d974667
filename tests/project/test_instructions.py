"""`make bench-instructions` fails if a row takes more instructions than were recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import instructions

RECORDED = {"text-narrow": 1000.0, "text-wide": 2000.0}


@pytest.mark.parametrize(
    ("counted", "compiler", "code", "said"),
    [
        ({"text-narrow": 1049.0, "text-wide": 1500.0}, "c++ 12", 0, "text-wide 2000.0 1500.0 0.750"),
        ({"text-narrow": 1051.0, "text-wide": 2000.0}, "c++ 12", 1, "more instructions than before: text-narrow;"),
        ({"text-narrow": 1051.0, "text-wide": 2000.0}, "c++ 13", 0, "not compared: recorded with c++ 12"),
        ({"text-narrow": 1000.0, "another": 5.0}, "c++ 12", 0, "another - 5.0 new"),
    ],
)
def test_a_workload_that_got_dearer_fails(
    counted: dict[str, float], compiler: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = tmp_path / "instructions.json"
    recorded.write_text(json.dumps({"compiler": "c++ 12", "counts": RECORDED}))
    monkeypatch.setattr(instructions, "RECORDED", recorded)
    monkeypatch.setattr(instructions, "count", lambda root: counted)
    monkeypatch.setattr(instructions, "compiler", lambda: compiler)
    done = CliRunner().invoke(instructions.main)
    assert done.exit_code == code, done.output
    assert said in " ".join(done.output.split())
