"""Counts the instructions that a row takes in the native core: python -m bench.instructions [--record | --base COMMIT]

Where nothing else can tell two commits apart, instructions do: the count of a workload is the same in each run, on a
busy machine as well. bench/instructions.cpp has the workloads; Valgrind counts. bench/instructions.json holds the
counts that were last recorded; a workload that takes more fails. --base counts another commit too, and compares.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import click

from tests.support import ROOT

RECORDED: Final = ROOT / "bench" / "instructions.json"
MORE: Final = 1.05  # times as many instructions are a loss
_COUNTED: Final = "relay::bench::counted*"
# Otherwise long copies are one instruction with repeats, of which each counts.
_NO_REPEATS: Final = "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000"


def count(root: Path) -> dict[str, float]:
    """Instructions of a row by workload, in the core that was built in this clone."""
    program = build(root, "instructions")
    names = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()

    def count_one(name: str) -> float:
        with tempfile.TemporaryDirectory(prefix="instructions-") as folder:
            return count_command(program, name, folder)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(names, pool.map(count_one, names), strict=True))


def build(root: Path, name: str) -> Path:
    """Compile bench/NAME.cpp with the core that was built in this clone."""
    program = root / "build" / "bench" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    core = map(str, (root / "build" / "native" / "native").glob("*/*.o"))
    source = str(root / "bench" / f"{name}.cpp")
    subprocess.run(["c++", "-std=c++17", "-O2", f"-I{root}/native", source, *core, "-lz", "-o", program], check=True)
    return program


def count_command(program: Path, *arguments: str) -> float:
    """The instructions of relay::bench::counted() in this program, divided by the number that it prints."""
    counting = ["valgrind", "--tool=callgrind", f"--toggle-collect={_COUNTED}", "--callgrind-out-file=/dev/null"]
    environment = os.environ | {"GLIBC_TUNABLES": _NO_REPEATS}
    command = [*counting, str(program), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"bench: {' '.join(arguments)} failed:\n{done.stderr}")
    return round(int(found[1]) / int(done.stdout), 1)


def compiler() -> str:
    """What the counts depend on besides the sources."""
    version = subprocess.run(["c++", "--version"], check=True, capture_output=True, text=True).stdout
    return f"{os.uname().machine}, {version.splitlines()[0]}"


def losses(counted: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """The workloads that take more instructions than before."""
    return [name for name, number in counted.items() if number > MORE * before.get(name, number)]


def show(counted: Mapping[str, float], before: Mapping[str, float]) -> None:
    """Print a line for each workload."""
    click.echo(f"{'instructions a row':<20} {'before':>10} {'now':>10} {'times':>8}")
    for name, number in counted.items():
        old = before.get(name)
        click.echo(f"{name:<20} {old or '-':>10} {number:>10} {f'{number / old:.3f}' if old else 'new':>8}")


def count_commit(commit: str) -> dict[str, float]:
    """The counts of another commit, which is built in build/compare."""
    root = ROOT / "build" / "compare"
    subprocess.run(["git", "worktree", "remove", "--force", root], cwd=ROOT, capture_output=True, check=False)
    subprocess.run(["git", "worktree", "add", "--detach", root, commit], cwd=ROOT, check=True, capture_output=True)
    try:
        if not (root / "bench" / "instructions.cpp").exists():
            raise click.ClickException(f"{commit} counts no instructions; choose a later commit")
        click.echo(f"bench: building {commit}")
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=root, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        return count(root)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", root], cwd=ROOT, check=True)


@click.command()
@click.option("--record", is_flag=True, help="Write the counts into bench/instructions.json.")
@click.option("--base", metavar="COMMIT", help="Compare with this commit instead of the recorded counts.")
def main(record: bool, base: str | None) -> None:
    """Count the instructions that a row takes, and fail if a workload takes more than before."""
    counted = count(ROOT)
    if record:
        RECORDED.write_text(json.dumps({"compiler": compiler(), "counts": counted}, indent=2) + "\n")
    recorded = json.loads(RECORDED.read_text())
    before = count_commit(base) if base else recorded["counts"]
    show(counted, before)
    if not base and recorded["compiler"] != compiler():
        click.echo(f"bench: not compared: recorded with {recorded['compiler']}, this is {compiler()}")
    elif found := losses(counted, before):
        hint = "" if base else "; if that is the price of something better, record it: make bench-instructions RECORD=1"
        raise click.ClickException(f"more instructions than before: {', '.join(found)}{hint}")


if __name__ == "__main__":
    main()
