"""Runs the parts of `make check`, one after the other, and writes a table of them: python -m scripts.check [PART...]

CHECK_MINUTES=n scales the parts that have no end of their own, such as fuzzing; CHECK_SEED=n repeats the seed of
another run. The output of each part is shown, and kept in build/check/PART.log; the table is build/check/table.md.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

ROOT = Path(__file__).parents[1]
FOLDER: Final = ROOT / "build" / "check"
MINUTES: Final = 100.0  # what the whole may take on two cores, and takes less of
_HANG: Final = 3  # a part that takes so many times its minutes hangs
_GRACE: Final = 60.0  # seconds for a part that is interrupted to end its servers
_INTERRUPTED: Final = "FAILED: interrupted"
_MOST_NAMED: Final = 20  # failed tests of a part that the end of a run names

Counted = tuple[int, int]  # passed, failed


def of_pytest(log: str) -> Counted:
    """The sums of pytest's closing lines."""
    closing = "\n".join(re.findall(r"^=+ .*\b(?:passed|failed|errors?)\b.* in [\d.]+s\b.*=+$", log, re.MULTILINE))
    passed, failed = (re.findall(rf"\b(\d+) {word}", closing) for word in ("passed", "(?:failed|errors?)"))
    return sum(map(int, passed)), sum(map(int, failed))


def of_fuzz(log: str) -> Counted:
    """The fuzz targets."""
    failed = r"fuzz: \S+ (?:crashed|failed|died of|does not compile|did not begin)\b"
    return lines(r"\d+ inputs, \d+ edges, \d+ kept$", log), lines(failed, log)


def of_names(log: str) -> Counted:
    """Random statements as tests, and a comparison of names on each server."""
    passed, failed = of_pytest(log)
    met, missed = lines(r"the requirements are met$", log), lines(r"a requirement is not met$", log)
    return passed + met, failed + missed


def of_types(log: str) -> Counted:
    """The cases of the matrix."""
    cases = [
        (int(every), int(wrong)) for every, wrong in re.findall(r" (\d+) cases: .* (\d+) wrong$", log, re.MULTILINE)
    ]
    return sum(every - wrong for every, wrong in cases), sum(wrong for _, wrong in cases)


def of_docs(log: str) -> Counted:
    """The one site."""
    return lines("docs: open build/site", log), 0


def lines(pattern: str, log: str) -> int:
    """How many lines begin with the pattern."""
    return len(re.findall(f"^{pattern}", log, re.MULTILINE))


@dataclass(frozen=True)
class Depth:
    """How deep a part without an end of its own goes: the variable that says so, and what it costs.

    `fixed` minutes pass whatever the depth is; a unit of it costs `unit` minutes more.
    """

    variable: str
    fixed: float
    unit: float
    least: float
    whole: bool = True

    def value(self, minutes: float) -> str:
        """The depth that takes so many minutes."""
        depth = max(self.least, (minutes - self.fixed) / self.unit)
        return str(int(depth)) if self.whole else f"{depth:.3f}"


@dataclass(frozen=True)
class Part:
    """A part of the check. `minutes` is what it takes on two cores of the whole's MINUTES."""

    name: str
    command: Sequence[str]
    minutes: float
    counted: Callable[[str], Counted] = of_pytest
    depth: Depth | None = None
    seeded: bool = True

    def scaled(self, minutes: float) -> float:
        """What it takes if the whole has so many minutes."""
        if not self.depth:
            return self.minutes
        return max(self.minutes * minutes / MINUTES, self.depth.fixed + self.depth.least * self.depth.unit)


@dataclass(frozen=True)
class Result:
    """What came of a part; `why` is empty if it passed."""

    part: Part
    seconds: float
    passed: int
    failed: int
    why: str


PARTS: Final = (
    Part("all", ("make", "test"), 10),
    Part("browser", ("make", "test-browser"), 7),
    Part("spark", ("make", "test-spark"), 10),
    Part("cluster", ("make", "test-cluster"), 7),
    Part("types", ("make", "test-types"), 1, of_types, seeded=False),
    Part("docs", ("make", "docs"), 1, of_docs, seeded=False),
    Part("arm", ("make", "test-arm"), 5, seeded=False),
    Part("kill", ("make", "kill"), 28, depth=Depth("RELAY_KILLS", fixed=22, unit=0.4, least=4)),
    Part("faults", ("make", "test-faults"), 16, depth=Depth("RELAY_FAULTS", 8, 54, least=0.01, whole=False)),
    # Three servers, one after the other. What compiles first, and 15 native targets, two at a time, then 7 in Python.
    Part("names", ("make", "test-names"), 8, of_names, Depth("RELAY_NAMES", fixed=3, unit=3 / 60, least=30)),
    Part("fuzz", ("make", "fuzz"), 7, of_fuzz, Depth("FUZZ_SECONDS", fixed=2.5, unit=14.5 / 60, least=5)),
)


def check(parts: Iterable[Part], folder: Path, minutes: float, seed: int) -> int:
    """Run these parts, and write logs and table into the folder. Returns the exit code: 1 if a part failed."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = list(parts)
    again = f'make check PARTS="{" ".join(part.name for part in chosen)}" CHECK_SEED={seed} CHECK_MINUTES={minutes:g}'
    print(f"check: seed {seed}; to repeat this run: {again}", flush=True)
    results: list[Result] = []
    for part in chosen:
        environment = surroundings(part, minutes, seed)
        print(f"check: {part.name} begins", flush=True)
        results.append(result := run(part, environment, folder / f"{part.name}.log", part.scaled(minutes)))
        print(f"check: {part.name} {result.why or 'passed'} in {result.seconds:.0f} s", flush=True)
        (folder / "table.md").write_text(f"`{again}`\n\n{table(results, seed)}")
        if result.why == _INTERRUPTED:
            break
    for result in results:
        log = folder / f"{result.part.name}.log"
        if result.why:
            print(f"check: {result.part.name} {result.why}; its output is {log}")
            named = re.findall(r"^(?:FAILED|ERROR) \S+", log.read_text(errors="replace"), re.MULTILINE)
            print(*(f"  {line}" for line in named[:_MOST_NAMED]), sep="\n", end="\n" if named else "")
    print(table(results, seed), end="", flush=True)
    return int(len(results) < len(chosen) or any(result.why for result in results))


def surroundings(part: Part, minutes: float, seed: int) -> dict[str, str]:
    """The environment of a part: all servers for each test, the seed, and the depth."""
    # What the outer make hands down is not for the make of a part.
    inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    depth = {part.depth.variable: part.depth.value(part.scaled(minutes))} if part.depth else {}
    return inherited | {"RELAY_SERVERS": "all", "RELAY_SEED": str(seed), "FUZZ_SEED": str(seed)} | depth


def run(part: Part, environment: dict[str, str], log: Path, minutes: float) -> Result:
    """Run a part, show its output while it comes, and count what it did."""
    patience = float(os.environ.get("RELAY_PATIENCE", "1"))
    begun = time.monotonic()
    end, why = begun + _HANG * patience * minutes * 60, ""
    with log.open("wb") as output, log.open("rb") as shown:
        # A file and no pipe: what a part left running, and which holds its output, must not hold this up.
        process = subprocess.Popen(
            part.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, process_group=0,
        )  # fmt: skip
        try:
            while process.poll() is None and time.monotonic() < end:
                show(shown.read())
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        except KeyboardInterrupt:
            why = _INTERRUPTED
        if process.poll() is None:
            why = why or f"FAILED: it took more than {(end - begun) / 60:.0f} minutes"
            stop(process)
        show(shown.read())
    passed, failed = part.counted(log.read_text(errors="replace"))
    return Result(part, time.monotonic() - begun, passed, failed, why or verdict(process.returncode, passed, failed))


def show(output: bytes) -> None:
    """Pass on what a part wrote."""
    sys.stdout.buffer.write(output)
    sys.stdout.flush()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a part with all its processes, and kill those that do not end."""
    for number, seconds in ((signal.SIGINT, _GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(seconds)


def verdict(code: int, passed: int, failed: int) -> str:
    """Why a part failed; empty if it passed."""
    if code < 0:
        return f"FAILED: killed by {signal.Signals(-code).name}"
    if code:
        return "FAILED" if failed else f"FAILED: exit code {code}"
    if failed or not passed:
        return f"FAILED: exit code 0, with {passed} passed and {failed} failed"
    return ""


def table(results: Sequence[Result], seed: int) -> str:
    """The results in Markdown, with their sum."""
    rows = [("part", "result", "seconds", "passed", "failed", "seed")]
    rows += [
        (each.part.name, each.why or "passed", f"{each.seconds:.0f}", str(each.passed), str(each.failed),
         str(seed) if each.part.seeded else "-")
        for each in results
    ]  # fmt: skip
    bad = sum(bool(each.why) for each in results)
    rows += [
        ("whole", f"{bad} FAILED" if bad else "passed", f"{sum(each.seconds for each in results):.0f}",
         str(sum(each.passed for each in results)), str(sum(each.failed for each in results)), str(seed))
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    written = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "".join(f"| {line} |\n" for line in (written[0], " | ".join("-" * width for width in widths), *written[1:]))


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([part.name for part in PARTS]))
@click.option("--minutes", envvar="CHECK_MINUTES", type=click.FloatRange(min=1), default=MINUTES, show_default=True)
@click.option("--seed", envvar="CHECK_SEED", type=click.IntRange(0, 2**31 - 1), help="By default a new one.")
def main(names: Sequence[str], minutes: float, seed: int | None) -> None:
    """Run these parts in this order, by default all."""
    parts = {part.name: part for part in PARTS}
    chosen = [parts[name] for name in dict.fromkeys(names or parts)]
    sys.exit(check(chosen, FOLDER, minutes, random.randrange(2**31) if seed is None else seed))


if __name__ == "__main__":
    main()
