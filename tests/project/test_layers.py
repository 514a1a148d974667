"""The rules of the source tree: imports go downwards, codecs do no I/O, process files do not import each other."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.project import layers
from tests.project.layers import CORE, FLOORS, HEADERS, MODULES, core_room, imports, ours, room
from tests.support import ROOT
from tests.support.waiting import patience

SHELLS = {f"relay.{name}" for name in ("reader", "broker", "server", "monitor")}
SHELLS |= {f"relay.processes.{name}" for name in ("exporter", "snapshotter", "row_logger", "cdc")}
CODECS = {"protocol", "binlog.events", "binlog.bodies", "binlog", "ddl", "schema"}
# What talks to a server or keeps something on disk; all else beside it parses.
DOING_IO = {f"relay.binlog.{name}" for name in ("dump", "files", "follow", "position_file", "stream")}
DOING_IO |= {f"relay.schema.{name}" for name in ("restore", "source_tables", "store")}
PARSING = {module for module in MODULES if room(module) in CODECS} - DOING_IO
PARSING |= {"relay.journal.frames", "relay.lake.documents", "relay.lake.statements", "relay.lake.types"}
PARSING |= {"relay.source.commands"}
IO = {"asyncio", "io", "mmap", "multiprocessing", "os", "pathlib", "pymysql", "select", "selectors", "shutil", "signal"}
IO |= {"socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time"}


def test_rooms_import_from_the_floors_below_only() -> None:
    assert not layers.upward(layers.arrows(), FLOORS)


def test_folders_of_the_core_include_from_the_floors_below_only() -> None:
    assert not layers.upward(layers.core_arrows(), CORE)


def test_no_module_stands_in_a_room_that_is_not_on_the_plan() -> None:
    planned = {name for names in FLOORS for name in names}
    assert {room(module) for module in MODULES if module != "relay"} <= planned
    assert {core_room(path) for path in HEADERS} == {name for names in CORE for name in names}


@pytest.mark.parametrize(
    ("heading", "floors"),
    [("| room of `relay/` |", FLOORS), ("| folder of `native/` |", CORE)],
    ids=["relay", "native"],
)
def test_the_map_lists_the_rooms_from_the_ground_up(heading: str, floors: tuple[tuple[str, ...], ...]) -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text().partition(heading)[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    shown = [name.removesuffix(".py").strip("/").replace("/", ".") for name in re.findall("`(.+?)`", "".join(cells))]
    height = {name: floor for floor, names in enumerate(floors) for name in names}
    shown = ["python" if name == "python.relay._native" else name for name in shown]
    assert sorted(shown) == sorted(height)
    assert [height[name] for name in shown] == sorted(height[name] for name in shown)


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter({module: ours(module) for module in MODULES}).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("module", sorted(SHELLS))
def test_no_process_shell_imports_another(module: str) -> None:
    seen, todo = set[str](), [module]
    while todo:
        for name in ours(todo.pop()):
            if name in MODULES and name not in seen:
                seen.add(name)
                todo.append(name)
    assert not seen & (SHELLS - {module})


@pytest.mark.parametrize("module", sorted(PARSING))
def test_codecs_take_and_give_bytes_and_do_no_io(module: str) -> None:
    assert not {name.split(".")[0] for name in imports(module)} & IO


def test_the_parsing_half_of_the_binlog_comes_without_sockets_and_drivers() -> None:
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"  # what measures coverage has loaded
        "from relay.binlog import Decoder, Flag, GtidSet, Replication, events\n"
        "import relay.binlog.progress\n"
        "heavy = {'socket', 'ssl', 'pymysql', 'asyncio'} & (set(sys.modules) - before)\n"
        "assert not heavy, f'decoding events imports {heavy}'\n"
        "from relay.binlog import Stream\n"
        "assert 'pymysql' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=patience(60))


def test_supervisor_is_single_threaded_when_it_forks() -> None:
    program = (
        "import sys, os, relay.commands.app, relay.commands.start\n"
        "assert len(os.listdir('/proc/self/task')) == 1, 'importing the supervisor starts threads'\n"
        "heavy = {'pyarrow', 'pyspark', 'asyncio', 'concurrent.futures', 'tornado', 'prometheus_client'}\n"
        "heavy |= {'http.client'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, f'the supervisor imports {heavy}'\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=patience(60))


@pytest.mark.parametrize(
    "source", [path for path in HEADERS if core_room(path) != "python"], ids=lambda path: path.name
)
def test_the_native_core_knows_nothing_of_python(source: Path) -> None:
    assert not re.search(r'#include\s*[<"](Python|cython|structmember)', source.read_text())
