"""A finding of `relay check`: a level, a subject, a text, and a remedy."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from relay.base.errors import printable


class Level(StrEnum):
    """How serious a finding is. Only `fail` prevents the relay from working."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One result of the checks."""

    level: Level
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        """`level  subject: text (remedy: ...)`, one line."""
        remedy = f" (remedy: {self.remedy})" if self.remedy else ""
        return printable(f"{self.level:<5} {self.subject}: {self.text}{remedy}")


def ok(subject: str, text: str) -> Finding:
    """Return a finding that needs no remedy."""
    return Finding(Level.OK, subject, text)


def warning(subject: str, text: str, remedy: str) -> Finding:
    """Return a finding with which the relay works."""
    return Finding(Level.WARN, subject, text, remedy)


def failed(subject: str, text: str, remedy: str) -> Finding:
    """Return a finding that prevents the relay from working."""
    return Finding(Level.FAIL, subject, text, remedy)


def gib(count: float) -> str:
    """Return a size in GiB, or in MiB below one."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
