"""Ways to break the client queue that its kill test must notice: what to replace in the native sources.

The mutants are compiled into one copy of the kill test, which takes the number of one of them (from 1) as an argument.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "relay" / "native"
TESTS = ROOT / "tests" / "native"
KILL_TEST = ("ring_kill.cpp", "ring_processes.cpp", "ring_interleave.cpp")
SOURCES = (
    "arena.cpp",
    "queue.cpp",
    "broker.cpp",
    "broker_audience.cpp",
    "broker_clients.cpp",
    "broker_checkpoints.cpp",
)
FLAGS = ("-std=c++17", "-g", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-DRELAY_RING_STEPS")


class Edit(NamedTuple):
    """Statements of a file, which occur once, and the statements that stand in their place."""

    file: str
    original: str
    mutated: str


class Mutant(NamedTuple):
    """A named defect."""

    name: str
    edits: Sequence[Edit]


IN_FLIGHT_LOOP = """\
  for (size_t i = 0; i < count; ++i) {
    block_.in_flight.frame[i].put(ranges[i].frame);
    block_.in_flight.span[i].put(Slot::pack(ranges[i].first, ranges[i].rows));
  }
"""

WHOLE_RING = """\
  if (is_reusable(slot, c.w.lag ? c.w.lag_number : c.w.queued)) {  // the end of all that stands in the ring
    c.writable = c.w.tail + c.w.ring_slots;
    return true;
  }
"""

MUTANTS: Sequence[Mutant] = (
    Mutant(
        "slots are read without looking at their tags",
        (
            Edit("arena.cpp", "if (slot.tag.get() != index + 1) return false;", ";"),
            Edit("arena.cpp", "return slot.tag.relaxed() == index + 1;", "return true;"),
        ),
    ),
    Mutant("a slot keeps its old tag while it is rewritten", (Edit("broker.cpp", "s.tag.put(0);", ";"),)),
    Mutant(
        "a slot is published before it is written",
        (Edit("broker.cpp", "s.tag.put(0);", "++c.w.tail; publish(slot, scan_of(slot)); --c.w.tail; s.tag.put(0);"),),
    ),
    Mutant(
        "the in-flight area is written after the record that points to it",
        (
            Edit("queue.cpp", IN_FLIGHT_LOOP, ";"),
            Edit(
                "queue.cpp",
                "if (at_most_once) s.confirmed += rows;\n  block_.server.publish(s);",
                f"if (at_most_once) s.confirmed += rows;\n  block_.server.publish(s);\n{IN_FLIGHT_LOOP}",
            ),
        ),
    ),
    Mutant(
        "a slot is used again although its rows wait",
        (Edit("broker.cpp", "if (end <= c.reusable) return true;", "return true;"),),
    ),
    Mutant(
        "a slot is used again because of a floor that is not published",
        (
            Edit(
                "broker.cpp",
                "c.reusable = std::max(hi(slot), c.floor);",
                "c.reusable = head(slot);",
            ),
        ),
    ),
    Mutant(
        "one slot more than were looked at counts as free",
        (Edit("broker.cpp", "c.writable = c.w.tail + kAhead + 1;", "c.writable = c.w.tail + kAhead + 2;"),),
    ),
    Mutant(
        "a ring counts as free although rows in it wait",
        (Edit("broker.cpp", WHOLE_RING, "c.writable = c.w.tail + c.w.ring_slots; return true;"),),
    ),
    Mutant(
        "rows that need no slot are passed over without their floor",
        (Edit("broker.cpp", "c.w.floor_limit = c.w.queued;", ";"),),
    ),
    Mutant(
        "a row more than the limit drops needs no slot",
        (Edit("broker.cpp", "kept += rows;", "kept += kept ? rows : rows + 1;"),),
    ),
    Mutant(
        "a ring that takes another's place is as free as that was",
        (Edit("broker_clients.cpp", "c.writable = c.blocked = 0;", "c.blocked = 0;"),),
    ),
    Mutant(
        "a refill does not wake",
        (
            Edit("broker.cpp", "touch(slot);  // wakes as well", "publish(slot, end);"),
            Edit("broker.cpp", "c.w.lag = 0;\n  touch(slot);", "c.w.lag = 0; publish(slot, end);"),
        ),
    ),
    Mutant(
        "the drop counter does not change together with the rest",
        (
            Edit(
                "broker.cpp",
                "c.w.dropped_newest += frame.rows - rows;",
                "c.w.dropped_newest += frame.rows - rows;"
                "BrokerRecord now = arena_.client(slot).broker.read();"
                "now.dropped_newest = c.w.dropped_newest;"
                "arena_.client(slot).broker.publish(now);",
            ),
        ),
    ),
    Mutant(
        "rows count as confirmed when they are handed out",
        (
            Edit(
                "queue.cpp",
                "s.lo = at_most_once ? s.hi : peek.number;",
                "s.lo = s.hi; if (!at_most_once) s.confirmed += rows;",
            ),
        ),
    ),
    Mutant(
        "drop-oldest trims the range it pushes",
        (
            Edit(
                "broker.cpp",
                "floor = c.w.queued + rows - v.limit;",
                "floor = c.w.queued + rows - v.limit; rows = static_cast<uint32_t>(std::min<uint64_t>(rows, v.limit));",
            ),
        ),
    ),
    Mutant(
        "the broker's position passes clients that are not published",
        (
            Edit(
                "broker.cpp",
                "publish_touched(position);",
                "control.broker.scan.set(position); publish_touched(position);",
            ),
        ),
    ),
    Mutant(
        "a reader does not notice that the ring was replaced",
        (
            Edit(
                "queue.cpp",
                "if (p.rows && block_.broker.read().ring_epoch == b.ring_epoch) return p;",
                "if (p.rows) return p;",
            ),
        ),
    ),
    Mutant(
        "a restarted broker decides again what a client has been given",
        (Edit("broker.cpp", "if (position < c.w.scan) continue;", ";"),),
    ),
    Mutant(
        "rows are counted before they are pushed",
        (
            Edit(
                "broker.cpp",
                "c.w.floor_limit = std::min(floor, c.w.queued);",
                "c.w.floor_limit = std::min(floor, c.w.queued); c.w.matched += rows;",
            ),
            Edit("broker.cpp", "c.w.matched += frame.rows;", "if (v.rule != Rule::oldest) c.w.matched += frame.rows;"),
        ),
    ),
    Mutant(
        "a new ring keeps what its memory held",
        (Edit("broker_clients.cpp", "clear_ring(to.offset, slots);", ";"),),
    ),
    Mutant(
        "a server does not look again after it has asked to be woken",
        (Edit("queue.cpp", "return peek(&first, 1, 1).rows > 0;", "return first.rows > 0;"),),
    ),
    Mutant(
        "a broker is not told that a ring has room again",
        (Edit("queue.cpp", "if (!v.broker.lag) return false;", "return false;"),),
    ),
    Mutant(
        "a record is taken although it changed while it was copied",
        (Edit("words.hpp", "if (cur_.relaxed() != cur) continue;", ";"),),
    ),
    Mutant(
        "rows that were dropped at the limit come back with a refill",
        (
            Edit(
                "broker.cpp",
                "return rule == Rule::keep || rule == Rule::oldest;",
                "return rule != Rule::none;",
            ),
        ),
    ),
    Mutant(
        "a delivery is counted before it is written",
        (Edit("deliveries.hpp", "entry.at.put(d.at, site);", "count_.set(n + 1, site); entry.at.put(d.at, site);"),),
    ),
    Mutant(
        "deliveries that were overwritten while they were read are told",
        (Edit("deliveries.hpp", "if (count_.relaxed() < begin + kSlots) return end - begin;", "return end - begin;"),),
    ),
    Mutant(
        "rows that are handed out again are not counted",
        (Edit("queue.cpp", "s.served += rows;\n  s.repeats = repeats();", "s.repeats = repeats();"),),
    ),
    Mutant(
        "the length of a queue is not noted before rows are taken",
        (Edit("queue.cpp", "s->most_waiting = std::max(s->most_waiting, peek.waiting());", ";"),),
    ),
    Mutant(
        "the length of a queue is not noted before rows are dropped",
        (Edit("broker.cpp", "w.most_waiting = std::max(w.most_waiting, w.queued - from);", ";"),),
    ),
    Mutant(
        "dropped rows are counted but not passed",
        (Edit("queue.cpp", "p.number = std::max(s.hi, b.floor());", "p.number = s.hi;"),),
    ),
)


def write_mutated(folder: Path) -> None:
    """Copies the native sources to `folder`, with every mutant in them as a branch on `relay_mutant`."""
    for name in (*SOURCES, *(header.name for header in NATIVE.glob("*.hpp"))):
        text = (NATIVE / name).read_text()
        edits: dict[str, str] = {}
        for number, mutant in enumerate(MUTANTS, 1):
            for edit in mutant.edits:
                if edit.file != name:
                    continue
                if text.count(edit.original) != 1:
                    raise AssertionError(f"mutant {mutant.name!r}: not once in {name}: {edit.original!r}")
                branches = edits.get(edit.original, "")
                edits[edit.original] = f"{branches}if (relay_mutant == {number}) {{ {edit.mutated} }} else "
        for original, branches in edits.items():
            text = text.replace(original, f"{branches}{{\n{original}\n}}")
        (folder / name).write_text(text)
    (folder / "mutant.hpp").write_text("#pragma once\nextern int relay_mutant;\n")


def compile_kill_test(folder: Path, *flags: str, mutants: bool = False) -> Path:
    """Builds the kill test in `folder`; the path of the program."""
    source = NATIVE
    extra = list(flags)
    if mutants:
        write_mutated(folder)
        source = folder
        extra += ["-DRING_MUTANTS", "-include", str(folder / "mutant.hpp"), "-Wno-error", "-w"]
    program = folder / ("mutants" if mutants else "ring_kill")
    sources = [str(source / name) for name in SOURCES] + [str(TESTS / name) for name in KILL_TEST]
    command = ["g++", *FLAGS, *extra, f"-I{source}", *sources, "-o", str(program)]
    subprocess.run(command, check=True, text=True)
    return program
