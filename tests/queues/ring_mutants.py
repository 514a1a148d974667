"""Defects of the client queue that its kill test must notice, as replacements in the native sources.

The mutants are compiled into one copy of the kill test, which takes the number of one of them (from 1) as an argument.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support import ROOT

NATIVE = ROOT / "native"
TESTS = ROOT / "tests" / "native"
KILL_TEST = ("ring_kill.cpp", "ring_processes.cpp", "ring_interleave.cpp")
SOURCES = (
    "queue/arena.cpp",
    "queue/queue.cpp",
    "queue/broker.cpp",
    "queue/broker_audience.cpp",
    "queue/broker_batch.cpp",
    "queue/broker_clients.cpp",
    "queue/broker_checkpoints.cpp",
    "queue/broker_lag.cpp",
)
FLAGS = ("-std=c++17", "-g1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-DRELAY_RING_STEPS")


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
    block_.in_flight.span[i].put(RowSpan::pack(ranges[i].first, ranges[i].rows));
  }
"""

WHOLE_RING = """\
  if (is_reusable(slot, c.w.lag ? c.w.lag_rows : c.w.queued)) {  // the end of all that stands in the ring
    c.writable = c.w.tail + slots;
    return true;
  }
"""

SEARCH = """\
for (uint64_t near = {}; low < near; ++low) {{
    if (waits(low)) return low;
  }}
"""

MUTANTS: Sequence[Mutant] = (
    Mutant(
        "slots are read without looking at their tags",
        (
            Edit("queue/arena.cpp", "if (slot.tag.relaxed() != index + 1) return false;", ";"),
            Edit("queue/arena.cpp", "return slot.tag.relaxed() == index + 1;", "return true;"),
        ),
    ),
    Mutant("a slot keeps its old tag while it is rewritten", (Edit("queue/broker.cpp", "s.tag.set(0);", ";"),)),
    Mutant(
        "a slot is published before it is written",
        (
            Edit(
                "queue/broker.cpp",
                "s.tag.set(0);",
                "++c.w.tail; publish(slot, scan_of(slot)); --c.w.tail; s.tag.set(0);",
            ),
        ),
    ),
    Mutant(
        "the in-flight area is written after the record that points to it",
        (
            Edit("queue/queue.cpp", IN_FLIGHT_LOOP, ";"),
            Edit(
                "queue/queue.cpp",
                "if (at_most_once) s.confirmed += rows;\n  block_.server.publish(s);",
                f"if (at_most_once) s.confirmed += rows;\n  block_.server.publish(s);\n{IN_FLIGHT_LOOP}",
            ),
        ),
    ),
    Mutant(
        "a slot is used again although its rows wait",
        (Edit("queue/broker.cpp", "if (c.reusable.covers(reach)) return true;", "return true;"),),
    ),
    Mutant(
        "a slot is used again because of a floor that is not published",
        (
            Edit(
                "queue/broker.cpp",
                "c.reusable = highest(taken(slot), c.floor);",
                "c.reusable = done(slot);",
            ),
        ),
    ),
    Mutant(
        "one slot more than were looked at counts as free",
        (Edit("queue/broker.cpp", "c.writable = c.w.tail + kAhead + 1;", "c.writable = c.w.tail + kAhead + 2;"),),
    ),
    Mutant(
        "a ring counts as free although rows in it wait",
        (Edit("queue/broker.cpp", WHOLE_RING, "c.writable = c.w.tail + slots; return true;"),),
    ),
    Mutant(
        "rows that need no slot are passed over without their floor",
        (Edit("queue/broker_batch.cpp", "c.w.floor_limit = c.w.queued.limited;", ";"),),
    ),
    Mutant(
        "a row more than the limit drops needs no slot",
        (Edit("queue/broker_batch.cpp", "\n    kept += rows;", "\n    kept += kept ? rows : rows + 1;"),),
    ),
    Mutant(
        "a refill does not wake",
        (
            Edit("queue/broker_lag.cpp", "touch(slot);  // wakes as well", "publish(slot, end);"),
            Edit("queue/broker_lag.cpp", "end_lag(slot);\n  touch(slot);", "end_lag(slot); publish(slot, end);"),
        ),
    ),
    Mutant(
        "the drop counter does not change together with the rest",
        (
            Edit(
                "queue/broker.cpp",
                "w.dropped_newest += frame.rows - rows;",
                "w.dropped_newest += frame.rows - rows;"
                "BrokerRecord now = arena_.client(slot).broker.read();"
                "now.dropped_newest = w.dropped_newest;"
                "arena_.client(slot).broker.publish(now);",
            ),
        ),
    ),
    Mutant(
        "rows count as confirmed when they are handed out",
        (
            Edit(
                "queue/queue.cpp",
                "s.lo = at_most_once ? s.hi : peek.number;",
                "s.lo = s.hi; if (!at_most_once) s.confirmed += rows;",
            ),
        ),
    ),
    Mutant(
        "drop-oldest trims the range it pushes",
        (
            Edit(
                "queue/broker.cpp",
                "const bool is_in = w.lag || push(slot, {position, w.queued.limited, frame.rows, true, false}, scan);\n"
                "  if (!is_in) begin_lag(slot, position);",
                "const uint32_t few = static_cast<uint32_t>(std::min<uint64_t>(frame.rows, v.limit));"
                "if (!w.lag && !push(slot, {position, w.queued.limited, few, true, false}, scan))"
                " begin_lag(slot, position);",
            ),
        ),
    ),
    Mutant(
        "the broker's position passes clients that are not published",
        (
            Edit(
                "queue/broker.cpp",
                "publish_touched(position);",
                "control.broker.scan.put(position); publish_touched(position);",
            ),
        ),
    ),
    Mutant(
        "a restarted broker decides again what a client has been given",
        (Edit("queue/broker_batch.cpp", "if (position < c.w.scan) continue;", ";"),),
    ),
    Mutant(
        "rows are counted before they are pushed",
        (
            Edit(
                "queue/broker.cpp",
                "w.floor_limit = before;",
                "w.floor_limit = before; w.queued.limited = end;",
            ),
        ),
    ),
    Mutant(
        "a row drops all that wait beyond its limit",
        (Edit("queue/broker.cpp", "floor = end - std::max(v.limit, waiting);", "floor = end - v.limit;"),),
    ),
    Mutant(
        "a frame that is decided twice drops rows twice",
        (Edit("queue/broker.cpp", "if (waiting > v.limit) before = w.floor_limit;", ";"),),
    ),
    Mutant(
        "rows beyond a limit are passed over with those of a run",
        (
            Edit(
                "queue/broker_batch.cpp",
                "if (c.w.queued.limited - done(who.slot).limited > limit) return 0;",
                ";",
            ),
        ),
    ),
    Mutant(
        "a server does not look again after it has asked to be woken",
        (Edit("queue/queue.cpp", "return peek(&first, 1, 1).rows > 0;", "return first.rows > 0;"),),
    ),
    Mutant(
        "a broker is not told that a ring has room again",
        (Edit("queue/queue.cpp", "if (!v.broker.lag) return false;", "return false;"),),
    ),
    Mutant(
        "a record is taken although it changed while it was copied",
        (Edit("base/words.hpp", "if (cur_.relaxed() != cur) continue;", ";"),),
    ),
    Mutant(
        "rows that were dropped at the limit come back with a refill",
        (
            Edit(
                "queue/broker_lag.cpp",
                "return is_next ? accepted(slot, w.accepted_head) : Queued{};",
                "return is_next ? accepted(slot, w.accepted_head)"
                " : Queued{w.lag, w.lag_rows.limited, frame.rows, true, false};",
            ),
        ),
    ),
    Mutant(
        "a delivery is counted before it is written",
        (
            Edit(
                "queue/deliveries.hpp",
                "entry.at.put(d.at, site);",
                "count_.set(n + 1, site); entry.at.put(d.at, site);",
            ),
        ),
    ),
    Mutant(
        "deliveries that were overwritten while they were read are told",
        (
            Edit(
                "queue/deliveries.hpp",
                "if (count_.relaxed() < begin + kSlots) return end - begin;",
                "return end - begin;",
            ),
        ),
    ),
    Mutant(
        "rows that are handed out again are not counted",
        (Edit("queue/queue.cpp", "s.served += rows;\n  s.repeats = repeats();", "s.repeats = repeats();"),),
    ),
    Mutant(
        "the length of a queue is not noted before rows are taken",
        (Edit("queue/queue.cpp", "s->most_waiting = std::max(s->most_waiting, peek.waiting());", ";"),),
    ),
    Mutant(
        "the length of a queue is not noted before rows are dropped",
        (Edit("queue/broker.cpp", "w.most_waiting = std::max(w.most_waiting, w.queued.total() - from.total());", ";"),),
    ),
    Mutant(
        "dropped rows are counted but not passed",
        (Edit("queue/queue.cpp", "p.done = highest(s.taken(), b.floor());", "p.done = s.taken();"),),
    ),
    Mutant(
        "a block is given to another client although a server holds it",
        (Edit("queue/broker_clients.cpp", "if (arena_.lease(worker, slot).get()) return true;", ";"),),
    ),
    Mutant(
        "a server does not look again after it has taken hold of a block",
        (Edit("queue/queue.cpp", "if (arena_.id(slot_).relaxed() == id) return true;", "return true;"),),
    ),
    Mutant(
        "rows that no limit concerns count towards one",
        (
            Edit(
                "queue/broker.cpp",
                "let_in(slot, v.limit, position, frame, scan);\n",
                "const uint64_t kept = w.queued.kept - done(slot).kept;"
                "let_in(slot, v.limit > kept ? v.limit - kept : 0, position, frame, scan);",
            ),
        ),
    ),
    Mutant(
        "rows that were dropped between others are not passed",
        (Edit("queue/queue.cpp", "if (q.end() <= from) continue;", "if (q.end() <= from) break;"),),
    ),
    Mutant(
        "rows of both classes are searched as if they were of one",
        (
            Edit(
                "queue/arena.cpp",
                SEARCH.format("is_mixed ? high : std::min(low + 2, high)"),
                SEARCH.format("std::min(low + 2, high)"),
            ),
        ),
    ),
    Mutant(
        "rows of both kinds of filters drop the oldest",
        (Edit("queue/broker_audience.cpp", "v.is_mixed = oldest;", "if (oldest) v.rule = Rule::oldest;"),),
    ),
    Mutant(
        "a list that moves leaves its entries behind",
        (Edit("queue/broker_clients.cpp", "copy.frame.put(each.frame);", ";"),),
    ),
    Mutant(
        "skipped rows are not counted",
        (Edit("queue/queue.cpp", "s.lo += 1;\n  s.repeats = 0;\n  s.skipped += 1;", "s.lo += 1;\n  s.repeats = 0;"),),
    ),
)


def write_mutated(folder: Path, mutants: Sequence[Mutant] = MUTANTS) -> None:
    """Copies the native sources to `folder`, with every mutant in them as a branch on `relay_mutant`."""
    names = [*SOURCES, *(str(header.relative_to(NATIVE)) for header in NATIVE.rglob("*.hpp"))]
    if unknown := {edit.file for mutant in mutants for edit in mutant.edits} - {*names}:
        raise AssertionError(f"mutants edit files that are not compiled: {', '.join(sorted(unknown))}")
    for name in names:
        text = (NATIVE / name).read_text()
        edits: dict[str, str] = {}
        for number, mutant in enumerate(mutants, 1):
            for edit in mutant.edits:
                if edit.file != name:
                    continue
                if text.count(edit.original) != 1:
                    raise AssertionError(f"mutant {mutant.name!r}: not once in {name}: {edit.original!r}")
                branches = edits.get(edit.original, "")
                edits[edit.original] = f"{branches}if (relay_mutant == {number}) {{ {edit.mutated} }} else "
        for original, branches in edits.items():
            text = text.replace(original, f"{branches}{{\n{original}\n}}")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "mutant.hpp").write_text("#pragma once\nextern int relay_mutant;\n")


def compile_kill_test(folder: Path, *flags: str, mutants: bool = False, compiler: Sequence[str] = ("g++",)) -> Path:
    """Builds the kill test in `folder`; the path of the program."""
    source = NATIVE
    extra = list(flags)
    if mutants:
        write_mutated(folder)
        source = folder
        extra += ["-DRING_MUTANTS", "-include", str(folder / "mutant.hpp"), "-Wno-error", "-w"]
    program = folder / ("mutants" if mutants else "ring_kill")
    sources = [str(source / name) for name in SOURCES] + [str(TESTS / name) for name in KILL_TEST]
    command = [*compiler, *FLAGS, *extra, f"-I{source}", *sources, "-o", str(program)]
    subprocess.run(command, check=True, text=True)
    return program
