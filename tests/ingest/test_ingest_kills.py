"""The ingest after kills and failed flushes: it loses and repeats nothing."""

from __future__ import annotations

import os
import random
import signal
import struct
import time
import traceback
from pathlib import Path

import pytest

from relay.journal import frames
from tests.support import binlogs
from tests.support.binlogs import Fed, StreamPosition
from tests.support.made_streams import START, plain, transaction


class Script:
    """A long made-up binlog of plain, DDL and XA groups, from any group of it on."""

    def __init__(self, count: int, seed: int) -> None:
        chance = random.Random(seed)
        self.groups: list[tuple[int, bytes]] = []  # start in the binlog, packets
        self.values: list[list[int]] = []  # of each ROWS frame to be, in commit order
        self.end = 4
        prepared: list[tuple[int, list[int]]] = []
        number = 0
        while number < count:
            number += 1
            values = [number * 10 + i for i in range(chance.randint(1, 4))]
            kind = chance.random()
            if kind < 0.1 and len(prepared) < 3:
                xid = f"X'{number:08x}',X'',1"
                self._add(
                    binlogs.query(f"XA START {xid}", self.end + 10),
                    binlogs.table_map(5, "t", self.end + 20),
                    binlogs.write_rows(5, values, self.end + 30),
                    binlogs.query(f"XA END {xid}", self.end + 40),
                    binlogs.made(38, struct.pack("<BIII", 0, 1, 4, 0) + number.to_bytes(4, "big"), self.end + 1000),
                )
                prepared.append((number, values))
            elif kind < 0.25 and prepared:
                which, values = prepared.pop(chance.randrange(len(prepared)))
                verb = chance.choice(["COMMIT", "ROLLBACK"])
                self._add(binlogs.query(f"XA {verb} X'{which:08x}',X'',1", self.end + 1000))
                if verb == "COMMIT":
                    self.values.append(values)
            elif kind < 0.3:
                self._add(binlogs.query("ALTER TABLE t FORCE", self.end + 1000))
            else:
                self._add(
                    binlogs.query("BEGIN", self.end + 10),
                    binlogs.table_map(5, "t", self.end + 20),
                    binlogs.write_rows(5, values, self.end + 30),
                    binlogs.xid(self.end + 1000),
                )
                self.values.append(values)

    def _add(self, *packets: bytes) -> None:
        self.groups.append((self.end, b"".join(packets)))
        self.end += 1000

    def stream(self, start: StreamPosition, groups: int) -> bytes:
        """So many groups from this position."""
        left = [packets for at, packets in self.groups if at >= start.position]
        return plain(*left[:groups], start=start)


def values_in(fed: Fed) -> list[list[int]]:
    bodies = [frame.body[2:] for frame in fed.frames() if isinstance(frame, frames.Rows)]
    return [[int.from_bytes(body[at + 1 : at + 5], "little") for at in range(0, len(body), 5)] for body in bodies]


def killed_ingest(directory: Path, script: Script, seed: int) -> bool:
    """A child that goes on with the stream, and is killed within some groups, or one time in eight behind them.

    Whether it found the whole stream in the journal.
    """
    chance = random.Random(seed)
    reached, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            fed = Fed(directory, segment=64 * 1024, prepared_memory=100 * (seed % 3))
            if not fed.writer.state().file:
                fed.writer.source(START.position, START.file, "", "test")
            if fed.writer.state().position == script.end:
                os._exit(0)
            resume = fed.ingest.resume()
            fed.ingest.start(resume.file, resume.position)
            chunk = chance.choice([100, 1000, 50000])
            stream = script.stream(StreamPosition(resume.file, resume.position), 150)
            some = chance.randrange(len(stream))
            fed.feed(stream[:some], chunk)
            os.write(told, b"some")
            fed.feed(stream[some:], chunk)
            fed.writer.flush()
            os.write(told, b"rest")
            signal.pause()
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(told)
    os.read(reached, 4)
    if seed % 8:
        time.sleep(chance.uniform(0, 0.005))
    else:  # a machine may be so slow that a child gets nowhere in that time
        os.read(reached, 4)
    os.close(reached)
    os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code == 0


def prepared_group(xid: str, value: int, at: int) -> bytes:
    """A transaction of one row up to its XA PREPARE, in the 1000 bytes of the binlog up to `at` + 1000."""
    return (
        binlogs.query(f"XA START X'{xid}',X'',1", at + 100)
        + binlogs.table_map(5, "t", at + 200)
        + binlogs.write_rows(5, [value], at + 800)
        + binlogs.query(f"XA END X'{xid}',X'',1", at + 900)
        + binlogs.made(38, struct.pack("<BIII", 0, 1, 4, 0) + bytes.fromhex(xid), at + 1000)
    )


@pytest.mark.parametrize("again", [False, True], ids=["", "its id is used again"])
def test_prepared_rows_outlive_a_flush_that_fails_after_their_commit(tmp_path: Path, again: bool) -> None:
    """The journal is cut back to where their XA COMMIT is still to come: they are read once more from the source."""
    groups = [transaction(1, 1000), prepared_group("0000000a", 2, 2000)]
    groups.append(binlogs.query("XA COMMIT X'0000000a',X'',1", 4000))
    if again:
        groups.append(prepared_group("0000000a", 3, 4000))
    fed = Fed(tmp_path)
    fed.begin(START)
    fed.feed(plain(*groups[:2]))
    fed.writer.flush()
    fed.feed(b"".join(groups[2:]))
    assert values_in(fed) == [[1], [2]]
    fail_sync(tmp_path)
    fed.open()
    assert values_in(fed) == [[1]]
    for _ in range(2):  # as often as it restarts
        resume = fed.ingest.resume()
        assert 2000 < resume.position < 3000, "where its rows begin"
        fed.open()
    fed.begin(StreamPosition(resume.file, resume.position))
    fed.feed(plain(*groups[1:], start=StreamPosition(resume.file, resume.position)))
    assert values_in(fed) == [[1], [2]] and not [each for each in fed.asked if each.asks == "unknown"]
    fed.open()
    last = fed.ingest.resume().position
    assert 4000 < last < 5000 if again else last == fed.writer.state().position, "the first is done with"


def fail_sync(directory: Path) -> None:
    """As if the last sync of the journal had failed (see tests/journal/test_journal_sync.py)."""
    note = directory / "sync"
    boot, begun, done, _ = struct.unpack("<QQQQ", note.read_bytes())
    note.write_bytes(struct.pack("<QQQQ", boot, begun + 1, done, 1))


def test_a_reader_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    script = Script(9_000, 11)
    kills = 0
    while not killed_ingest(tmp_path, script, kills):
        kills += 1
        assert kills < 1000
    fed = Fed(tmp_path, segment=64 * 1024)
    assert kills > 50
    assert values_in(fed) == script.values
    assert fed.writer.state().position == script.end
