"""The C++ tests of the core, under the sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.built_once import built_once
from tests.support.core_tests import PROGRAMS, compile_test

SANITIZED = ("g++", "-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the compiled programs."""

    def compile_all(folder: Path) -> Path:
        for name in PROGRAMS:
            compile_test(name, folder, SANITIZED)
        return folder

    return built_once("core", compile_all)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_core_is_right_under_the_sanitizers(name: str, programs: Path) -> None:
    done = subprocess.run([programs / f"{name}_test"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
