"""How `make audit` interprets pip-audit's output, without a network."""

from __future__ import annotations

from typing import Any

import pytest

from tests.project.audit import verdict

GOOD: dict[str, Any] = {"name": "click", "version": "8", "vulns": []}
BAD: dict[str, Any] = {
    "name": "tornado", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2", "3"], "aliases": []}],
}  # fmt: skip
SKIPPED: dict[str, Any] = {"name": "msgspec", "skip_reason": "not found on PyPI and could not be audited"}


@pytest.mark.parametrize(
    ("packages", "offline", "code", "word"),
    [
        ([GOOD], False, 0, "no known vulnerability in 1 packages"),
        ([GOOD, BAD], True, 1, "tornado 1: PYSEC-1 (mended in: 2, 3)"),
        ([GOOD, SKIPPED], False, 2, "1 of 2 packages could not be looked up"),
        ([GOOD, SKIPPED], True, 2, "1 of 2 packages could not be looked up"),
        ([SKIPPED], False, 2, "1 of 1 packages could not be looked up"),
        ([SKIPPED], True, 0, "1 of 1 packages could not be looked up"),
        ([SKIPPED, BAD], True, 1, "PYSEC-1"),
    ],
)
def test_silence_is_no_good_news(packages: list[dict[str, Any]], offline: bool, code: int, word: str) -> None:
    found, lines = verdict({"a.lock": {"dependencies": packages}}, offline)
    assert found == code
    assert any(word in line for line in lines), lines
