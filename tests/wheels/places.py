"""Pythons that are not this one, each with a wheel of dist/ and its dependencies in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from examples.debian import HOST, MACHINES, Unpacked
from tests.support import ROOT

SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "testing"}
# Platforms in the names of wheels, those of our own first.
GLIBC = ("manylinux_2_27", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
MUSL = ("musllinux_1_2", "musllinux_1_1")


class Place:
    """A Python, the wheel of a C library's `platforms` for it, and the newest or the oldest dependencies."""

    def __init__(
        self,
        command: Sequence[str],
        version: str,
        processor: str,
        folder: Path,
        platforms: Sequence[str] = GLIBC,
        *,
        oldest: bool = False,
    ) -> None:
        self.command, self.site = [*command, "-P"], folder / "site"
        machine, _ = MACHINES[processor]
        (wheel,) = (ROOT / "dist").glob(f"*-{platforms[0]}_{machine}.whl")
        constraints = folder / "constraints.txt"
        constraints.write_text("".join(f"{pin}\n" for pin in oldest_versions()) if oldest else "")
        # pip runs in a Python of that version: conditions on it in the wheels' metadata are for the Python that pip
        # runs in.
        pip = folder / "python"
        pip.write_text(f'#!/bin/sh\nexec {" ".join(debian_python(version, HOST))} "$@"\n')
        pip.chmod(0o755)
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", pip, "install", "--quiet", "--disable-pip-version-check",
             "--target", self.site, "--find-links", ROOT / "dist",
             *(f"--platform={name}_{machine}" for name in platforms), "--implementation=cp",
             f"--python-version={version}", "--only-binary=:all:", "--constraint", constraints, wheel,
             "fastavro", "hypothesis", "pytest", "pytest-timeout"],
            check=True,
        )  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """That of its processes."""
        return os.environ | {"PYTHONPATH": str(self.site), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, arguments: Sequence[str], folder: Path, **variables: str) -> str:
        """Run the Python with these variables of the environment; its output. A failure shows all of it."""
        environment = self.environment | variables
        done = subprocess.run(
            [*self.command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout


def debian(version: str, processor: str) -> Unpacked:
    """Debian's packages of this version of Python, which are fetched if they are not there."""
    name = f"python-{SUITES[version]}-{processor}"
    packages = Unpacked(name, f"Python {version}", SUITES[version], ("python3", "tzdata"), print, processor)
    with packages.lock():
        packages.fetch()
    return packages


def debian_python(version: str, processor: str) -> list[str]:
    """The command of Debian's Python of this version."""
    return debian(version, processor).program(f"usr/bin/python{version}")


def oldest_versions() -> list[str]:
    """A pin for each dependency of pyproject.toml, at the oldest version that it allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [f"{name}=={version}" for name, version in (oldest(text) for text in project["dependencies"])]


def oldest(requirement: str) -> tuple[str, str]:
    """The name and the oldest version of a requirement."""
    found = re.match(r"([\w.-]+)(?:\[[\w,]+\])?[>=]=([\d.]+)", requirement)
    assert found, f"{requirement}: no oldest version"
    return found[1], found[2]
