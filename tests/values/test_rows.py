"""The native test of row images, under the sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import ROOT

NATIVE = ROOT / "native"
PARTS = ("base/inflate", "values/charset", "values/definition", "values/layout", "values/rows")
FLAGS = ("-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{NATIVE}")


def test_row_images_are_stepped_over_exactly(tmp_path: Path) -> None:
    program = tmp_path / "rows_test"
    sources = [ROOT / "tests" / "native" / "rows_test.cpp", *(NATIVE / f"{part}.cpp" for part in PARTS)]
    subprocess.run(["g++", *FLAGS, "-o", program, *sources, "-lz"], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
