"""Kills inside the two central operations, on the queue and on the journal; any tail of a journal."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from relay._native import JournalReader, JournalWriter
from relay.journal import frames
from tests.faults.ordeal import Allows, Line, times
from tests.queues.ring_mutants import compile_kill_test
from tests.queues.test_ring_kill import run
from tests.support.journal_kills import kill_often
from tests.support.written_journal import SEGMENT, packed, rows_of, transaction

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
Tell = Callable[[Line], None]


def test_killed_inside_queue_operations(tmp_path: Path, tell: Tell) -> None:
    """At random, and between any two stores to shared memory."""
    done = run(compile_kill_test(tmp_path, "-O2"), 100, (str(times(100)), str(times(40))))
    assert done.returncode == 0, done.stderr
    counts = re.search(r"(\d+) kills, \d+ at chosen places, (\d+) repeats, \d+ settled, (\d+) rows", done.stdout)
    assert counts, done.stdout
    kills, repeats, rows = map(int, counts.groups())
    tell(Line("SIGKILL inside queue operations", kills, rows, rows, 0, repeats, Allows.IN_FLIGHT.value, 0.0))


def test_killed_inside_journal_appends(tmp_path: Path, tell: Tell) -> None:
    kills = times(400)
    kill_often(tmp_path, kills)
    rows = JournalWriter(tmp_path, SEGMENT).state().sequence - 1
    tell(Line("SIGKILL inside journal appends", kills, rows, rows, 0, 0, Allows.NOTHING.value, 0.0))


def complete(folder: Path, segment: Path, content: bytes) -> list[frames.Rows]:
    """The rows that a recovery finds where the segment has this content; they are whole transactions."""
    segment.write_bytes(content)
    writer = JournalWriter(folder, SEGMENT)
    found = rows_of(folder, writer)
    assert writer.committed() == writer.end()
    assert writer.state().sequence == 1 + sum(row.rows for row in found)
    del writer
    assert not any(segment.read_bytes()[JournalReader(folder).flushed() :]), "what was cut away is still there"
    return found


def lived(folder: Path) -> tuple[Path, bytes, int, list[int]]:
    """A journal of one segment: its file and content, up to where it was flushed, and where transactions end."""
    writer = JournalWriter(folder, SEGMENT)
    tables = [writer.define(packed(name)) for name in ("first", "second")]
    ends, dice = list[int](), random.Random(3)
    for number in range(1, 60):
        transaction(writer, tables[number % 2], number, dice.choice((20, 40, 100)))
        ends.append(writer.end())
        if number == 40:
            flushed = writer.flush()
    [segment] = folder.glob("*.seg")
    return segment, segment.read_bytes(), flushed, ends


def test_a_journal_that_ends_at_any_byte_of_its_tail(tmp_path: Path, tell: Tell) -> None:
    segment, content, flushed, ends = lived(tmp_path)
    everything = complete(tmp_path, segment, content)
    sent = delivered = 0
    places = range(flushed, ends[-1] + 1)
    for cut in places:
        found = complete(tmp_path, segment, content[:cut] + bytes(len(content) - cut))
        whole = sum(end <= cut for end in ends)
        # A frame whose last bytes are zeros anyway is whole before its end.
        assert found == everything[: len(found)] and whole <= len(found) <= whole + 1, cut
        sent, delivered = sent + 2 * whole, delivered + 2 * min(len(found), whole)
    fault = "power cut: journal ends at any byte of its tail"
    tell(Line(fault, len(places), sent, delivered, sent - delivered, 0, Allows.NOTHING.value, 0.0))


def test_a_journal_whose_tail_has_holes(tmp_path: Path, tell: Tell) -> None:
    """Any sectors behind what was flushed are as they were before, zeros, or torn in the middle."""
    segment, content, flushed, ends = lived(tmp_path)
    everything = complete(tmp_path, segment, content)
    dice = random.Random(9)
    sent = delivered = 0
    for _ in range(times(1500)):
        torn = bytearray(content)
        sector, rate = dice.choice((8, 64, 512, 4096)), dice.random() ** 3
        first = len(torn)
        for at in range(flushed // sector * sector, ends[-1], sector):
            if dice.random() < rate:
                begin = max(at + dice.choice((0, 0, sector // 2)), flushed)
                torn[begin : at + sector] = bytes(at + sector - begin)
                first = min(first, begin)
        if dice.random() < 0.5:  # the word that a flush moves is in the first sector, which is written back at any time
            torn[48:56] = flushed.to_bytes(8, "little")
        found = complete(tmp_path, segment, bytes(torn))
        whole = sum(end <= first for end in ends)
        assert found == everything[: len(found)] and len(found) >= whole
        sent, delivered = sent + 2 * whole, delivered + 2 * min(len(found), whole)
    fault = "power cut: journal with holes in its tail"
    tell(Line(fault, times(1500), sent, delivered, sent - delivered, 0, Allows.NOTHING.value, 0.0))


def test_a_journal_that_lost_its_newest_segments(tmp_path: Path, tell: Tell) -> None:
    """Segments that appeared, but of which nothing, or not the beginning, reached the disk."""
    writer = JournalWriter(tmp_path / "whole", SEGMENT)
    table = writer.define(packed())
    for number in range(1, 60):
        transaction(writer, table, number, 1000)
    flushed = writer.flush()
    kept = len(rows_of(tmp_path / "whole", writer))
    for number in range(60, 260):
        transaction(writer, table, number, 1000)
    everything = rows_of(tmp_path / "whole", writer)
    segments = sorted((tmp_path / "whole").glob("*.seg"))
    unflushed = sum(int(segment.stem) <= flushed for segment in segments)
    dice, folder = random.Random(4), tmp_path / "left"
    sent = delivered = 0
    for _ in range(times(200)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        newest = dice.randrange(unflushed, len(segments))  # those behind it were made later: their names are not there
        for segment in segments[: newest + 1]:
            content = bytearray(segment.read_bytes())
            unsure = int(segment.stem) > flushed  # as each is that was made since
            if segment == segments[newest] or (unsure and dice.random() < 0.3):
                content[: dice.choice((0, 512, 4096, len(content)))] = b""
                content = bytearray(SEGMENT - len(content)) + content
            (folder / segment.name).write_bytes(content)
        writer = JournalWriter(folder, SEGMENT)
        found = rows_of(folder, writer)
        assert found == everything[: len(found)] and len(found) >= kept
        sent, delivered = sent + 2 * kept, delivered + 2 * min(kept, len(found))
    fault = "power cut: journal without its newest segments"
    tell(Line(fault, times(200), sent, delivered, sent - delivered, 0, Allows.NOTHING.value, 0.0))
