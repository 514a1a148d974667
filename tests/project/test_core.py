"""The C++ tests of the core, under the sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.core_tests import PROGRAMS, compile_test

SANITIZED = ("g++", "-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_core_is_right_under_the_sanitizers(name: str, tmp_path: Path) -> None:
    done = subprocess.run([compile_test(name, tmp_path, SANITIZED)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
