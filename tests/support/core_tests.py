"""The C++ tests of the core: the sources of each program, compiled by any compiler for any processor."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support import ROOT

_NATIVE: Final = ROOT / "native"
_TESTS: Final = ROOT / "tests" / "native"
_CRC: Final = ("base/crc", "base/crc_x86", "base/crc_arm")
_ROWS: Final = ("base/inflate", "values/charset", "values/definition", "values/layout", "values/rows")
# What each program needs of the core. The queue's tests have programs of their own (tests/queues).
PROGRAMS: Final = {
    "checksums": _CRC,
    "journal": (
        *_CRC, *_ROWS, "base/gtid", "base/gtid_set", "journal/journal", "journal/journal_recovery",
        "journal/journal_writer", "journal/segment", "journal/sync_note", "journal/unreadable",
    ),
    "row_cache": ("serve/row_cache",),
    "row_waits": (),
    "rows": _ROWS,
    "values": (*_ROWS, "base/numbers", "values/json", "values/json_format", "values/temporal"),
}  # fmt: skip


def compile_test(name: str, folder: Path, compiler: Sequence[str]) -> Path:
    """Compile the program `name` into the folder with this compiler and its flags.

    Programs in one folder share what they need of the core.
    """
    program = folder / f"{name}_test"
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Wshadow", "-Werror", f"-I{_NATIVE}")
    objects = []
    for source in (_TESTS / f"{name}_test.cpp", *(_NATIVE / f"{part}.cpp" for part in PROGRAMS[name])):
        objects.append(made := folder / f"{source.parent.name}-{source.stem}.o")
        if not made.exists():
            subprocess.run([*compiler, *flags, "-c", source, "-o", made], check=True)
    subprocess.run([*compiler, *objects, "-o", program, "-lz"], check=True)
    return program
