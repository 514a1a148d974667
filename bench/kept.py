"""The finished parts of a whole run, so that the next `make bench` of this commit continues one that ended early."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.report import Report, Result

BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass
class Part:
    """What a part adds to the report, and when it was measured."""

    measured: datetime
    results: list[Result]
    notes: list[str]


class Kept:
    """Finished parts in `folder`, of the same commit, scale and rounds (`key`) since the machine was started.

    `restored` names those that came from there.
    """

    def __init__(self, folder: Path, key: str) -> None:
        name = hashlib.sha256(f"{BOOT.read_text()} {key}".encode()).hexdigest()[:16]
        self._folder = folder / name
        self._usable = "dirty" not in key
        self.restored: list[str] = []

    def restore(self, name: str, report: Report) -> bool:
        """Add a part to the report, if it is kept, with a note of when it was measured."""
        path = self._folder / f"{name}.json"
        if not self._usable or not path.exists():
            return False
        part = msgspec.json.decode(path.read_bytes(), type=Part)
        when = f"{part.measured:%Y-%m-%d %H:%M} UTC"
        report.add(part.results, [*part.notes, f"A run that ended early measured this part; it was done at {when}."])
        self.restored.append(name)
        return True

    def keep(self, name: str, report: Report) -> None:
        """Keep the part that the report has last."""
        if self._usable:
            self._folder.mkdir(parents=True, exist_ok=True)
            part = Part(datetime.now(UTC), *report.last())
            (self._folder / f"{name}.json").write_bytes(msgspec.json.encode(part))

    def clear(self) -> None:
        """Forget all parts: the record has them."""
        shutil.rmtree(self._folder, ignore_errors=True)
