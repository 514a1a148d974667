"""A clone's build compiles units that have changed, no others, and leaves nothing of the machine in the extension."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relay import _native
from tests.support import ROOT

BASE = ["base/crc.cpp", "base/crc_arm.cpp", "base/crc_x86.cpp", "base/numbers.cpp"]
QUEUE = ["queue/arena.cpp"]
SOURCES = [*BASE, *QUEUE]  # two units
# It preprocesses instead of compiling, so that it knows what a file includes, and links nothing.
COMPILER = """\
#!/bin/bash
arguments=()
for each; do
  [ "$each" = -c ] && each=-E
  [ "$last" = -o ] && output=$each
  last=$each
  arguments+=("$each")
done
case " $* " in
  *" -shared "*) echo "link $*" >>calls; touch "$output" ;;
  *) for each; do case $each in *.cpp) echo "$each" >>calls ;; esac; done; exec g++ "${arguments[@]}" ;;
esac
"""


class Clone:
    """Some sources of the core with the build, and a compiler that tells what it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "relay").mkdir(parents=True)
        shutil.copy(ROOT / "setup.py", folder)
        files = [*SOURCES, *(str(path.relative_to(ROOT / "native")) for path in (ROOT / "native").glob("*/*.hpp"))]
        for file in [*files, "values/charsets.bin"]:
            (folder / "native" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / "native" / file, folder / "native" / file)
        self.compiler = folder.with_name("compiler")  # a path without a blank
        self.compiler.write_text(COMPILER)
        self.compiler.chmod(0o755)

    def build(self, flags: str = "") -> list[str]:
        """Build; the files that were compiled."""
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        for built in [*self.folder.rglob("*.so")]:
            built.unlink()
        done = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace"], cwd=self.folder, capture_output=True, text=True,
            check=False, env=os.environ | {"CXX": str(self.compiler), "CXXFLAGS": flags},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        *compiled, self.linked = calls.read_text().splitlines()
        return sorted(file.removeprefix("native/") for file in compiled)

    def add(self, file: str, lines: int) -> None:
        (self.folder / "native" / file).write_text("\n" * lines)

    def remove(self, file: str) -> None:
        (self.folder / "native" / file).unlink()

    def objects(self) -> list[Path]:
        return [*(self.folder / "build").rglob("*.o")]

    def change(self, file: str) -> None:
        path = self.folder / "native" / file
        path.write_text(path.read_text() + "\n")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "a clone")


def test_only_what_has_changed_is_compiled(clone: Clone) -> None:
    assert clone.build() == SOURCES
    assert clone.build() == []
    clone.change("base/numbers.cpp")
    assert clone.build() == BASE
    clone.change("base/words.hpp")
    assert clone.build() == QUEUE
    next((clone.folder / "build").rglob("crc.o")).unlink()
    assert clone.build() == BASE
    assert clone.build("-DANOTHER") == SOURCES
    clone.compiler.touch()
    assert clone.build("-DANOTHER") == SOURCES, "another release of the compiler"
    assert all(unit[0].replace(".cpp", ".o") in clone.linked for unit in (BASE, QUEUE)), "what was kept is linked, too"


def test_a_unit_is_not_much_longer_than_a_file(clone: Clone) -> None:
    for number in range(40):
        clone.add(f"base/more_{number}.cpp", lines=100)
    assert len(clone.build()) == len(SOURCES) + 40
    clone.change("base/more_39.cpp")
    unit = clone.build()
    assert 1 < len(unit) <= 15
    for file in unit:
        clone.remove(file)
    clone.build()
    assert len(clone.objects()) == len(clone.linked.split(".o ")) - 1, "no object of a source that is gone is left"


def test_a_header_that_is_gone_is_no_reason_to_take_the_old_object(clone: Clone) -> None:
    clone.build()
    (clone.folder / "native/base/words.hpp").rename(clone.folder / "native/base/words2.hpp")
    path = clone.folder / "native/queue/arena.hpp"
    path.write_text(path.read_text().replace("base/words.hpp", "base/words2.hpp"))
    path = clone.folder / "native/queue/deliveries.hpp"
    path.write_text(path.read_text().replace("base/words.hpp", "base/words2.hpp"))
    assert clone.build() == QUEUE


def test_the_extension_has_no_symbols_and_no_path_of_the_machine() -> None:
    content = Path(_native.__file__).read_bytes()
    assert b".symtab" not in content and b".debug_info" not in content
    assert str(ROOT).encode() not in content
