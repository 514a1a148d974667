"""The map has every room, in the order of the floors, and stays one that takes ten minutes."""

from __future__ import annotations

import re

from tests.project.layers import CORE, FLOORS
from tests.support import ROOT

MAP = (ROOT / "ARCHITECTURE.md").read_text()


def rooms(folder: str) -> list[str]:
    """The rooms in the table of a folder, as tests/project/layers.py names them."""
    table = MAP.partition(f"of `{folder}/` | what it is |\n")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[1:]]
    names = [name for cell in cells for name in re.findall(r"`([\w./]+)`", cell)]
    return [name.removesuffix(".py").strip("/").replace("/", ".") for name in names]


def in_order(found: list[str], floors: tuple[tuple[str, ...], ...]) -> bool:
    """Whether all rooms of all floors are there once, lower floors first."""
    height = {name: floor for floor, names in enumerate(floors) for name in names}
    return sorted(found) == sorted(height) and found == sorted(found, key=height.__getitem__)


def test_every_room_is_on_the_map_in_the_order_of_its_floor() -> None:
    assert in_order(rooms("relay"), FLOORS)


def test_every_folder_of_the_core_is_on_the_map_in_the_order_of_its_floor() -> None:
    assert in_order([name.partition(".")[0] for name in rooms("native")], CORE)


def test_the_map_takes_ten_minutes() -> None:
    assert len(MAP.splitlines()) <= 150
    assert len(re.findall(r"^\d+\. \*\*", MAP.partition("## Ten invariants")[2], re.MULTILINE)) == 10
