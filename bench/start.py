"""How long `relay start` takes to be ready: with a long journal and many known clients, beside one that has neither."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench.clients import Client
from bench.run import Run
from relay._native import JournalWriter
from tests.madejournal import ID, INSERT, NAME, NOON, body, definition
from tests.relayproc import RELAY, SECRET, RelayProcess, write_conf

JOURNAL_BYTES = 10 << 30
CLIENTS = 1000
SEGMENT_BYTES = 256 << 20
FRAME_BYTES = 256 << 10
PUNCH_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
PAGE = 4096
ROW_BYTES = 6  # of zeros, which are a row: nothing is NULL, the id is 0, the name empty
_libc = ctypes.CDLL(None, use_errno=True)


def measure(run: Run) -> None:
    """Starts by turns of both, after an orderly stop; the time is from the command's start to its ready line."""
    settings: dict[str, object] = {
        "Relay.SegmentBytes": SEGMENT_BYTES,
        "Relay.JournalKeepBytes": "100GiB",
        "Relay.JournalMaxBytes": "200GiB",
        "Relay.MaxClients": CLIENTS,
    }
    confs = []
    for name in ("empty", "full"):
        folder = run.scratch / name
        folder.mkdir()
        confs.append(write_conf(folder, run.server, settings))
        _started_once(confs[-1])
    empty, full = confs
    size, clients = int(JOURNAL_BYTES * run.scale), max(1, int(CLIENTS * run.scale))
    run.report.step(f"making a journal of {size >> 20} MiB and {clients} clients")
    _lengthen(full.parent / "data" / "journal", size)
    _introduce(full, clients)
    bare: list[float] = []
    laden: list[float] = []
    for number in range(run.rounds):
        run.report.step(f"round {number + 1} of {run.rounds}")
        bare.append(_seconds_to_ready(empty))
        laden.append(_seconds_to_ready(full))
    what = f"relay start to ready, {size / (1 << 30):.3g} GiB of journal, {clients} known clients"
    run.report.figure(what, laden, "s", at_most=1)
    run.report.ratio("  of a relay without journal and clients", laden, bare, "s", of="that")


def _started_once(conf: Path) -> None:
    relay = RelayProcess(conf)
    try:
        relay.start()
        relay.stop()
    finally:
        relay.end()


def _lengthen(journal: Path, size: int) -> None:
    """Append whole transactions until the journal has so many bytes.

    Their frames are the relay's own; their rows are zeros, whose pages are given back at once, since a file reads them
    as zeros all the same. That is done in memory: a file system on a disk writes pages before it gives them back.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        memory = Path(folder) / "journal"
        _copy(journal, memory)
        writer = JournalWriter(memory, SEGMENT_BYTES)
        table = writer.define(definition(ID, NAME))
        rows = FRAME_BYTES // ROW_BYTES
        images = body(INSERT, 2, bytes(rows * ROW_BYTES))
        position = writer.state().position
        flushed = 0
        while writer.end() < size:
            before = writer.end()
            writer.rows(table, INSERT, position, NOON, rows, images)
            writer.commit(position, NOON)
            base = writer.end() // SEGMENT_BYTES * SEGMENT_BYTES
            if before >= base:
                _give_back(memory / f"{base:020d}.seg", before - base, writer.end() - base)
            if base > flushed:  # as the relay does every second
                flushed = base
                writer.flush()
        writer.flush()
        _copy(memory, journal)


def _copy(source: Path, target: Path) -> None:
    """With its holes."""
    subprocess.run(["cp", "-a", f"{source}/.", target], check=True)


def _give_back(segment: Path, begin: int, end: int) -> None:
    begin, end = -(-begin // PAGE) * PAGE + PAGE, end // PAGE * PAGE - PAGE  # without the pages of heads
    fd = os.open(segment, os.O_RDWR)
    try:
        if _libc.fallocate(fd, PUNCH_HOLE, ctypes.c_long(begin), ctypes.c_long(end - begin)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(segment))
    finally:
        os.close(fd)


def _introduce(conf: Path, clients: int) -> None:
    """Make so many clients known, each with a filter and with its place at the journal's end."""
    relay = RelayProcess(conf)
    try:
        relay.start()
        for number in range(clients):
            Client(relay.port, SECRET, f"client-{number}", f"table_{number}").close()
        relay.stop()
    finally:
        relay.end()


def _seconds_to_ready(conf: Path) -> float:
    began = time.monotonic()
    command = [*RELAY, "start", "-c", str(conf)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as relay:
        assert relay.stdout is not None
        line = relay.stdout.readline()
        seconds = time.monotonic() - began
        relay.terminate()
    assert line.startswith(b"ready "), f"relay start printed {line!r}"
    return seconds
