"""The time until `relay start` is ready: with a long journal and many known clients, against one without."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench.clients import Client
from bench.run import Run, started
from relay._native import JournalWriter
from tests.support.journal_builder import ID, INSERT, NAME, NOON, body, definition
from tests.support.relay_process import RELAY, SECRET, write_conf

JOURNAL_BYTES = 10 << 30
CLIENTS = 1000
SEGMENT_BYTES = 256 << 20
FRAME_BYTES = 256 << 10
PUNCH_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
PAGE = 4096
ROW_BYTES = 6  # zeros, which are a valid row: nothing is NULL, the id is 0, the name is empty
_libc = ctypes.CDLL(None, use_errno=True)


def measure(run: Run) -> None:
    """Starts both in turns, after an orderly stop; the time is from the command's start to its ready line."""
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
        with started(confs[-1]):
            pass  # creates its data folder
    empty, full = confs
    size, clients = int(JOURNAL_BYTES * run.scale), max(1, int(CLIENTS * run.scale))
    run.report.step(f"making a journal of {size >> 20} MiB and {clients} clients")
    _extend_journal(full.parent / "data" / "journal", size)
    _register_clients(full, clients)
    empty_times: list[float] = []
    full_times: list[float] = []
    for number in range(run.rounds):
        run.report.step(f"round {number + 1} of {run.rounds}")
        empty_times.append(_seconds_to_ready(empty))
        full_times.append(_seconds_to_ready(full))
    what = f"relay start to ready, {size / (1 << 30):.3g} GiB of journal, {clients} known clients"
    run.report.figure(what, full_times, "s", at_most=1)
    run.report.ratio("  of a relay without journal and clients", full_times, empty_times, "s", of="that")


def _extend_journal(journal: Path, size: int) -> None:
    """Appends whole transactions until the journal has this size.

    Their frames are ordinary ones. Their rows are zeros, whose pages are freed at once, since a file reads holes as
    zeros. This is done in memory: a file system on a disk writes pages before it frees them.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        memory = Path(folder) / "journal"
        _copy(journal, memory)
        append_holes(memory, size)
        _copy(memory, journal)


def append_holes(journal: Path, size: int) -> None:
    """Appends transactions with holes to a journal in memory, until it has this size."""
    writer = JournalWriter(journal, SEGMENT_BYTES)
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
            _punch_hole(journal / f"{base:020d}.seg", before - base, writer.end() - base)
        if base > flushed:  # as the relay does every second
            flushed = base
            writer.flush()
    writer.flush()


def _copy(source: Path, target: Path) -> None:
    """Copies it with its holes."""
    subprocess.run(["cp", "-a", f"{source}/.", target], check=True)


def _punch_hole(segment: Path, begin: int, end: int) -> None:
    begin, end = -(-begin // PAGE) * PAGE + PAGE, end // PAGE * PAGE - PAGE  # without the pages with headers
    fd = os.open(segment, os.O_RDWR)
    try:
        if _libc.fallocate(fd, PUNCH_HOLE, ctypes.c_long(begin), ctypes.c_long(end - begin)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(segment))
    finally:
        os.close(fd)


def _register_clients(conf: Path, clients: int) -> None:
    """Registers clients, each with a filter and with its position at the journal's end."""
    with started(conf) as relay:
        for number in range(clients):
            Client(relay.port, SECRET, f"client-{number}", f"table_{number}").close()


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
