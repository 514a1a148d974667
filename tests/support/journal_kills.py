"""Writers of a journal that are killed at any moment, and what must be in it afterwards."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

from relay._native import JournalReader, JournalWriter
from relay.journal import frames
from tests.support.waiting import until
from tests.support.written_journal import SEGMENT, packed


def killed_writer(directory: Path, word: ctypes.c_uint64, seed: int) -> int:
    """A child that appends transactions of 1 to 5 frames without end; killed after a random while, its pid reaped.

    With an even seed the while begins at its first commit, however slow the machine is.
    """
    before = JournalWriter(directory, SEGMENT).committed()
    pid = os.fork()
    if pid == 0:
        try:
            chance = random.Random(seed)
            writer = JournalWriter(directory, SEGMENT)
            writer.publish_to(ctypes.addressof(word))
            number = writer.state().position
            tables = [writer.define(packed(f"t{i}", extra=i * 50)) for i in range(3)]
            while True:
                number += 1
                for _ in range(chance.randint(1, 5)):
                    body = number.to_bytes(8, "little") * chance.randint(1, 400)
                    writer.rows(chance.choice(tables), 1, number, number & 0xFFFF, 1, body)
                if chance.random() < 0.05:
                    writer.rollback()
                writer.commit(number, number & 0xFFFF, f"0-1-{number}")
                if chance.random() < 0.01:
                    writer.flush()
                if chance.random() < 0.003:
                    writer.file(number, f"binlog.{number:06}")
                if chance.random() < 0.02:
                    writer.drop_before(max(0, writer.committed() - 10 * SEGMENT))
        finally:
            os._exit(1)
    try:
        if seed % 2 == 0:
            until(lambda: word.value > before, what=f"nothing committed after byte {before}", pause=0.001)
        time.sleep(random.Random(seed).uniform(0.002, 0.03))
    finally:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def check_whole(directory: Path, published: int) -> tuple[int, str]:
    """After a recovery: whole transactions one after the other up to the end, no fewer than were published."""
    flushed = JournalReader(directory).flushed()
    writer = JournalWriter(directory, SEGMENT)
    assert writer.committed() == writer.end() >= published
    assert JournalReader(directory).flushed() == writer.committed() >= flushed
    previous, bodies = None, set[bytes]()
    sequence = None
    for _, payload in JournalReader(directory).frames(writer.first(), writer.committed()):
        frame = frames.decode(payload)
        if isinstance(frame, frames.Rows):
            bodies.add(frame.body[:8])
            assert sequence in (None, frame.sequence)
            sequence = frame.sequence + frame.rows
        elif isinstance(frame, frames.Commit):
            assert previous is None or frame.position == previous + 1
            if previous is not None:
                assert bodies <= {frame.position.to_bytes(8, "little")}
            previous, bodies = frame.position, set()
            sequence = frame.sequence
    assert not bodies
    assert previous is None or writer.state().gtid_set == f"0-1-{previous}"
    assert previous is None or writer.state().sequence == sequence
    return writer.state().position, str(writer.generation())


def kill_often(directory: Path, times: int) -> None:
    word = multiprocessing.RawValue(ctypes.c_uint64, 0)
    generation = None
    for seed in range(times):
        assert killed_writer(directory, word, seed) == -signal.SIGKILL
        position, found = check_whole(directory, word.value)
        assert generation in (None, found)
        generation = found
    assert position >= times / 2
