"""What a journal holds after a kill, damage, or a restart."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from pathlib import Path

import pytest

from relay._native import JournalError, JournalReader, JournalWriter
from relay.errors import StopCode
from relay.journal import frames
from tests.support.journal_kills import kill_often
from tests.support.written_journal import FRAME_HEADER, SEGMENT, packed, rows_of, transaction


def test_what_was_never_proven_does_not_survive_a_restart(tmp_path: Path, writer: JournalWriter) -> None:
    transaction(writer, writer.define(packed("other")), 1)
    state = writer.state()
    table = writer.define(packed(proven=False), pending=True)
    for number in range(2, 200):
        transaction(writer, table, number, 1000)
    again = JournalWriter(tmp_path, SEGMENT)
    assert again.state() == state
    assert [row.sequence for row in rows_of(tmp_path, again)] == [1]


def test_stale_frames_after_the_cut_are_never_taken_for_new_ones(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    transaction(writer, table, 1)
    cut = writer.end()
    for number in range(2, 40):  # frames of one size, so that leftovers stand exactly where new frames end
        transaction(writer, table, number)
    segment = tmp_path / f"{0:020}.seg"
    data = bytearray(segment.read_bytes())
    end, state = writer.end(), writer.state()
    del writer
    data[cut : cut + 4] = bytes(4)  # as if the first frame after the cut had never been completed
    segment.write_bytes(data)
    again = JournalWriter(tmp_path, SEGMENT)
    assert (again.end(), again.state().sequence) == (cut, 3)
    assert not any(segment.read_bytes()[cut:])
    table = again.define(packed())
    transaction(again, table, 2)
    third = JournalWriter(tmp_path, SEGMENT)
    assert third.end() == again.end() < end
    assert third.state().gtid_set == "0-1-2" != state.gtid_set


def test_damage_is_cut_away_with_all_that_follows(tmp_path: Path, writer: JournalWriter) -> None:
    table = writer.define(packed())
    ends = [writer.end()]
    for number in range(1, 20):
        transaction(writer, table, number)
        ends.append(writer.end())
    del writer
    segment = tmp_path / f"{0:020}.seg"
    data = bytearray(segment.read_bytes())
    data[ends[9] + FRAME_HEADER + 20] ^= 1
    segment.write_bytes(data)
    assert JournalWriter(tmp_path, SEGMENT).end() == ends[9]


def test_damage_to_what_was_flushed_is_refused(tmp_path: Path, writer: JournalWriter) -> None:
    """Others may stand there: to cut it away and write it anew would change what they have read."""
    table = writer.define(packed())
    for number in range(1, 20):
        transaction(writer, table, number)
    middle = writer.end()
    for number in range(20, 120):
        transaction(writer, table, number, 1000)
        writer.flush()
    del writer
    segment = tmp_path / f"{0:020}.seg"
    data = bytearray(segment.read_bytes())
    data[middle + FRAME_HEADER + 20] ^= 1
    segment.write_bytes(data)
    with pytest.raises(JournalError, match="damaged before position") as caught:
        JournalWriter(tmp_path, SEGMENT)
    assert caught.value.code == StopCode.JOURNAL_CORRUPT


def test_unfinished_segments_are_removed(tmp_path: Path, writer: JournalWriter) -> None:
    unfinished = tmp_path / f"{SEGMENT:020}.seg.new"
    unfinished.write_bytes(b"half a segment")
    assert JournalWriter(tmp_path, SEGMENT).state() == writer.state()
    assert not unfinished.exists()


def test_a_journal_without_anything_readable_is_refused(tmp_path: Path, writer: JournalWriter) -> None:
    del writer
    segment = tmp_path / f"{0:020}.seg"
    data = bytearray(segment.read_bytes())
    data[80] ^= 1
    segment.write_bytes(data)
    with pytest.raises(JournalError) as caught:
        JournalWriter(tmp_path, SEGMENT)
    assert caught.value.code == StopCode.JOURNAL_CORRUPT


def test_a_wiped_journal_is_another_generation(tmp_path: Path) -> None:
    first = JournalWriter(tmp_path / "a", SEGMENT)
    second = JournalWriter(tmp_path / "b", SEGMENT)
    assert first.generation() != second.generation()
    assert JournalWriter(tmp_path / "c", SEGMENT, 77).generation() == 77
    assert JournalWriter(tmp_path / "c", SEGMENT, 78).generation() == 77


@pytest.mark.parametrize("times", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_killed_writers_leave_whole_transactions(tmp_path: Path, times: int) -> None:
    kill_often(tmp_path, times)


def test_readers_follow_while_the_writer_runs(tmp_path: Path) -> None:
    word = multiprocessing.RawValue(ctypes.c_uint64, 0)
    count = 4000
    pid = os.fork()
    if pid == 0:
        try:
            writer = JournalWriter(tmp_path, SEGMENT)
            writer.publish_to(ctypes.addressof(word))
            table = writer.define(packed())
            for number in range(1, count + 1):
                transaction(writer, table, number, 400)
        finally:
            os._exit(0)
    reader, at, seen = JournalReader(tmp_path), 0, 0
    while seen < count:
        end = word.value
        for position, payload in reader.frames(at, end):
            frame = frames.decode(payload)
            if isinstance(frame, frames.Rows):
                assert frame.sequence == 2 * seen + 1
                seen += 1
            assert position < end
        at = end
        reader.release_before(at)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
