"""Checks the client queue on a weak memory model, and weakens the queue in ways that the check must notice.

    python -m tests.queues.ring_memory [executions of each scenario [seed]]

It also runs small queues in every way within a bound, such as one death, one switch and one old load, and says how many
these were.

The queue's own sources are compiled with the model's words and fences in place of the processor's, which stand in
`native/base/words.hpp`. Each fence is a mutant, and so is each load that acquires and each store that releases. The
program takes the number of a mutant, from 1 on.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.queues.ring_mutants import MUTANTS, NATIVE, SOURCES, TESTS, Edit, Mutant, write_mutated
from tests.support.waiting import patience

CHECK = (
    "ring_memory.cpp",
    "ring_memory_queue.cpp",
    "ring_memory_turns.cpp",
    "ring_memory_deaths.cpp",
    "ring_scene.cpp",
    "memory_model.cpp",
    "memory_choices.cpp",
    "memory_litmus.cpp",
)
FLAGS = ("-std=c++17", "-O2", "-fvect-cost-model=dynamic", "-Wall", "-Wextra", "-Wshadow", "-Werror")
EXECUTIONS = 3000

SUCCESSOR_WAKES = "touch(slot);  // the predecessor may have died between publishing and waking"
# What no order is to blame for, so that each scenario has something to notice.
BROKEN = (
    Mutant(
        "what is in flight is not kept",
        (Edit("queue/broker.cpp", "for (size_t i = 0; i < n; ++i) lowest = std::min(lowest, ranges[i].frame);", ";"),),
    ),
    *(
        mutant
        for mutant in MUTANTS
        if mutant.name
        in {
            "a slot is used again although its rows wait",
            "the in-flight area is written after the record that points to it",
            "the broker's position passes clients that are not published",
            "a restarted broker decides again what a client has been given",
            "a block is given to another client although a server holds it",
        }
    ),
    Mutant("a broker's successor wakes nobody", (Edit("queue/broker_clients.cpp", SUCCESSOR_WAKES, ";"),)),
)
# Files whose loads that acquire and stores that release are mutants too. One file reads those of the journal.
ORDERED = ("base/words.hpp", "base/text_page.hpp", "journal/watermarks.hpp", "queue/")
UNMODELLED = "queue/checkpoint_check.cpp"
ACCESS = r"(?<!snapshot_)(?P<dot>\.|->)(?P<access>get|set)\("
# Stands in the model's `Word`: an access whose order a mutant drops.
WEAKENED = """
  uint64_t get_or_relaxed(bool weak) const { return weak ? relaxed() : get(); }
  void set_or_put(bool weak, uint64_t v, int site = __builtin_LINE()) { weak ? put(v, site) : set(v, site); }
"""
FENCE = r"\bfence\(std::memory_order_(?P<order>\w+)\);"
ACCESSED = re.compile(r"\w+(?:\([^()]*\))?$")
HEAD = re.compile(r"(?:  )?(?!if|for|while|switch|return|else)\w.*?([\w:~]+)\(.*\{(?:  //.*| .*\})?$")
CLASS = re.compile(r"(?:class|struct) (?:alignas\(64\) )?(\w+) .*\{$")


def accessed(found: re.Match[str]) -> str:
    """The word before an access, such as `lease(worker, slot)`."""
    word = ACCESSED.search(found.string[: found.start()])
    return word[0] if word else "?"


def model_source(path: Path, mutants: list[str]) -> str:
    """The source with the model's fences; its mutants are appended, and stand in it as branches on `relay_mutant`."""
    scope = function = ""

    def weaken(found: re.Match[str]) -> str:
        if found["access"] == "get":
            mutants.append(f"{function}: relaxed load of {accessed(found)}")
            return f"{found['dot']}get_or_relaxed(relay_mutant == {len(mutants)}"
        if found["access"] == "set":
            mutants.append(f"{function}: relaxed store of {accessed(found)}")
            return f"{found['dot']}set_or_put(relay_mutant == {len(mutants)}, "
        order = found["order"]
        mutants.append(f"{function}: no {order} fence")
        model = f"if (relay_mutant != {len(mutants)}) fence("
        if order != "seq_cst":
            return f"{model}std::memory_order_{order});"
        mutants.append(f"{function}: acq_rel fence instead of seq_cst")
        return f"{model}relay_mutant == {len(mutants)} ? std::memory_order_acq_rel : std::memory_order_seq_cst);"

    name = f"{path.parent.name}/{path.name}"
    is_ordered = name.startswith(ORDERED) and name != UNMODELLED
    weakened = re.compile(f"{FENCE}|{ACCESS}" if is_ordered else f"{FENCE}(?P<access>)")
    lines = []
    for line in path.read_text().splitlines(keepends=True):
        if head := CLASS.match(line):
            scope = f"{head[1]}::"
        if head := HEAD.match(line):
            function = head[1] if line[0] != " " else scope + head[1]
        lines.append(weakened.sub(weaken, line))
    return "".join(lines)


def sources() -> list[Path]:
    """All native sources: a fence that stands where no scenario comes is a mutant that is not noticed."""
    python = NATIVE / "python"  # where C++ files are what Cython made
    wrapper = {path for suffix in ("pyx", "pxd") for path in python.rglob(f"*.{suffix}")}
    core = {path for path in NATIVE.glob("*/*.?pp") if path.parent != python}
    return sorted(core | wrapper)


def model_sources(folder: Path) -> tuple[dict[str, str], list[str]]:
    """The sources as the check compiles them, by name, and the mutants that they have. `folder` has the broken ones."""
    mutants = [mutant.name for mutant in BROKEN]
    texts: dict[str, str] = {}
    for path in sources():
        name = str(path.relative_to(NATIVE))
        broken = folder / name
        text = model_source(broken if broken.exists() else path, mutants)
        text = text.replace("class Word {\n public:", f"class Word {{\n public:{WEAKENED}")
        texts[name] = text.replace("std::atomic<uint64_t>", "model::Atomic").replace(
            "std::atomic_thread_fence", "model::fence"
        )
    return texts, mutants


def mutants() -> list[str]:
    """What each mutant is, from number 1 on."""
    with tempfile.TemporaryDirectory() as folder:
        write_mutated(Path(folder), BROKEN)
        return model_sources(Path(folder))[1]


def compile_check(folder: Path) -> Path:
    """Builds the check in `folder`; the path of the program."""
    write_mutated(folder, BROKEN)
    for name, text in model_sources(folder)[0].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    ring = folder / "ring.cpp"
    ring.write_text("".join(f'#include "{name}"\n' for name in SOURCES))
    program = folder / "ring_memory"
    includes = [f"-I{folder}", f"-I{TESTS}", "-include", "memory_model.hpp", "-include", "mutant.hpp"]
    tests = [str(TESTS / name) for name in CHECK]
    subprocess.run(["g++", *FLAGS, *includes, str(ring), *tests, "-o", str(program)], check=True)
    return program


def long_scenarios() -> list[str]:
    """The scenarios that run in every way for so long that a test of its own does it."""
    texts = "".join(path.read_text() for path in TESTS.glob("ring_memory_*.cpp"))
    return re.findall(r'\{"([^"]+)", \w+, \{[\d, ]+\}, true\}', texts)


def check_long(program: Path, scenario: str) -> tuple[bool, str]:
    """As `check`, of one scenario in every way."""
    return _checked(program, "1", "0", "0", "whole", scenario)


def check(program: Path, mutant: int = 0, *, executions: int = EXECUTIONS, seed: int = 1) -> tuple[bool, str]:
    """Whether every execution was right, and what the program says."""
    return _checked(program, str(seed), str(executions), str(mutant), "short")


def _checked(program: Path, *arguments: str) -> tuple[bool, str]:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=patience(900))
    if done.returncode not in {0, 1}:
        raise AssertionError(f"the check ended with {done.returncode}: {done.stderr}")
    return done.returncode == 0, (done.stderr or done.stdout).strip()


def main() -> int:
    """Prints a table of the mutants, and by what each was noticed."""
    given = [int(argument) for argument in sys.argv[1:]]
    executions, seed = [*given, *(EXECUTIONS, 1)[len(given) :]]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        program = compile_check(Path(folder))
        whole = [
            *(pool.submit(check_long, program, scenario) for scenario in long_scenarios()),
            pool.submit(check, program, executions=executions, seed=seed),
        ]
        names = mutants()
        weak = [
            pool.submit(check, program, number, executions=executions, seed=seed) for number in range(1, len(names) + 1)
        ]
        wrong = 0
        for one in whole:
            is_right, told = one.result()
            wrong += not is_right
            print(told, flush=True)
        for name, one in zip(names, weak, strict=True):
            is_unnoticed, told = one.result()
            wrong += is_unnoticed
            print(f"{name:80}  {'NOT NOTICED' if is_unnoticed else told.removeprefix('ring_memory: ')}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
