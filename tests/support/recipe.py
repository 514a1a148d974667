"""The program of a page, run as a reader would run it, with the addresses and secrets of a test."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import ROOT
from tests.support.waiting import patience

PAGES = ROOT / "docs" / "recipes"
LONGEST = 60  # lines of a program


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code on a page, by its path from docs/recipes, that name that language, or none ("")."""
    text = (PAGES / f"{page}.md").read_text()
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(code) for _, name, code in found if name == language]


class Recipe:
    """A page's program in a folder of its own, which `folder` is; `replaced` maps texts of the page to the test's.

    `number` counts the programs of a page that has several. `command` runs it, by default as a script.

    Every text has to be on the page, so that no test runs a program that differs from it in more.
    """

    def __init__(
        self, page: str, folder: Path, replaced: Mapping[str, object], *, number: int = 0, command: Sequence[str] = ()
    ) -> None:
        code = blocks(page, "python")[number]
        assert len(code.splitlines()) <= LONGEST, f"{page}.md: {len(code.splitlines())} lines of code"
        for text, other in replaced.items():
            assert text in code, f"{page}.md: no {text!r} in the program"
            code = code.replace(text, str(other))
        self.page, self.folder = page, folder
        self.output = folder / "output"
        self._script = folder / "program.py"
        self._script.write_text(code)
        self._command = command or (str(self._script),)
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        command = [sys.executable, self._script, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=_environment(), capture_output=True, text=True, timeout=patience(timeout),
            check=False,
        )  # fmt: skip

    def start(self) -> None:
        """Starts it; what it prints is appended to `output`."""
        assert self._process is None, "already running"
        with open(self.output, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *self._command], cwd=self.folder, env=_environment(), stdout=output, stderr=output
            )

    def kill(self) -> None:
        """Sends SIGKILL, as a crash of the program; it must have been alive until now."""
        assert self._process is not None, "not running"
        status = self._process.poll()
        self._process.kill()
        self._process.wait()
        self._process = None
        assert status is None, f"the program ended with {status}:\n{self.output.read_text()}"

    def interrupt(self, timeout: float = 20) -> None:
        """Presses Ctrl-C and waits for the end; it must be an orderly one."""
        assert self._process is not None, "not running"
        self._process.send_signal(signal.SIGINT)
        status = self._process.wait(patience(timeout))
        self._process = None
        assert status == 0, f"the program ended with {status}:\n{self.output.read_text()}"

    def close(self) -> None:
        """Kills it if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def printed(self) -> list[str]:
        """The complete lines printed so far, by all its starts."""
        return [line for line in self.output.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
