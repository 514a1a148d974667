"""What the stat document tells of the CDC port's processes."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import msgspec

from relay import stat
from relay._native import Arena
from relay.board import CDC_BYTES, Board, Boards, CDCStatus
from relay.config import load
from tests.madestat import STREAM

SHAPE = (8, 2, 1 << 20)
PROCESSES = ["cdc-0", "cdc-1"]


def test_connections_do_not_outlive_their_process(tmp_path: Path) -> None:
    arena = Arena(mmap.mmap(-1, Arena.size(*SHAPE)), *SHAPE)
    (tmp_path / "relay.conf").touch()
    settings = {"Server.Login": "l", "Server.AuthSecret": "s", "CDC.Enabled": "yes", "CDC.Port": "4711"}
    config, _ = load(str(tmp_path / "relay.conf"), {}, settings)
    boards = Boards(cdc=[Board(CDC_BYTES), Board(CDC_BYTES)])
    for board in boards.cdc:
        board.write(msgspec.msgpack.encode(CDCStatus(state="serving", rows=7, streams=[STREAM], left_out=3)))
    arena.beat(0, os.getpid())

    told = stat.collect(config, arena, tmp_path, PROCESSES, boards).cdc
    assert told
    alive, dead = told.processes
    assert told.port == 4711
    assert (alive.rows, alive.streams, alive.left_out) == (7, [STREAM], 3)
    assert (dead.rows, dead.streams, dead.left_out) == (7, [], 0)
