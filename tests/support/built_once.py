"""Programs that tests compile: each is built once for the sources that it is made of, by the first that needs it."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.support import ROOT

_FOLDER: Final = ROOT / "build" / "tests"
# All that a program may be made of, and what compiles it.
_SOURCES: Final = (
    "native/*/*.*", "tests/native/*", "tests/queues/*ring_*.py", "tests/project/test_core.py",
    "tests/support/core_tests.py",
)  # fmt: skip


def built_once(name: str, build: Callable[[Path], Path]) -> Path:
    """Return what `build` made in the folder that it is given. Other workers and later runs use it too."""
    folder = _FOLDER / name / _digest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = folder / "built"
        if not note.exists():
            for old in folder.parent.glob("*/"):  # of other sources, or of a build that failed
                shutil.rmtree(old)
            folder.mkdir()
            note.write_text(str(build(folder)))
    return Path(note.read_text())


def _digest() -> str:
    digest = sha256()
    for path in sorted(path for pattern in _SOURCES for path in ROOT.glob(pattern)):
        digest.update(f"{path}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
