"""The installed packages work: the wheel needs no compiler; the sources need one and say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

from relay import __version__
from scripts import man, wheels
from tests.support import ROOT

PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
OFFLINE = ("--no-index", "--no-build-isolation", "--no-deps")
BUILDS = pytest.mark.slow  # the native core once more: CI runs it with the slow suites


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist of a tree in which nothing was built or installed."""
    folder = tmp_path_factory.mktemp("sources")
    tree = folder / "relay"
    made = (".*", "build", "dist", "*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*made))
    for path in (tree / "native" / "python").rglob("*.cpp"):
        path.unlink()
    man.main(tree / "man")
    wheels.build_sdist(tree, folder)
    (packed,) = folder.glob("binlog_relay-*.tar.gz")
    subprocess.run(["tar", "-xf", packed, "-C", folder], check=True)
    return folder / f"binlog_relay-{__version__}"


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as `make wheel` builds it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([*PIP, "wheel", *OFFLINE, "--wheel-dir", folder, sources], check=True)
    return next(folder.glob("binlog_relay-*.whl"))


def files(wheel: Path) -> set[str]:
    """What a wheel installs, without what it says about itself."""
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def installed(tmp_path: Path, *wheels: Path) -> Path:
    """A folder with these wheels, in which the relay runs and loads its core."""
    environment = {"PATH": "/nonexistent", "HOME": str(tmp_path)}
    target = tmp_path / "installed"
    subprocess.run([*PIP, "install", *OFFLINE, "--target", target, *wheels], env=environment, check=True)
    program = "import relay._native as n; from relay.cli import main; print(n.__file__); main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--version"],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(target))
    assert __version__ in done.stdout
    return target


@BUILDS
def test_wheel_holds_the_native_core_built_and_no_sources_of_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.startswith("relay/_native.") and name.endswith(".so") for name in names)
    assert not [name for name in names if name.endswith((".cpp", ".hpp", ".pyx", ".pxd"))]
    assert "pyspark_relay/__init__.py" in names, "Spark looks for the data source there"
    page = [
        path.relative_to(ROOT).as_posix() for path in (ROOT / "relay" / "page").rglob("*.*") if path.suffix != ".pyc"
    ]
    assert not set(page) - set(names), "the page is served from the package"
    assert "relay/page/vendor/uplot/LICENSE" in names
    pages = [name for name in names if name.startswith(f"binlog_relay-{__version__}.data/data/share/man/man1/relay")]
    assert len(pages) == len(list(man.pages())), "`man relay` finds its pages beside the program"
    assert not [name for name in names if not name.startswith(("relay/", "pyspark_relay/", "binlog_relay-"))]


@BUILDS
def test_the_wheel_without_the_client_depends_on_the_clients_and_has_no_file_of_it(wheel: Path, tmp_path: Path) -> None:
    whole = files(wheel)
    contents = wheels.unpack(Path(shutil.copy(wheel, tmp_path)), tmp_path)
    wheels.leave_out_client(contents)
    rest = wheels.pack(contents, tmp_path)
    client = wheels.build_client(tmp_path / "client", tmp_path)
    assert not files(rest) & files(client)
    assert files(rest) | files(client) == whole
    target = installed(tmp_path, rest, client)
    (metadata,) = target.glob("binlog_relay-*.dist-info/METADATA")
    needed = message_from_string(metadata.read_text()).get_all("Requires-Dist", [])
    assert f"binlog-relay-client=={__version__}" in needed


@BUILDS
def test_wheel_installs_and_runs_where_there_is_no_compiler(wheel: Path, tmp_path: Path) -> None:
    target = installed(tmp_path, wheel)
    assert (target / "share/man/man1/relay-start.1").is_file()


def test_a_missing_compiler_is_one_clear_line_with_a_remedy(sources: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in {"CC", "CXX"}} | {
        "PATH": "/nonexistent"
    }
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--force"],
        cwd=sources,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("binlog-relay:")]
    assert line.startswith("binlog-relay: cannot build relay._native: no ")
    assert "apt-get install g++ python3-dev" in line
    assert "Traceback" not in done.stderr


def test_spark_finds_the_data_source_of_an_editable_install_from_any_folder(tmp_path: Path) -> None:
    """Spark looks for packages of this name so; tests/spark runs it."""
    listed = "import pkgutil; print(*(found.name for found in pkgutil.iter_modules()))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", listed], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "pyspark_relay" in done.stdout.split()


def test_lock_file_pins_every_package_by_hash_and_names_no_host() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert pins
    assert all("==" in pin and pin.endswith("\\") for pin in pins)
    assert not [line for line in lines if "://" in line]
    names = {pin.split("==")[0] for pin in pins}
    assert {
        "click",
        "cryptography",
        "cython",
        "msgspec",
        "mypy",
        "psutil",
        "pymysql",
        "pynacl",
        "pytest",
        "ruff",
    } <= names
