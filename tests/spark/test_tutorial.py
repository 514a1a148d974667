"""docs/lake-tutorial.md works, from `make demo-lake KEEP=1` to its last block."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.waiting import patience

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script(page: str) -> tuple[str, list[str]]:
    """The page's blocks of Python and of commands as one program, and the tables that it must print, in their order."""
    lines, tables = [], []
    for language, text in BLOCK.findall(page):
        if language == "python":
            lines.append(text)
        elif language == "sh":
            # In the tutorial's .venv, or wherever the test runs.
            run = re.sub(r"(\.\./)?\.venv/bin/", f"{Path(sys.executable).parent}/", text)
            lines.append(f"import subprocess\nsubprocess.run({run!r}, shell=True, check=True)\n")
        elif text.startswith("+-"):
            tables.append(text.strip())
    return "\n".join(lines), tables


@pytest.mark.streams
@pytest.mark.timeout(400)
def test_every_command_and_block_of_the_tutorial_does_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "lake-tutorial.md").read_text()
    program, tables = script(page)
    here = {**os.environ, "PYTHONPATH": str(ROOT), "KEEP": "1", "TMPDIR": str(tmp_path)}
    demo = subprocess.Popen(
        [sys.executable, "-m", "examples.demo_lake"], cwd=ROOT, env=here, stdout=subprocess.PIPE, text=True
    )
    assert demo.stdout is not None
    try:
        said = []
        for line in demo.stdout:
            said.append(line)
            if line.startswith("export LAKE="):
                break
        assert said[-1].startswith("export "), "".join(said)
        here |= dict(each.split("=", 1) for each in said[-1].split()[1:])
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=here, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    finally:
        demo.send_signal(signal.SIGINT)  # it stops its relay and its server
        rest = demo.communicate(timeout=patience(60))[0]
    assert demo.returncode == 0, rest
    assert len(tables) == 6
    for table in tables:
        assert table in done.stdout, f"the page has\n{table}\nand what came was\n{done.stdout}"
    assert (tmp_path / "spent.png").stat().st_size > 1000
    plots = list(tmp_path.glob("relay-usage-*.png"))
    assert len(plots) == 1 and str(plots[0]) in rest
