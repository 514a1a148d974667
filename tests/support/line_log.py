"""The log of a journal that a test writes, and what is in its files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from relay.linelog.linelog import LineLog, Settings
from tests.support.csv_lines import content, csv_lines
from tests.support.journal_builder import Made


def linelog(made: Made, folder: Path, **settings: Any) -> LineLog:
    made.flush()
    return LineLog(made.folder, Settings(**({"path": str(folder), "schemas": ["*"]} | settings)))


def log(made: Made, folder: Path, **settings: Any) -> LineLog:
    """All that is in the journal; the log, as the process would leave it when it is killed."""
    engine = linelog(made, folder, **settings)
    while not engine.step().caught_up:
        pass
    return engine


def ids(folder: Path) -> list[int]:
    return [int(line[5].text) for line in csv_lines(content(folder)) if line[3].text == b"I"]


def ids_in(file: Path) -> list[int]:
    return [int(line[5].text) for line in csv_lines(file.read_bytes())]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("relaylogs-*"))


def day(timestamp: int) -> str:
    return time.strftime("%Y%m%d", time.gmtime(timestamp))
