"""The rooms of the relay and of its core, and their floors. `python -m tests.project.layers` prints figures.

A room is a folder. A process file, or a module that users import, is a room of its own. A room imports from floors
below its own. The table below is the plan; `arrows()` finds the actual imports.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import ROOT

# From the ground up.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("_native", "base"),
    ("errors", "config", "datadir", "ddl", "protocol"),
    ("client", "journal", "linelog", "net", "source"),
    ("binlog.events", "runtime"),
    ("queues", "schema", "serving"),
    ("binlog.bodies",),
    ("binlog",),
    ("ingest",),
    ("lake", "repair", "verify"),
    ("lake.delta", "lake.snapshot", "monitoring", "page", "spark"),
    ("cdc", "commands.text"),
    ("reader", "broker", "server", "monitor", "processes"),
    ("children",),
    ("supervisor", "commands.checks"),
    ("commands",),
    ("cli",),
    ("__main__",),
)
CORE: tuple[tuple[str, ...], ...] = (
    ("base",),
    ("values",),
    ("journal",),
    ("queue",),
    ("binlog", "formats"),
    ("serve",),
    ("python",),
)
EVERYWHERE = frozenset({"_native", "base"})
"""What every room uses: the core, the error type, and the log. The figures count the other arrows on their own, too."""

Arrow = tuple[str, str]


def module_name(path: Path) -> str:
    """relay/protocol/classic.py -> relay.protocol.classic"""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted((ROOT / "relay").rglob("*.py"))}
PACKAGES = frozenset(name for name, path in MODULES.items() if path.name == "__init__.py")
NATIVE = ROOT / "native"
HEADERS = sorted(
    path
    for path in NATIVE.rglob("*")
    if path.suffix in {".hpp", ".pyx", ".pxd"} or (path.suffix == ".cpp" and NATIVE / "python" not in path.parents)
)


@cache
def imports(module: str) -> frozenset[str]:
    """Every module that the source of `module` imports, anywhere in it; of our own, modules and not names in them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import on line {node.lineno}"
            base = node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in MODULES or full == "relay._native" else base)
    return frozenset(found)


def ours(module: str) -> list[str]:
    """The modules of the relay that `module` imports."""
    return sorted(name for name in imports(module) if name.split(".")[0] == "relay" and name != "relay")


def room(module: str) -> str:
    """The room of a module: its folder, or itself where it stands loose."""
    parts = module.split(".")[1:]
    return ".".join(parts if module in PACKAGES or len(parts) < 2 else parts[:-1])


def arrows() -> Counter[Arrow]:
    """Which room imports from which, and in how many places."""
    pairs = ((room(module), room(name)) for module in MODULES for name in ours(module) if module != "relay")
    return Counter(pair for pair in pairs if pair[0] != pair[1])


def includes(path: Path) -> Iterator[str]:
    """The folders of the core that one of its files includes from."""
    for found in re.finditer(r'(?:#include|cdef extern from) "([a-z]+)/[a-z0-9_]+\.hpp"', path.read_text()):
        yield found[1]


def core_room(path: Path) -> str:
    """The room of a file of the core: its folder in native/, however deep it stands there."""
    return path.relative_to(NATIVE).parts[0]


def core_arrows() -> Counter[Arrow]:
    """Which folder of the core includes from which, and in how many files."""
    pairs = {(core_room(path), other, path) for path in HEADERS for other in includes(path)}
    return Counter((here, other) for here, other, _ in pairs if here != other)


def upward(found: Counter[Arrow], floors: tuple[tuple[str, ...], ...]) -> list[str]:
    """The arrows that do not go down, as text."""
    height = {name: floor for floor, names in enumerate(floors) for name in names}
    return [f"{here} -> {other}" for here, other in sorted(found) if height[other] >= height[here]]


def main() -> int:
    """Prints the figures; 1 if an arrow goes up."""
    found, core = arrows(), core_arrows()
    rooms = {name for arrow in found for name in arrow}
    inner = [arrow for arrow in found if arrow[1] not in EVERYWHERE]
    loose = [name for name in MODULES if name.count(".") < 2 and name not in PACKAGES]
    up = upward(found, FLOORS) + upward(core, CORE)
    print(f"{len(MODULES)} modules, {len(loose)} of them loose; {len(rooms)} rooms, {len(FLOORS)} floors")
    print(f"{len(found)} arrows between rooms, {len(inner)} without those to {', '.join(sorted(EVERYWHERE))}")
    print(f"core: {len(HEADERS)} files, {len(CORE)} floors, {len(core)} arrows")
    print(f"{len(up)} arrows go up{''.join(f'; {arrow}' for arrow in up)}")
    return int(bool(up))


if __name__ == "__main__":
    sys.exit(main())
