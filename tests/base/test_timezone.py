"""The zone in which a process prints TIMESTAMP values."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from relay.base.timezone import set_process_zone

SUMMER, WINTER = 1719835200, 1704110400  # noon UTC in July and in January 2024


@pytest.fixture(autouse=True)
def zone_of_now(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC0")
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("name", "summer", "winter"),
    [
        ("UTC", 0, 0),
        ("+02:00", 7200, 7200),
        ("-3:30", -12600, -12600),
        ("+14:00", 50400, 50400),
        ("Europe/Brussels", 7200, 3600),
        ("Asia/Kolkata", 19800, 19800),
    ],
)
def test_names_and_offsets_are_zones(name: str, summer: int, winter: int) -> None:
    set_process_zone(name)
    assert (time.localtime(SUMMER).tm_gmtoff, time.localtime(WINTER).tm_gmtoff) == (summer, winter)
