"""Both drivers of the fuzzers keep the input of a target that fails, name it, and go on with the next target."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.fuzz import __main__ as driver
from tests.fuzz.guided import Target
from tests.support import ROOT

_TARGET = """
#include "fuzz.hpp"
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {{
  REQUIRE(!size || data[0] != {fatal});
  return 0;
}}
std::vector<std::string> fuzz_seeds() {{ return {{"seed"}}; }}
"""
_NEVER = 256  # no byte


class Tree:
    """A tree with the script, its driver, an empty core, and targets that a test writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("scripts/fuzz.sh", "tests/fuzz/driver.cpp", "tests/fuzz/fuzz.hpp"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
        for name in ("native/base/core.cpp", "native/base/core.hpp", "tests/native/core.hpp"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()

    def write(self, name: str, text: str) -> None:
        (self.root / "tests" / "fuzz" / f"{name}.cpp").write_text(text)

    def fuzz(self, *targets: str, count: int = 200) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "scripts" / "fuzz.sh", *targets],
            env=os.environ | {"FUZZ_COUNT": str(count), "FUZZ_SEED": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    def kept(self, target: str) -> list[Path]:
        return sorted((self.root / "tests" / "fuzz" / "crashers" / target).glob("*"))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_native_driver_keeps_a_crashing_input_and_goes_on(tree: Tree) -> None:
    tree.write("bad", _TARGET.format(fatal=ord("z")))
    tree.write("broken", "no program")
    tree.write("good", _TARGET.format(fatal=_NEVER))
    done = tree.fuzz(count=20_000)
    assert done.returncode == 1, done.stderr
    [path] = tree.kept("bad")
    assert path.read_bytes().startswith(b"z")
    assert path.name == sha256(path.read_bytes()).hexdigest()[:16]
    assert f"fuzz: bad crashed; the input is tests/fuzz/crashers/bad/{path.name}\n" in done.stderr
    assert "fuzz: broken does not compile\n" in done.stderr
    assert "fuzz: good, seed 1, 0 kept inputs, 20000x\n20000 inputs, " in done.stdout
    assert done.stderr.endswith("fuzz: failed: bad broken\n")

    # A kept input runs first, and the targets share it that name the folder.
    (tree.root / "tests" / "fuzz" / "crashers" / "good").write_text("bad\n")
    tree.write("good", _TARGET.format(fatal=ord("z")))
    done = tree.fuzz("good", count=1)
    assert done.returncode == 1
    assert f"the input is tests/fuzz/crashers/bad/{path.name}\n" in done.stderr
    assert tree.kept("bad") == [path]


def test_the_native_driver_passes_if_all_targets_pass_and_says_if_the_core_does_not_compile(tree: Tree) -> None:
    tree.write("good", _TARGET.format(fatal=_NEVER))
    done = tree.fuzz()
    assert (done.returncode, done.stderr) == (0, "")
    (tree.root / "native" / "base" / "core.cpp").write_text("no program")
    done = tree.fuzz()
    assert done.returncode == 1
    assert done.stderr.endswith("fuzz: the core does not compile\n")


def _failing(fails: Callable[[], object]) -> Callable[[], Target]:
    def run(content: bytes) -> None:
        if content[:1] == b"z":
            fails()

    return lambda: Target(run, [b"seed", b"zebra"], ())


def test_the_python_driver_keeps_a_failing_input_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    targets = {
        "raising": _failing(lambda: 1 // 0),
        "killing": _failing(lambda: os.kill(os.getpid(), signal.SIGKILL)),
        "good": _failing(lambda: None),
    }
    monkeypatch.setattr(driver, "TARGETS", targets)
    monkeypatch.setattr(driver, "CRASHERS", tmp_path)
    monkeypatch.setenv("FUZZ_COUNT", "10")
    monkeypatch.setenv("FUZZ_SEED", "1")
    assert driver.main([]) == 1
    name = sha256(b"zebra").hexdigest()[:16]
    assert (tmp_path / "raising" / name).read_bytes() == (tmp_path / "killing" / name).read_bytes() == b"zebra"
    out, err = capfd.readouterr()
    assert "ZeroDivisionError" in err
    assert f"fuzz: raising failed; the input is {tmp_path / 'raising' / name}\n" in err
    assert f"fuzz: killing died of SIGKILL; the input is {tmp_path / 'killing' / name}\n" in err
    assert err.endswith("fuzz: failed: raising killing\n")
    assert "fuzz: good, seed 1, 0 kept inputs, 10x\n10 inputs, " in out
    assert driver.main(["good"]) == 0
