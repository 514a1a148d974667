"""The CDC port's processes in the stat document."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import msgspec

from relay._native import Arena
from relay.config.load import load
from relay.monitoring import stat_collect
from relay.runtime.process_status import CDC_BYTES, CDCStatus, StatusPage, StatusPages
from tests.support.sample_stat import STREAM

SHAPE = (8, 2, 1 << 20)
PROCESSES = ["cdc-0", "cdc-1"]


def test_connections_do_not_outlive_their_process(tmp_path: Path) -> None:
    arena = Arena(mmap.mmap(-1, Arena.size(*SHAPE)), *SHAPE)
    (tmp_path / "relay.conf").touch()
    settings = {"Server.Login": "l", "Server.AuthSecret": "s", "CDC.Enabled": "yes", "CDC.Port": "4711"}
    config, _ = load(str(tmp_path / "relay.conf"), {}, settings)
    status_pages = StatusPages(cdc=[StatusPage(CDC_BYTES), StatusPage(CDC_BYTES)])
    for status_page in status_pages.cdc:
        status_page.write(msgspec.msgpack.encode(CDCStatus(state="serving", rows=7, streams=[STREAM], left_out=3)))
    arena.beat(0, os.getpid())

    told = stat_collect.collect(config, arena, tmp_path, PROCESSES, status_pages).cdc
    assert told
    alive, dead = told.processes
    assert told.port == 4711
    assert (alive.rows, alive.streams, alive.left_out) == (7, [STREAM], 3)
    assert (dead.rows, dead.streams, dead.left_out) == (7, [], 0)
