"""The rules that keep it a house: imports go downwards, codecs do no I/O, process shells know nothing of each other."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# From top to bottom; a module may import from its own layer and from those below. The first pattern that fits counts.
LAYERS: dict[str, tuple[str, ...]] = {
    "command line": (
        "relay.__main__",
        "relay.cli",
        "relay.verbs",
        "relay.runverbs",
        "relay.adminverbs",
        "relay.cdcverbs",
        "relay.lakeverbs",
        "relay.sparkverbs",
        "relay.check",
        "relay.tail",
    ),
    "supervisor": ("relay.supervisor", "relay.children"),
    "processes": (
        "relay.reader",
        "relay.broker",
        "relay.server",
        "relay.monitor",
        "relay.exporter",
        "relay.snapshotter",
        "relay.logger",
        "relay.process",
    ),
    "codecs": (
        "relay.wire.*",
        "relay.binlog",
        "relay.binlog.*",
        "relay.ddl",
        "relay.ddl.*",
        "relay.journal.frames",
        "relay.lake.documents",
        "relay.lake.statements",
        "relay.lake.types",
        "relay.schema",
        "relay.schema.*",
    ),
    "foundation": (
        "relay",
        "relay._native",
        "relay.board",
        "relay.config",
        "relay.config_keys",
        "relay.errors",
        "relay.inifile",
        "relay.journal",
        "relay.log",
        "relay.logevents",
        "relay.messages",
        "relay.queues",
        "relay.settings",
        "relay.statefile",
        "relay.wire",
    ),
    "contexts": ("relay.context",),
    "parts": ("relay.*",),
}
ORDER = ["command line", "supervisor", "processes", "parts", "contexts", "codecs", "foundation"]
SHELLS = {"relay.reader", "relay.broker", "relay.server", "relay.monitor", "relay.exporter", "relay.snapshotter"}
SHELLS |= {"relay.logger"}
# What talks to a server or keeps something on disk; all else beside it parses.
_TALKING = ("catalog", "connect", "dump", "facts", "files", "lineage", "login", "reading", "sources", "stream")
DOING_IO = {f"relay.binlog.{name}" for name in _TALKING}
DOING_IO |= {f"relay.schema.{name}" for name in ("look", "restore", "store")}
IO = {"asyncio", "io", "mmap", "multiprocessing", "os", "pathlib", "pymysql", "select", "selectors", "shutil", "signal"}
IO |= {"socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time"}


def name_of(path: Path) -> str:
    """relay/wire/classic.py -> relay.wire.classic"""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted((ROOT / "relay").rglob("*.py"))}


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


def layer(module: str) -> str:
    """The layer that `module` stands in."""
    return next(name for name, patterns in LAYERS.items() if any(fnmatch(module, pattern) for pattern in patterns))


def ours(module: str) -> list[str]:
    """The modules of the relay that `module` imports."""
    return sorted(name for name in imports(module) if name.split(".")[0] == "relay")


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_downwards_only(module: str) -> None:
    here = ORDER.index(layer(module))
    upwards = [name for name in ours(module) if ORDER.index(layer(name)) < here]
    assert not upwards, f"{module} ({layer(module)}) imports {[f'{name} ({layer(name)})' for name in upwards]}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter({module: ours(module) for module in MODULES}).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("module", sorted(SHELLS & set(MODULES)))
def test_no_process_shell_imports_another(module: str) -> None:
    seen, todo = set[str](), [module]
    while todo:
        for name in ours(todo.pop()):
            if name in MODULES and name not in seen:
                seen.add(name)
                todo.append(name)
    assert not seen & (SHELLS - {module})


@pytest.mark.parametrize("module", [name for name in MODULES if layer(name) == "codecs" and name not in DOING_IO])
def test_codecs_take_and_give_bytes_and_do_no_io(module: str) -> None:
    assert not {name.split(".")[0] for name in imports(module)} & IO


def test_the_parsing_half_of_the_binlog_comes_without_sockets_and_drivers() -> None:
    program = (
        "import sys\n"
        "from relay.binlog import Decoder, Flag, GtidSet, Replication, events\n"
        "import relay.binlog.packets, relay.binlog.progress\n"
        "heavy = {'socket', 'ssl', 'pymysql', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, f'decoding events imports {heavy}'\n"
        "from relay.binlog import Stream\n"
        "assert 'pymysql' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)


def test_supervisor_is_single_threaded_when_it_forks() -> None:
    program = (
        "import sys, os, relay.supervisor, relay.verbs\n"
        "assert len(os.listdir('/proc/self/task')) == 1, 'importing relay.supervisor starts threads'\n"
        "heavy = {'pyarrow', 'pyspark', 'asyncio', 'concurrent.futures', 'tornado', 'prometheus_client'}\n"
        "heavy |= {'pymysql', 'http.client'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, f'relay.supervisor imports {heavy}'\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)


@pytest.mark.parametrize("source", sorted((ROOT / "relay" / "native").glob("*.[ch]pp")), ids=lambda path: path.name)
def test_the_native_core_knows_nothing_of_python(source: Path) -> None:
    if source.name == "_native.cpp":  # the wrapper, as Cython wrote it
        return
    assert not re.search(r'#include\s*[<"](Python|cython|structmember)', source.read_text())
