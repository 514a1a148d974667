"""Shared by the tests: servers, relays, clients, journals and lakes."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The repository."""

FIXTURES = ROOT / "tests" / "fixtures"
